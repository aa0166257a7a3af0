#include "server/kinds/tokens/format/sequence_index.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/kinds/tokens/format/token_type.h"
#include "tests/unit/server/kinds/tokens/tokens_folder.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::Documents;
using test::Little;

Result<SequenceCounts> ReadIdx(const std::string& bytes) {
  return ReadSequenceIndex(std::as_bytes(std::span(bytes)));
}

std::string IdxError(const std::string& bytes) {
  const auto counts = ReadIdx(bytes);
  REQUIRE_FALSE(counts.ok());
  CHECK(counts.status().code() == StatusCode::kDataLoss);
  return counts.status().message();
}

/// Sequences of 3, 0 and 2 tokens of uint16.
std::string ThreeSequences() {
  return test::SequenceIndexBytes(DType::kUint16, {{1, 2, 3}, {}, {4, 5}});
}

std::string With(std::size_t at, const std::string& bytes) {
  return ThreeSequences().replace(at, bytes.size(), bytes);
}

/// The bytes of a header with these numbers, and `behind` it.
std::string Header(std::uint64_t sequences, std::uint64_t documents, const std::string& behind) {
  return ThreeSequences().substr(0, 18) + Little(sequences, 8) + Little(documents, 8) + behind;
}

TEST_CASE("an index of sequences says their type, their number and their tokens",
          "[sequence_index]") {
  const auto counts = ReadIdx(ThreeSequences());
  REQUIRE(counts.ok());
  CHECK(*counts == SequenceCounts{DType::kUint16, 3, 5, 3});
  CHECK(counts->bytes() == 10);
  const std::string bytes = ThreeSequences();
  const SequencePlaces places(std::as_bytes(std::span(bytes)), 3);
  CHECK(places.Length(0) == 3);
  CHECK(places.Length(1) == 0);
  CHECK(places.Offset(1) == 6);
  CHECK(places.Offset(2) == 6);
  CHECK(ReadIdx(test::SequenceIndexBytes(DType::kInt64, {}))->sequences == 0);
}

TEST_CASE("an index of sequences with a wrong header is refused with what is wrong",
          "[sequence_index]") {
  CHECK_THAT(IdxError(""), Contains("has 0 bytes: it is cut off within its header of 34"));
  CHECK_THAT(IdxError("MMIDIDX"), Contains("cut off within its header"));
  CHECK_THAT(IdxError("MMIDIDY"), Contains("does not begin with MMIDIDX and two zeros"));
  CHECK_THAT(IdxError(With(8, "\1")), Contains("does not begin with MMIDIDX"));
  CHECK_THAT(IdxError(ThreeSequences().substr(0, 33)), Contains("has 33 bytes"));
  CHECK(IdxError(With(9, "\2")) == "has version 2, expected 1");
  CHECK_THAT(IdxError(With(17, "\6")), Contains("says code 6 (float64) of the type of tokens"));
  CHECK_THAT(IdxError(With(17, "\7")), Contains("7 (float32)"));
  for (const char code : {'\0', '\11', '\xff'}) {
    CHECK_THAT(IdxError(With(17, std::string(1, code))),
               Contains(", expected 1 (uint8), 2 (int8), 3 (int16), 4 (int32), 5 (int64) or 8"));
  }
}

TEST_CASE("an index of sequences of another size than its header says is refused",
          "[sequence_index]") {
  const std::string whole = ThreeSequences();
  CHECK(IdxError(whole.substr(0, whole.size() - 1)) ==
        "has 101 bytes, and says that it has 3 sequences and 4 documents, which take 102: it is "
        "cut off");
  CHECK_THAT(IdxError(whole + "x"), Contains("has 103 bytes, ") && Contains("it is too long"));
  CHECK_THAT(IdxError(whole + "xxx"),
             Contains("a byte more for each sequence: it is multimodal, which is not supported"));
}

TEST_CASE("numbers that would overflow are refused before anything is made of them",
          "[sequence_index]") {
  const std::string behind(68, '\0');
  for (const std::uint64_t huge :
       {(std::uint64_t{1} << 61) + 1, ~std::uint64_t{0}, std::uint64_t{0x1555555555555556}}) {
    CHECK_THAT(IdxError(Header(huge, 0, behind)), Contains("its 102 bytes are too few"));
    CHECK_THAT(IdxError(Header(0, huge, behind)), Contains("its 102 bytes are too few"));
    // Together they wrap around to the right size.
    CHECK_THAT(IdxError(Header(huge, (68 - 12 * huge) / 8, behind)), Contains("are too few"));
  }
}

TEST_CASE("a sequence that cannot be so is named with its numbers", "[sequence_index]") {
  CHECK(IdxError(With(34 + 4, Little(~std::uint64_t{0}, 4))) ==
        "sequence 1: its length is -1, expected 0 or more");
  CHECK_THAT(IdxError(With(34 + 12, Little(2, 8))),
             Contains("sequence 0: begins at byte 2, expected 0"));
  CHECK_THAT(IdxError(With(34 + 12 + 16, Little(4, 8))),
             Contains("sequence 2: begins at byte 4, expected 6"));
  CHECK_THAT(IdxError(With(34 + 12 + 8, Little(~std::uint64_t{0}, 8))),
             Contains("sequence 1: begins at byte -1, expected 6"));
}

TEST_CASE("an index of sequences with any byte flipped is the same sequences, or an error",
          "[sequence_index]") {
  rc::prop("of any type", [] {
    const DType dtype = *rc::gen::element(DType::kUint8, DType::kInt8, DType::kInt16, DType::kInt32,
                                          DType::kInt64, DType::kUint16);
    const auto lengths =
        *rc::gen::container<std::vector<std::uint8_t>>(rc::gen::inRange<std::uint8_t>(0, 9));
    Documents sequences;
    for (const std::uint8_t length : lengths) sequences.emplace_back(length, 1);
    std::string bytes = test::SequenceIndexBytes(dtype, sequences);
    const SequenceCounts before = *ReadIdx(bytes);
    RC_ASSERT(before.sequences == sequences.size());
    const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << *rc::gen::inRange(0, 8)));
    const auto after = ReadIdx(bytes);
    if (!after.ok()) {
      RC_ASSERT(after.status().code() == StatusCode::kDataLoss);
      return;
    }
    // Numbers of documents are not read. A code gives another type of the same width, or the last
    // length, which no offset follows, another number of tokens: then X.bin has another size.
    const bool same = *after == before;
    const bool same_width = after->dtype != before.dtype && after->bytes() == before.bytes() &&
                            after->sequences == before.sequences;
    RC_ASSERT((same || same_width || after->bytes() != before.bytes()));
  });
}

TEST_CASE("any bytes behind the magic are read without a fault", "[sequence_index]") {
  rc::prop("in any number", [] {
    const auto behind = *rc::gen::arbitrary<std::vector<std::uint8_t>>();
    std::string bytes = ThreeSequences().substr(0, *rc::gen::inRange(0, 35));
    bytes.append(behind.begin(), behind.end());
    const auto counts = ReadIdx(bytes);
    RC_ASSERT((counts.ok() || counts.status().code() == StatusCode::kDataLoss));
  });
}

}  // namespace
}  // namespace millrace
