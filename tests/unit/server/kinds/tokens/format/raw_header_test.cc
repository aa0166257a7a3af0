#include "server/kinds/tokens/format/raw_header.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "tests/unit/server/kinds/tokens/tokens_folder.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::Little;

Result<RawHeader> ReadRaw(const std::string& bytes) {
  return ReadRawHeader(std::as_bytes(std::span(bytes)));
}

std::string RawError(const std::string& bytes) {
  const auto header = ReadRaw(bytes);
  REQUIRE_FALSE(header.ok());
  CHECK(header.status().code() == StatusCode::kDataLoss);
  return header.status().message();
}

/// A .npy file of a version, with a type and a shape as numpy writes them.
std::string NpyOf(int version, const std::string& descr, const std::string& shape,
                  const std::string& values) {
  const std::string dict =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  return "\x93NUMPY" + Little(static_cast<std::uint64_t>(version), 1) + Little(0, 1) +
         Little(dict.size(), version == 1 ? 2 : 4) + dict + values;
}

TEST_CASE("an array of numpy says type and number of its tokens, in versions 1 to 3",
          "[raw_header]") {
  for (const int version : {1, 2, 3}) {
    const std::string file = NpyOf(version, "<u2", "(3,)", "abcdef");
    const auto header = ReadRaw(file);
    INFO(header.status().message());
    REQUIRE(header.ok());
    CHECK(header->form == RawForm::kNpy);
    CHECK(header->dtype == DType::kUint16);
    CHECK(header->begin == file.size() - 6);
    CHECK(header->tokens == 3);
  }
  CHECK(ReadRaw(NpyOf(1, "|u1", "(0,)", ""))->tokens == 0);
  CHECK(ReadRaw(NpyOf(1, "<i8", "(1,)", "12345678"))->dtype == DType::kInt64);
  CHECK_THAT(RawError(NpyOf(4, "<u2", "(3,)", "abcdef")), Contains("version 4.0"));
}

TEST_CASE("an array of numpy with anything but one axis of tokens is refused", "[raw_header]") {
  CHECK_THAT(RawError(NpyOf(1, "<u2", "(2, 3)", "abcdefabcdef")),
             Contains("has the shape [2, 3], expected one axis"));
  CHECK_THAT(RawError(NpyOf(1, "<u2", "()", "ab")), Contains("is a scalar"));
  CHECK_THAT(RawError(NpyOf(1, ">u2", "(1,)", "ab")), Contains("big endian") && Contains(">u2"));
  CHECK_THAT(RawError(NpyOf(1, "<f4", "(1,)", "abcd")),
             Contains("holds float32 (dtype <f4), expected uint8, uint16, uint32, int8"));
  CHECK_THAT(RawError(NpyOf(1, "<u8", "(1,)", "abcdefgh")), Contains("uint64 (dtype <u8)"));
  CHECK_THAT(RawError(NpyOf(1, "|b1", "(1,)", "a")), Contains("bool (dtype |b1)"));
  CHECK_THAT(RawError(NpyOf(1, "<u2", "(3,)", "abcd")), Contains("it is cut off"));
  CHECK_THAT(RawError(NpyOf(1, "<u2", "(3,)", "abcdefg")), Contains("it is too long"));
}

TEST_CASE("a file of llm.c says type and number of its tokens", "[raw_header]") {
  for (const DType dtype : {DType::kUint16, DType::kUint32}) {
    const auto header = ReadRaw(test::LlmcBytes(dtype, {1, 2, 3}));
    REQUIRE(header.ok());
    CHECK(header->form == RawForm::kLlmc);
    CHECK(header->dtype == dtype);
    CHECK(header->begin == 1024);
    CHECK(header->tokens == 3);
  }
  const std::string file = test::LlmcBytes(DType::kUint16, {1, 2, 3});
  CHECK_THAT(RawError(file.substr(0, 1023)), Contains("cut off within its header of 1024 (llm.c)"));
  CHECK_THAT(RawError(file.substr(0, 1028)),
             Contains("has 1028 bytes, expected 1030 for the 3 tokens of uint16 that it says"));
  CHECK_THAT(RawError(file + "x"), Contains("it is too long"));
  std::string negative = file;
  CHECK_THAT(RawError(negative.replace(8, 4, Little(~std::uint64_t{0}, 4))),
             Contains("says that it has -1 tokens"));
}

TEST_CASE("all other files are bare numbers", "[raw_header]") {
  const std::vector<std::string> bare = {
      "", "a", "\x93NUMP", "PK\x03\x04", std::string(8, '\0'),
      // The magic of llm.c with another version is no header of it.
      Little(20240520, 4) + Little(2, 4) + Little(0, 4), Little(20240520, 4)};
  for (const std::string& file : bare) {
    const auto header = ReadRaw(file);
    REQUIRE(header.ok());
    CHECK(header->form == RawForm::kBare);
  }
}

TEST_CASE("headers of any bytes are read without a fault, and lie in their files", "[raw_header]") {
  rc::prop("with a byte changed, and cut off anywhere", [] {
    const int form = *rc::gen::inRange(0, 3);
    std::string file = form == 0   ? test::LlmcBytes(DType::kUint16, {1, 2, 3})
                       : form == 1 ? NpyOf(*rc::gen::inRange(1, 4), "<i4", "(2,)", "abcdefgh")
                                   : test::NpyBytes(DType::kUint8, {1, 2, 3});
    const auto at = *rc::gen::inRange<std::size_t>(0, form == 0 ? 12 : file.size());
    file[at] = static_cast<char>(*rc::gen::arbitrary<std::uint8_t>());
    if (*rc::gen::inRange(0, 4) == 0) file.resize(*rc::gen::inRange<std::size_t>(0, file.size()));
    const auto header = ReadRaw(file);
    if (!header.ok()) {
      RC_ASSERT(header.status().code() == StatusCode::kDataLoss);
    } else if (header->form != RawForm::kBare) {
      RC_ASSERT(header->begin + header->tokens * DTypeSize(header->dtype) == file.size());
    }
  });
}

}  // namespace
}  // namespace millrace
