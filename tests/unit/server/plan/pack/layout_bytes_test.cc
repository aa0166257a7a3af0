#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "common/base/hash.h"
#include "server/plan/pack/layout_bytes.h"
#include "tests/unit/server/plan/pack/plain_packs.h"

namespace millrace::test {
namespace {

using Bytes = std::vector<std::byte>;

const Digest128 kPackKey{1, 2};

Result<PackLayout> Decode(const Bytes& bytes, const PackCase& any) {
  return DecodePackLayout(bytes, kPackKey, any.options, any.lengths.size());
}

/// The same bytes with the digest that fits them.
Bytes WithDigest(Bytes bytes) {
  bytes.resize(bytes.size() - 16);
  for (const char byte : Xxh3(std::span<const std::byte>(bytes)).ToBytes()) {
    bytes.push_back(static_cast<std::byte>(byte));
  }
  return bytes;
}

/// Asks a layout from doubtful bytes for all rows that it can have, and all documents.
void Use(const PackLayout& layout, const PackCase& any) {
  const auto kept = std::make_shared<const PackLayout>(layout);
  const auto rows = PackRows::Make(kept, std::make_shared<const ListLengths>(any.lengths), 10'000);
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(layout.rows(), 300); ++i) {
    for (const std::uint64_t row : {i, layout.rows() - 1 - i}) {
      PieceRow pieces;
      if (rows->AppendPieces(row, pieces).ok()) RC_ASSERT(!pieces.empty());
    }
  }
  std::vector<RowColumns> columns(std::min<std::uint64_t>(layout.rows(), 1000));
  RC_ASSERT(rows->ReadColumns(0, columns).ToString().size() > 0u);
  for (std::uint64_t i = 0; i < any.lengths.size(); ++i) {
    const Result<DocumentRows> found = rows->RowsOf(i);
    RC_ASSERT(found.ok() || !found.status().message().empty());
  }
}

TEST_CASE("a layout is the same from its bytes", "[pack]") {
  rc::prop("for any lengths and options", [] {
    const PackCase any = AnyPackCase();
    const PackLayout layout = MakePackLayout(ListLengths(any.lengths), any.options).value();
    const Bytes bytes = EncodePackLayout(layout, kPackKey);
    const Result<PackLayout> decoded = Decode(bytes, any);
    RC_ASSERT(decoded.ok());
    RC_ASSERT(decoded->options() == layout.options());
    RC_ASSERT(decoded->totals() == layout.totals());
    RC_ASSERT(decoded->documents() == layout.documents());
    RC_ASSERT(decoded->groups() == layout.groups());
    for (std::uint64_t group = 0; group <= layout.groups(); ++group) {
      RC_ASSERT(decoded->Begin(group) == layout.Begin(group));
    }
    RC_ASSERT(EncodePackLayout(*decoded, kPackKey) == bytes);
  });
}

TEST_CASE("numbers of every width are the same from their bytes", "[pack]") {
  for (const unsigned bits : {3, 8, 16, 32, 50}) {
    const PackCase any{{1, std::uint64_t{1} << bits, 0, 3}, {1, PackMethod::kFit, {}, 1}};
    const PackLayout layout = MakePackLayout(ListLengths(any.lengths), any.options).value();
    const Result<PackLayout> decoded = Decode(EncodePackLayout(layout, kPackKey), any);
    REQUIRE(decoded.ok());
    CHECK(decoded->Begin(2) == 1 + (std::uint64_t{1} << bits));
    CHECK(decoded->rows() == layout.rows());
  }
}

TEST_CASE("a layout has few bytes", "[pack]") {
  const PackCase any{Lengths(100'000, 700), {4096, PackMethod::kFit, PackAbove::kSplit, 4096}};
  const PackLayout layout = MakePackLayout(ListLengths(any.lengths), any.options).value();
  CHECK(layout.bytes() == 26 * 8);  // a number a window, and the last one
  CHECK(EncodePackLayout(layout, kPackKey).size() == 103 + 25 * 2 + 16);
  const PackOptions concat{4096, PackMethod::kConcat, PackAbove::kSplit, 4096};
  const PackLayout sums = MakePackLayout(ListLengths(any.lengths), concat).value();
  CHECK(sums.bytes() == (100'000 / 256 + 2) * 8);
}

TEST_CASE("damaged bytes of a layout are an error", "[pack]") {
  rc::prop("for any damage", [] {
    const PackCase any = AnyPackCase();
    const Bytes good =
        EncodePackLayout(MakePackLayout(ListLengths(any.lengths), any.options).value(), kPackKey);
    Bytes bytes = good;
    const std::size_t at = AnyBelow(bytes.size());
    switch (AnyBelow(4)) {
      case 0:
        bytes[at] ^= std::byte(1 + AnyBelow(255));
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), std::byte{0});
        if (bytes == good) return;
        break;
      default:
        for (std::byte& byte : bytes) byte = std::byte(AnyBelow(256));
    }
    const Result<PackLayout> decoded = Decode(bytes, any);
    RC_ASSERT(!decoded.ok());
    RC_ASSERT(decoded.status().code() == StatusCode::kDataLoss);
  });
}

TEST_CASE("bytes of a layout that were changed together with their digest do no harm", "[pack]") {
  rc::prop("for any change", [] {
    const PackCase any = AnyPackCase();
    Bytes bytes =
        EncodePackLayout(MakePackLayout(ListLengths(any.lengths), any.options).value(), kPackKey);
    const auto changes = *rc::gen::inRange(1, 4);
    for (int i = 0; i < changes; ++i) {
      const std::size_t at = 28 + AnyBelow(bytes.size() - 16 - 28);
      bytes[at] = std::byte(*rc::gen::element(0, 1, 2, 3, 8, 16, 127, 128, 255));
    }
    if (AnyBelow(4) == 0) bytes.push_back(std::byte{0});
    const Result<PackLayout> decoded = Decode(WithDigest(bytes), any);
    if (decoded.ok()) Use(*decoded, any);
  });
}

TEST_CASE("a layout has one text: its numbers are not wider than they need be", "[pack]") {
  const PackCase any{{5, 0, 3}, {8, PackMethod::kFit, PackAbove::kSplit, 10}};
  Bytes bytes =
      EncodePackLayout(MakePackLayout(ListLengths(any.lengths), any.options).value(), kPackKey);
  REQUIRE(bytes.size() == 103 + 1 + 16);
  bytes[102] = std::byte{2};
  bytes.insert(bytes.begin() + 104, std::byte{0});
  CHECK(Decode(WithDigest(bytes), any).status().message() ==
        "a layout with numbers of 2 bytes: 1 would do");
}

TEST_CASE("totals of a layout that contradict each other are refused", "[pack]") {
  const PackCase any{{5, 0, 3, 12, 1, 8, 0, 2}, {8, PackMethod::kFit, PackAbove::kSplit, 4}};
  const PackLayout layout = MakePackLayout(ListLengths(any.lengths), any.options).value();
  const std::vector<std::uint64_t> rows{layout.CountOf(0), layout.CountOf(1)};
  REQUIRE(PackLayout::Make(any.options, 8, layout.totals(), rows).ok());
  const auto refused = [&](const PackTotals& totals, const std::vector<std::uint64_t>& counts) {
    const auto made = PackLayout::Make(any.options, 8, totals, counts);
    return !made.ok() && made.status().code() == StatusCode::kInvalidArgument;
  };
  CHECK(refused(layout.totals(), {rows[0], rows[1], 0}));
  CHECK(refused(layout.totals(), {rows[0] + 1, rows[1]}));
  CHECK(refused(layout.totals(), {rows[0], rows[1] - 1}));
  CHECK(refused(layout.totals(), {~std::uint64_t{0}, rows[0] + rows[1] + 1}));
  const auto changed = [&](std::uint64_t PackTotals::*member, std::uint64_t value) {
    PackTotals totals = layout.totals();
    totals.*member = value;
    return totals;
  };
  CHECK(refused(changed(&PackTotals::empty, 9), rows));
  CHECK(refused(changed(&PackTotals::above, 8), rows));
  CHECK(refused(changed(&PackTotals::pieces, layout.rows() - 1), rows));
  CHECK(refused(changed(&PackTotals::pieces, layout.totals().elements + 1), rows));
  CHECK(refused(changed(&PackTotals::elements, layout.rows() * 8 + 1), rows));
  CHECK(refused(changed(&PackTotals::elements, kMaxPackElements + 1), rows));
  CHECK(refused(changed(&PackTotals::left_out, 1), rows));
  CHECK(refused(changed(&PackTotals::left_out, ~std::uint64_t{0}), rows));
}

TEST_CASE("a layout of something else is refused, and the error says of what", "[pack]") {
  const PackCase any{{5, 0, 3}, {8, PackMethod::kFit, PackAbove::kSplit, 10}};
  const Bytes bytes =
      EncodePackLayout(MakePackLayout(ListLengths(any.lengths), any.options).value(), kPackKey);
  const auto message = [&](const Digest128& key, const PackOptions& options,
                           std::uint64_t documents) {
    return DecodePackLayout(bytes, key, options, documents).status().message();
  };
  CHECK(message({1, 3}, any.options, 3) == "the layout of another dataset or pipeline");
  CHECK(message(kPackKey, any.options, 4) == "a layout of 3 documents: expected 4");
  for (int member = 0; member < 4; ++member) {
    PackOptions other = any.options;
    if (member == 0) other.size = 9;
    if (member == 1) other.method = PackMethod::kConcat;
    if (member == 2) other.above = PackAbove::kCut;
    if (member == 3) other.window = 11;
    CHECK(message(kPackKey, other, 3) == "a layout of other options of `pack`");
  }
  Bytes newer = bytes;
  newer[8] = std::byte{2};
  CHECK(DecodePackLayout(newer, kPackKey, any.options, 3).status().message() ==
        "a layout of version 2: expected 1");
}

TEST_CASE("options that do not count for concat do not make a layout another", "[pack]") {
  const ListLengths lengths({5, 0, 3});
  const PackOptions one{8, PackMethod::kConcat, PackAbove::kSplit, 10};
  const PackOptions other{8, PackMethod::kConcat, PackAbove::kDrop, 0};
  const Bytes bytes = EncodePackLayout(MakePackLayout(lengths, one).value(), kPackKey);
  CHECK(EncodePackLayout(MakePackLayout(lengths, other).value(), kPackKey) == bytes);
  CHECK(DecodePackLayout(bytes, kPackKey, other, 3).ok());
}

}  // namespace
}  // namespace millrace::test
