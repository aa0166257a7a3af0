#include "server/kinds/records/generator/records_generator.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "server/kinds/records/records_kind.h"
#include "tests/unit/server/kinds/records/records_source_fixture.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using test::RecordSourceTest;
using test::RecordValues;
using test::TempDir;

GenerateRequest Request(const std::map<std::string, std::int64_t>& numbers) {
  GenerateRequest request;
  request.params = Params({numbers.begin(), numbers.end()});
  return request;
}

TEST_CASE("generated records are those of their seed, on every machine", "[records_generator]") {
  const TempDir dir;
  REQUIRE(GenerateRecords(dir / "a", Request({{"records", 1000}, {"files", 3}})).ok());
  const auto dataset = test::MustOpenRecords(dir / "a");
  CHECK(dataset->examples() == 1000);
  CHECK(dataset->file_count() == 3);
  CHECK(dataset->digest().ToHex() == "488966d621e0c65d5ec02c8a8d1eb457");
  RecordSourceTest source(dir / "a", R"({"d": "bytes[194]", "s": "int64", "x": "float32[*]"})");
  CHECK(source.BuildAll()->payload_hash().ToHex() == "1a787d39321555ac236b593a00d3c9e8");
  REQUIRE(GenerateRecords(dir / "b", Request({{"records", 1000}, {"files", 3}, {"seed", 1}})).ok());
  CHECK(test::MustOpenRecords(dir / "b")->digest() != dataset->digest());
}

TEST_CASE("generated records are spread over files, and hold what was asked for",
          "[records_generator]") {
  const TempDir dir;
  const auto report =
      GenerateRecords(dir / "a", Request({{"records", 7}, {"files", 3}, {"floats", 5}}));
  REQUIRE(report.ok());
  CHECK_THAT(*report, Catch::Contains("records       7\n") && Catch::Contains("files         3\n"));
  RecordSourceTest source(dir / "a", R"({"x": "float32[*]", "s": "int64", "d": "bytes[194]"})");
  CHECK(source.Column("file") == std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 2});
  CHECK(source.dataset->Files()[2].name == "part-00002-of-00003.tfrecord");
  const auto batch = source.BuildAll();
  const auto splits = RecordValues<std::uint32_t>(*batch, "x_splits");
  for (std::size_t i = 1; i < splits.size(); ++i) CHECK(splits[i] - splits[i - 1] <= 5);
  for (const std::int64_t score : RecordValues<std::int64_t>(*batch, "s")) {
    CHECK(std::abs(score) <= 2000);
  }
  for (const float value : RecordValues<float>(*batch, "x")) CHECK((value >= 0 && value < 1));
}

TEST_CASE("generated records without floats have no such feature", "[records_generator]") {
  const TempDir dir;
  REQUIRE(GenerateRecords(dir / "a", Request({{"records", 5}, {"floats", 0}})).ok());
  const auto dataset = test::MustOpenRecords(dir / "a");
  REQUIRE(dataset->index().features().size() == 2);
  CHECK(dataset->index().features()[0].name == "d");
  CHECK(dataset->index().features()[1].name == "s");
}

TEST_CASE("records are generated only into an empty folder, and told as they are made",
          "[records_generator]") {
  const TempDir dir;
  GenerateRequest request = Request({{"records", 10'000}});
  std::uint64_t done = 0;
  request.progress = [&](std::uint64_t more, std::uint64_t total) {
    done += more;
    CHECK(total == 10'000);
  };
  REQUIRE(MakeRecordsKind()->Generate(dir / "a", request).ok());
  CHECK(done == 10'000);
  const Status again = MakeRecordsKind()->Generate(dir / "a", request).status();
  CHECK(again.code() == StatusCode::kFailedPrecondition);
  CHECK(fs::exists(dir / "a/part-00000-of-00004.tfrecord"));
}

}  // namespace
}  // namespace millrace
