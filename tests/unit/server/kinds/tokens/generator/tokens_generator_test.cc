#include "server/kinds/tokens/generator/tokens_generator.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "server/kinds/tokens/tokens_kind.h"
#include "tests/unit/server/kinds/tokens/tokens_source_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::Documents;
using test::TempDir;
using test::Tokens;
using test::TokenSourceTest;

GenerateRequest TokensRequest(const std::map<std::string, ParamValue>& values) {
  GenerateRequest request;
  request.params = Params(values);
  return request;
}

const ParamValue kFew = std::int64_t{50};
const ParamValue kTwo = std::int64_t{2};
const ParamValue kShort = std::int64_t{20};

TEST_CASE("generated tokens are those of their seed, on every machine", "[tokens_generator]") {
  const TempDir dir;
  REQUIRE(GenerateTokens(dir / "a", TokensRequest({{"documents", std::int64_t{1000}}})).ok());
  const auto dataset = test::MustOpenTokens(dir / "a");
  CHECK(dataset->examples() == 1000);
  CHECK(dataset->file_count() == 4);
  CHECK(dataset->index().dtype() == DType::kUint16);
  CHECK(dataset->digest().ToHex() == "9738c9e2c308096997a17774271a50dd");
  REQUIRE(GenerateTokens(dir / "b", TokensRequest({{"documents", std::int64_t{1000}},
                                                   {"seed", std::int64_t{1}}}))
              .ok());
  CHECK(test::MustOpenTokens(dir / "b")->digest() != dataset->digest());
}

TEST_CASE("generated raw files and pairs of one seed have the same documents",
          "[tokens_generator]") {
  const TempDir dir;
  const auto generate = [&](const char* format, const char* dtype) {
    const std::string name = std::string(format) + dtype;
    const auto report =
        GenerateTokens(dir / name, TokensRequest({{"documents", kFew},
                                                  {"files", kTwo},
                                                  {"mean", kShort},
                                                  {"vocab", std::int64_t{100}},
                                                  {"dtype", std::string(dtype)},
                                                  {"format", std::string(format)}}));
    INFO(report.status().message());
    REQUIRE(report.ok());
    CHECK_THAT(*report, Contains("documents     50\n"));
    CHECK(fs::exists(dir / name / "part-00001.idx") == (std::string(format) == "pairs"));
    return TokenSourceTest(dir / name, std::string(format) == "raw" ? R"({"eos": 99, "dtype": ")" +
                                                                          std::string(dtype) + "\"}"
                                                                    : "{}")
        .ReadAll();
  };
  const Documents pairs = generate("pairs", "uint16");
  CHECK(pairs.size() == 50);
  for (const Tokens& document : pairs) {
    CHECK(document.back() == 99);
    CHECK(std::count(document.begin(), document.end(), 99) == 1);
  }
  for (const char* dtype : {"uint8", "int8", "uint16", "int16", "uint32", "int32", "int64"}) {
    CHECK(generate("raw", dtype) == pairs);
  }
  CHECK(generate("pairs", "int64") == pairs);
}

TEST_CASE("lengths of generated documents have about the mean and the spread that is asked for",
          "[tokens_generator]") {
  const auto lengths = [](const char* sigma) {
    const TempDir dir;
    REQUIRE(GenerateTokens(dir / "a", TokensRequest({{"documents", std::int64_t{4000}},
                                                     {"mean", std::int64_t{200}},
                                                     {"sigma", std::string(sigma)},
                                                     {"dtype", std::string("uint16")}}))
                .ok());
    return TokenSourceTest(dir / "a").Column("tokens.length");
  };
  const auto mean = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  for (const char* sigma : {"0.5", "1.2"}) {
    const Tokens drawn = lengths(sigma);
    const std::vector<double> values(drawn.begin(), drawn.end());
    std::vector<double> logs;
    for (const double value : values) logs.push_back(std::log(value));
    std::vector<double> squares;
    for (const double log : logs) squares.push_back((log - mean(logs)) * (log - mean(logs)));
    CHECK(std::abs(mean(values) - 200) < 20);
    CHECK(std::abs(std::sqrt(mean(squares)) - std::stod(sigma)) < 0.05);
  }
  for (const std::int64_t length : lengths("0")) CHECK(length == 200);
}

TEST_CASE("options of generated tokens that do not fit are refused, and nothing is left",
          "[tokens_generator]") {
  const TempDir dir;
  const auto error = [&](const std::map<std::string, ParamValue>& values) {
    const auto done = MakeTokensKind()->Generate(dir / "a", TokensRequest(values));
    REQUIRE_FALSE(done.ok());
    CHECK(done.status().code() == StatusCode::kInvalidArgument);
    CHECK_FALSE(fs::exists(dir / "a"));
    return done.status().message();
  };
  CHECK(error({{"dtype", std::string("uint8")}}) ==
        "--vocab: the token 50256 does not fit --dtype uint8, expected at most 255");
  CHECK_THAT(error({{"dtype", std::string("uint32")}}), Contains("--dtype: pairs cannot have"));
  const std::vector<Parameter> parameters = TokensGenerateParameters();
  const Parameter& sigma = *FindParameter(parameters, "sigma");
  CHECK(ReadText(sigma, "0.7").ok());
  CHECK_FALSE(ReadText(sigma, "5").ok());
  CHECK_FALSE(ReadText(sigma, "wide").ok());
}

TEST_CASE("tokens are generated only into an empty folder, and told as they are made",
          "[tokens_generator]") {
  const TempDir dir;
  GenerateRequest request = TokensRequest({{"documents", std::int64_t{3000}}, {"mean", kTwo}});
  std::uint64_t done = 0;
  request.progress = [&](std::uint64_t more, std::uint64_t total) {
    done += more;
    CHECK(total == 3000);
  };
  REQUIRE(MakeTokensKind()->Generate(dir / "a", request).ok());
  CHECK(done == 3000);
  CHECK(MakeTokensKind()->Generate(dir / "a", request).status().code() ==
        StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace millrace
