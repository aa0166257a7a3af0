#include "server/kinds/tokens/format/token_copy.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/kinds/tokens/format/token_type.h"
#include "tests/unit/server/kinds/tokens/tokens_folder.h"

namespace millrace {
namespace {

using test::TokenBytes;
using test::Tokens;

const std::vector<DType> kAllTokenTypes = {DType::kUint8, DType::kInt8,   DType::kUint16,
                                           DType::kInt16, DType::kUint32, DType::kInt32,
                                           DType::kInt64};

/// Any value that the type can have.
std::int64_t ValueOf(DType dtype, std::uint64_t bits) {
  const unsigned above = 64 - 8 * DTypeSize(dtype);
  const std::uint64_t high = bits << above;
  return IsSigned(dtype) ? static_cast<std::int64_t>(high) >> above
                         : static_cast<std::int64_t>(high >> above);
}

TEST_CASE("tokens are copied as they travel, up to the first that is none", "[token_copy]") {
  for (const DType dtype : kAllTokenTypes) {
    rc::prop(std::string(DTypeName(dtype)), [dtype] {
      const std::uint64_t largest = std::min<std::uint64_t>(
          LargestTokenOf(dtype),
          *rc::gen::elementOf(std::vector<std::uint64_t>{kLargestToken, 50'256, 100, 0}));
      const bool all_good = *rc::gen::arbitrary<bool>();
      const auto bits = *rc::gen::arbitrary<std::vector<std::uint64_t>>();
      Tokens tokens;
      // Blocks are longer than what is usually made up.
      for (int again = 0; again < *rc::gen::inRange(1, 5); ++again) {
        for (const std::uint64_t some : bits) {
          tokens.push_back(all_good ? static_cast<std::int64_t>(some % (largest + 1))
                                    : ValueOf(dtype, some));
        }
      }
      const auto is_wrong = [largest](std::int64_t token) {
        return token < 0 || static_cast<std::uint64_t>(token) > largest;
      };
      // An odd place, as files have them.
      const std::string file = "x" + TokenBytes(dtype, tokens);
      const std::uint64_t width = DTypeSize(TravelType(dtype));
      std::vector<std::byte> to(tokens.size() * width);
      const auto wrong =
          CopyTokens(dtype, std::as_bytes(std::span(file).subspan(1)), largest, to.data());
      const auto first = std::find_if(tokens.begin(), tokens.end(), is_wrong);
      RC_ASSERT(wrong.has_value() == (first != tokens.end()));
      if (wrong) {
        RC_ASSERT(wrong->place == static_cast<std::uint64_t>(first - tokens.begin()));
        RC_ASSERT(wrong->value == *first);
        return;
      }
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        std::uint64_t copied = 0;
        std::memcpy(&copied, to.data() + i * width, width);
        RC_ASSERT(copied == static_cast<std::uint64_t>(tokens[i]));
      }
    });
  }
}

TEST_CASE("a token is found wherever it is", "[token_copy]") {
  for (const DType dtype : kAllTokenTypes) {
    rc::prop(std::string(DTypeName(dtype)), [dtype] {
      const std::int64_t token = *rc::gen::elementOf(Tokens{0, 1, 127});
      const auto near = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-1, 2));
      Tokens tokens;
      std::vector<std::uint32_t> expected;
      for (int again = 0; again < 4; ++again) {
        for (const int by : near) {
          // What has the same lowest byte is another token.
          const bool higher = by == 1 && DTypeSize(dtype) > 1;
          tokens.push_back(by == 0 ? token : higher ? token + 256 : (token + 1) % 128);
          if (by == 0) expected.push_back(static_cast<std::uint32_t>(tokens.size() - 1));
        }
      }
      const std::string file = TokenBytes(dtype, tokens);
      std::vector<std::uint32_t> places;
      FindTokens(dtype, std::as_bytes(std::span(file)), static_cast<std::uint64_t>(token), places);
      RC_ASSERT(places == expected);
      if (!tokens.empty()) {
        RC_ASSERT(TokenAt(dtype, std::as_bytes(std::span(file))) == tokens.front());
      }
    });
  }
}

TEST_CASE("tokens travel unsigned and as wide as their files, but no wider than 4 bytes",
          "[token_copy]") {
  CHECK(TravelType(DType::kInt8) == DType::kUint8);
  CHECK(TravelType(DType::kUint16) == DType::kUint16);
  CHECK(TravelType(DType::kInt32) == DType::kUint32);
  CHECK(TravelType(DType::kInt64) == DType::kUint32);
  CHECK(LargestTokenOf(DType::kInt8) == 127);
  CHECK(LargestTokenOf(DType::kUint16) == 65535);
  CHECK(LargestTokenOf(DType::kUint32) == 2147483647);
  CHECK(LargestTokenOf(DType::kInt64) == 2147483647);
  CHECK_FALSE(IsTokenType(DType::kUint64));
  CHECK_FALSE(IsTokenType(DType::kBool));
}

}  // namespace
}  // namespace millrace
