#include "server/source/column_file.h"

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "common/base/hash.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

const ColumnKey kKey{{1, 2}, {3, 4}, "nodes"};

TEST_CASE("measured values come back, as narrow as they can be", "[columns]") {
  rc::prop("for values of every width", [] {
    const auto bits = *rc::gen::inRange(1, 62);
    auto values = *rc::gen::container<std::vector<std::uint64_t>>(
        rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << bits));
    if (!values.empty() && *rc::gen::arbitrary<bool>()) values[0] = MeasuredValues::kNone;
    const MeasuredValues stored(values);
    const auto back = DecodeColumn(EncodeColumn(kKey, stored), kKey);
    RC_ASSERT(back.ok());
    RC_ASSERT(back->size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      RC_ASSERT(back->Has(i) == (values[i] != MeasuredValues::kNone));
      RC_ASSERT(back->At(i) == (back->Has(i) ? static_cast<std::int64_t>(values[i]) : 0));
    }
    if (values.size() > 1) {
      std::vector<std::int64_t> read(values.size() - 1);
      back->Read(1, read);
      for (std::size_t i = 0; i < read.size(); ++i) RC_ASSERT(read[i] == back->At(i + 1));
    }
  });
  const auto width = [](std::uint64_t value) { return MeasuredValues(std::vector{value}).width(); };
  CHECK(width(254) == 1);
  CHECK(width(255) == 2);
  CHECK(width(65'534) == 2);
  CHECK(width(65'535) == 4);
  CHECK(width(0xFFFFFFFE) == 4);
  CHECK(width(0xFFFFFFFF) == 8);
  CHECK(width(MeasuredValues::kNone) == 1);
}

WideValues Integers(const std::vector<std::int64_t>& values) {
  WideValues wide = WideValues::None(MeasuredType::kInt64, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    wide.Set(i, static_cast<std::uint64_t>(values[i]));
  }
  return wide;
}

TEST_CASE("integers that are no counts come back, as narrow as they can be", "[columns]") {
  rc::prop("for values of every width and sign", [] {
    const auto shift = *rc::gen::inRange(0, 64);
    auto values = *rc::gen::arbitrary<std::vector<std::int64_t>>();
    for (std::int64_t& value : values) value >>= shift;
    WideValues wide = Integers(values);
    const bool lacks = !values.empty() && *rc::gen::arbitrary<bool>();
    if (lacks) wide.bits[0] = wide.present[0] = 0;
    const MeasuredValues stored(wide);
    const auto back = DecodeColumn(EncodeColumn(kKey, stored), kKey);
    RC_ASSERT(back.ok());
    RC_ASSERT(back->type() == MeasuredType::kInt64);
    RC_ASSERT(back->size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      RC_ASSERT(back->Has(i) == (i > 0 || !lacks));
      RC_ASSERT(back->At(i) == (back->Has(i) ? values[i] : 0));
    }
  });
  const auto width = [](std::int64_t value) { return MeasuredValues(Integers({value})).width(); };
  CHECK(width(127) == 1);
  CHECK(width(-128) == 1);
  CHECK(width(128) == 2);
  CHECK(width(-129) == 2);
  CHECK(width(-32'769) == 4);
  CHECK(width(std::int64_t{1} << 31) == 8);
  CHECK(width(std::numeric_limits<std::int64_t>::min()) == 8);
}

TEST_CASE("floats come back with their bits, as those of float64", "[columns]") {
  const std::vector<float> values = {0.1f, -3.5f, std::numeric_limits<float>::infinity(),
                                     std::numeric_limits<float>::quiet_NaN()};
  WideValues wide = WideValues::None(MeasuredType::kFloat32, 9);
  for (std::size_t i = 0; i < values.size(); ++i) {
    wide.Set(i + 5, std::bit_cast<std::uint32_t>(values[i]));
  }
  const auto back = DecodeColumn(EncodeColumn(kKey, MeasuredValues(wide)), kKey);
  REQUIRE(back.ok());
  std::vector<std::int64_t> bits(9);
  std::vector<std::int64_t> present(9);
  back->Read(0, bits);
  back->ReadPresence(0, present);
  CHECK(present == std::vector<std::int64_t>{0, 0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(bits[4] == 0);
  CHECK(std::bit_cast<double>(bits[5]) == double{0.1f});
  CHECK(std::bit_cast<double>(bits[6]) == -3.5);
  CHECK(std::isinf(std::bit_cast<double>(bits[7])));
  CHECK(std::isnan(std::bit_cast<double>(bits[8])));
}

TEST_CASE("counts are written in version 1, and other types in version 2", "[columns]") {
  const std::vector<std::byte> counts = EncodeColumn(kKey, MeasuredValues(std::vector{1ul, 2ul}));
  CHECK(counts.size() == 60 + 5 + 2 + 16);
  CHECK(counts[8] == std::byte{1});
  CHECK(Xxh3(std::span<const std::byte>(counts)).ToHex() == "38ceeba289e535983cc6e00476fbe4b5");
  const std::vector<std::byte> typed = EncodeColumn(kKey, MeasuredValues(Integers({1, -2})));
  CHECK(typed.size() == 60 + 1 + 5 + 2 + 1 + 16);
  CHECK(typed[8] == std::byte{2});
  CHECK(typed[16] == std::byte{1});     // the type, behind the width
  CHECK(typed[67] == std::byte{0xfe});  // -2
  CHECK(typed[68] == std::byte{3});     // both have values
}

TEST_CASE("values that are not of the form of their type are refused", "[columns]") {
  const auto error = [](std::vector<std::uint8_t> bytes, unsigned width, int type,
                        std::vector<std::uint8_t> present) {
    return MeasuredValues::FromBytes(std::move(bytes), width, static_cast<MeasuredType>(type),
                                     std::move(present))
        .status()
        .message();
  };
  CHECK(error({1, 2}, 1, 1, {3}).empty());
  CHECK(error({1, 2}, 1, 3, {3}) == "values of type 3: expected 0, 1 or 2");
  CHECK(error({1, 2}, 1, 2, {3}) == "floats of 1 bytes each: expected 4");
  CHECK(error({1, 2}, 1, 1, {}) ==
        "0 bytes say which of 2 examples have values of type 1: expected 1");
  CHECK(error({1, 2}, 1, 0, {3}) ==
        "1 bytes say which of 2 examples have values of type 0: expected 0");
  CHECK(error({1, 2}, 1, 1, {1}) ==
        "example 1 has no value by its bit, and the value there is not 0");
  CHECK(error({1, 2}, 1, 1, {7}) ==
        "a bit says that example 2 or a later one has a value, and there are 2 examples");
}

TEST_CASE("no byte of a column's file may change, and none may be missing", "[columns]") {
  const std::vector<std::uint64_t> values = {5, 300, MeasuredValues::kNone, 7};
  const bool typed = GENERATE(false, true);
  const std::vector<std::byte> bytes =
      EncodeColumn(kKey, typed ? MeasuredValues(Integers({5, -300, 7})) : MeasuredValues(values));
  REQUIRE(DecodeColumn(bytes, kKey).ok());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::vector<std::byte> changed = bytes;
    changed[at] ^= std::byte{0x10};
    CHECK(DecodeColumn(changed, kKey).status().code() == StatusCode::kDataLoss);
    CHECK(DecodeColumn(std::span(bytes).first(at), kKey).status().code() == StatusCode::kDataLoss);
  }
}

TEST_CASE("a column of another dataset, pipeline or name is not taken", "[columns]") {
  const std::vector<std::byte> bytes = EncodeColumn(kKey, MeasuredValues(std::vector{1ul, 2ul}));
  for (const ColumnKey& other :
       {ColumnKey{{1, 3}, {3, 4}, "nodes"}, ColumnKey{{1, 2}, {3, 5}, "nodes"},
        ColumnKey{{1, 2}, {3, 4}, "edges"}}) {
    CHECK(DecodeColumn(bytes, other).status().message() ==
          "the column 'nodes' of another dataset or pipeline");
    CHECK_FALSE(other.FileName() == kKey.FileName());
  }
}

TEST_CASE("a column is written whole into a new folder, and read from it", "[columns]") {
  const TempDir dir;
  const std::filesystem::path folder = dir / "a" / "b";
  CHECK(ReadColumn(folder, kKey).status().code() == StatusCode::kNotFound);
  const MeasuredValues values(std::vector<std::uint64_t>{1, 2, 3});
  REQUIRE(WriteColumn(folder, kKey, values).ok());
  REQUIRE(WriteColumn(folder, kKey, values).ok());
  CHECK(ReadColumn(folder, kKey)->At(2) == 3);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    CHECK(entry.path().filename() == kKey.FileName());
    ++files;
  }
  CHECK(files == 1);
  std::ofstream(folder / kKey.FileName(), std::ios::app) << "x";
  const Status damaged = ReadColumn(folder, kKey).status();
  CHECK(damaged.code() == StatusCode::kDataLoss);
  CHECK(damaged.message().starts_with((folder / kKey.FileName()).string() + ": "));
}

}  // namespace
}  // namespace millrace::test
