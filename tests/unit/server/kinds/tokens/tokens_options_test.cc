#include "server/kinds/tokens/tokens_options.h"

#include <catch2/catch.hpp>

#include <string>

namespace millrace {
namespace {

using Catch::Contains;

Result<TokensOptions> ReadKeys(const std::string& json) {
  return ReadTokensOptions(ParamTree{json});
}
std::string KeysError(const std::string& json) {
  const auto options = ReadKeys(json);
  REQUIRE_FALSE(options.ok());
  CHECK(options.status().code() == StatusCode::kInvalidArgument);
  return options.status().message();
}

TEST_CASE("the keys of a source of tokens are read", "[tokens_options]") {
  CHECK_FALSE(ReadTokensOptions(ParamValue())->dtype.has_value());
  CHECK_FALSE(ReadKeys("{}")->mark.has_value());
  const auto ends = ReadKeys(R"({"dtype": "uint16", "eos": 50256, "vocab": 50257})");
  REQUIRE(ends.ok());
  CHECK(ends->dtype == DType::kUint16);
  CHECK(ends->mark->ends);
  CHECK(ends->mark->token == 50256);
  CHECK(ends->vocab == 50257);
  CHECK_FALSE(ReadKeys(R"({"bos": 0})")->mark->ends);
  CHECK(ReadKeys(R"({"vocab": 2147483648})")->vocab == 2147483648);
  CHECK_FALSE(ReadKeys(R"({"eos": null})")->mark.has_value());
}

TEST_CASE("a wrong key of a source of tokens is refused with its place", "[tokens_options]") {
  CHECK(KeysError(R"({"dtype": "uint64"})") ==
        ".dtype: expected uint8, uint16, uint32, int8, int16, int32 or int64, got \"uint64\"");
  CHECK_THAT(KeysError(R"({"dtype": 16})"), Contains(".dtype: expected uint8"));
  CHECK(KeysError(R"({"eos": -1})") == ".eos: expected an integer from 0 to 2147483647, got -1");
  CHECK_THAT(KeysError(R"({"bos": 2147483648})"), Contains(".bos: expected an integer from 0"));
  CHECK_THAT(KeysError(R"({"eos": "a"})"), Contains(".eos: "));
  CHECK_THAT(KeysError(R"({"vocab": 0})"), Contains(".vocab: expected an integer from 1"));
  CHECK_THAT(KeysError(R"({"eos": 1, "bos": 2})"),
             Contains("expected either eos, which ends each document, or bos"));
  CHECK(KeysError(R"({"eos": 100, "vocab": 100})") ==
        ".eos: expected a token below vocab, 100, got 100");
  CHECK(KeysError(R"({"end": 1})") == ".end: unknown key; expected dtype, eos, bos and vocab");
  CHECK_THAT(KeysError("[]"), Contains("expected a map"));
}

}  // namespace
}  // namespace millrace
