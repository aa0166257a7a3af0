#include "server/pipeline/columns/column_file.h"

#include <catch2/catch.hpp>

#include <fstream>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

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

TEST_CASE("no byte of a column's file may change, and none may be missing", "[columns]") {
  const std::vector<std::uint64_t> values = {5, 300, MeasuredValues::kNone, 7};
  const std::vector<std::byte> bytes = EncodeColumn(kKey, MeasuredValues(values));
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
