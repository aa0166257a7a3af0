// The columns of a dispatcher, which workers measure for it, and those of a worker, which it
// fetches.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/protocol_limits.h"
#include "server/plan/columns/column_folders.h"
#include "server/plan/columns/fetched_columns.h"
#include "server/plan/columns/kept_columns.h"
#include "tests/support/csr_source.h"
#include "tests/support/dataset_fixture.h"

namespace millrace::test {
namespace {

using Catch::Contains;

constexpr std::uint64_t kExamples = 600;  // two whole ranges, and one that is cut

/// Examples without edges.
ColumnRequest LonelyNodes(const std::filesystem::path& folder) {
  CsrGraph graph;
  for (std::uint32_t node = 0; node < kExamples; ++node) {
    graph.offsets.push_back(0);
    graph.node_labels.push_back(0);
    graph.is_definition.push_back(false);
    graph.roots.push_back({node});
  }
  ColumnRequest request;
  request.dataset_id = "d";
  request.folders = {folder};
  request.operations = {7, 8};
  request.source = MakeCsrSource(graph, PlanParts());
  request.columns = {MeasurableColumns(*request.source).front()};
  return request;
}

/// The values of a range: the numbers of its examples.
MeasuredValues RangeAt(std::uint64_t first) {
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = first; i < std::min(kExamples, first + kMeasuredRange); ++i) {
    values.push_back(i == 7 ? MeasuredValues::kNone : i);
  }
  return MeasuredValues(values);
}

struct Columns {
  const TempDir dir;
  ColumnRequest request = LonelyNodes(dir / "columns");
  std::string name = request.columns.front().name;
  ColumnKey key = KeyOf(request, name);
  std::unique_ptr<KeptColumns> kept = std::make_unique<KeptColumns>(MakeNullLogger());

  void Restart() { kept = std::make_unique<KeptColumns>(MakeNullLogger()); }
  void Put(std::uint64_t first) { REQUIRE(kept->Put(key, first, RangeAt(first)).ok()); }
  void PutAll() {
    for (const std::uint64_t first : {512, 0, 256}) Put(first);
  }
};

TEST_CASE("a column that workers measure is missing until all its ranges are there", "[columns]") {
  Columns c;
  const Status missing = c.kept->Get(c.request).status();
  CHECK(missing.code() == StatusCode::kUnavailable);
  CHECK_THAT(missing.message(), Contains("columns " + c.name + " of dataset 'd'"));
  CHECK(c.kept->Missing(c.request) == std::vector<std::string>{c.name});
  c.kept->Begin(PlaceOf(c.request, c.name));
  c.Put(512);
  CHECK(c.kept->Finish(c.key).code() == StatusCode::kFailedPrecondition);
  c.Put(0);
  c.Put(256);
  c.Put(256);  // it is there already
  CHECK(c.kept->Finish(c.key).ok());
  const auto values = c.kept->Get(c.request);
  REQUIRE(values.ok());
  CHECK(values->at(c.name)->At(599) == 599);
  CHECK_FALSE(values->at(c.name)->Has(7));
  CHECK(c.kept->Missing(c.request).empty());
  CHECK_FALSE(std::filesystem::exists(PartialColumn::FileIn(c.dir / "columns", c.key)));
}

TEST_CASE("a dispatcher that begins again goes on with what was measured", "[columns]") {
  Columns c;
  c.kept->Begin(PlaceOf(c.request, c.name));
  c.Put(512);
  c.Put(0);
  c.Restart();
  CHECK(c.kept->Measured(c.key).empty());
  c.kept->Begin(PlaceOf(c.request, c.name));
  CHECK(c.kept->Measured(c.key) == std::vector<std::uint64_t>{0, 512});
  c.Put(256);
  c.Restart();
  c.kept->Begin(PlaceOf(c.request, c.name));
  CHECK(c.kept->Finish(c.key).ok());
  CHECK(c.kept->Get(c.request)->at(c.name)->At(300) == 300);
}

TEST_CASE("damaged and foreign records of a column are measured again", "[columns]") {
  Columns c;
  c.kept->Begin(PlaceOf(c.request, c.name));
  c.Put(0);
  c.Put(256);
  const std::filesystem::path file = PartialColumn::FileIn(c.dir / "columns", c.key);
  const auto size = std::filesystem::file_size(file);
  SECTION("cut off") {
    std::filesystem::resize_file(file, size - 3);
    c.Restart();
    c.kept->Begin(PlaceOf(c.request, c.name));
    CHECK(c.kept->Measured(c.key) == std::vector<std::uint64_t>{0});
    c.Put(512);  // it is written over what was cut off
    c.Restart();
    c.kept->Begin(PlaceOf(c.request, c.name));
    CHECK(c.kept->Measured(c.key) == std::vector<std::uint64_t>{0, 512});
  }
  SECTION("another byte") {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(size) - 100);
    bytes.put('x');
    bytes.close();
    c.Restart();
    c.kept->Begin(PlaceOf(c.request, c.name));
    CHECK(c.kept->Measured(c.key) == std::vector<std::uint64_t>{0});
  }
  SECTION("a file of another column") {
    ColumnKey other = c.key;
    other.operations = {1, 1};
    std::filesystem::copy_file(file, PartialColumn::FileIn(c.dir / "columns", other));
    c.request.operations = {1, 1};
    c.kept->Begin(PlaceOf(c.request, c.name));
    CHECK(c.kept->Measured(other).empty());
  }
}

TEST_CASE("ranges of a feature are put together, whatever their widths and signs", "[columns]") {
  Columns c;
  c.request.columns.front().type = MeasuredType::kInt64;
  const auto range = [](std::uint64_t first, std::int64_t factor) {
    WideValues wide = WideValues::None(MeasuredType::kInt64,
                                       std::min<std::uint64_t>(kMeasuredRange, kExamples - first));
    for (std::size_t i = 1; i < wide.bits.size(); ++i) {
      wide.Set(i, static_cast<std::uint64_t>(factor * static_cast<std::int64_t>(i % 2 + 1)));
    }
    return MeasuredValues(wide);
  };
  c.kept->Begin(PlaceOf(c.request, c.name));
  REQUIRE(c.kept->Put(c.key, 0, range(0, -3)).ok());
  REQUIRE(c.kept->Put(c.key, 512, range(512, -70'000)).ok());
  const Status other = c.kept->Put(c.key, 256, RangeAt(256));
  CHECK(other.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(other.message(), Contains("values of type 0 of column " + c.name + ": expected 1"));
  c.Restart();
  c.kept->Begin(PlaceOf(c.request, c.name));
  CHECK(c.kept->Measured(c.key) == std::vector<std::uint64_t>{0, 512});
  REQUIRE(c.kept->Put(c.key, 256, range(256, 5)).ok());
  REQUIRE(c.kept->Finish(c.key).ok());
  const auto values = c.kept->Get(c.request)->at(c.name);
  CHECK(values->width() == 4);
  for (const std::uint64_t first : {0, 256, 512}) {
    CHECK_FALSE(values->Has(first));
    CHECK(values->At(first) == 0);
  }
  CHECK(values->At(1) == -6);
  CHECK(values->At(258) == 5);
  CHECK(values->At(599) == -140'000);
  // A plan that takes the column for another type has no use for it.
  c.request.columns.front().type = MeasuredType::kFloat32;
  CHECK(c.kept->Missing(c.request) == std::vector<std::string>{c.name});
}

TEST_CASE("values that are no whole range are refused", "[columns]") {
  Columns c;
  c.kept->Begin(PlaceOf(c.request, c.name));
  for (const std::uint64_t first : {1, 768, 1 << 30}) {
    CHECK(c.kept->Put(c.key, first, RangeAt(0)).code() == StatusCode::kInvalidArgument);
  }
  CHECK(c.kept->Put(c.key, 512, RangeAt(0)).code() == StatusCode::kInvalidArgument);
  CHECK(c.kept->Measured(c.key).empty());
}

TEST_CASE("a column stays in memory if no folder can be written", "[columns]") {
  Columns c;
  std::ofstream(c.dir / "columns") << "a file where the folder should be";
  c.kept->Begin(PlaceOf(c.request, c.name));
  c.PutAll();
  CHECK(c.kept->Finish(c.key).ok());
  CHECK(c.kept->Get(c.request)->at(c.name)->At(599) == 599);
  CHECK(c.kept->Encoded(c.key).ok());
}

TEST_CASE("a plan that excludes files uses what is kept, and has nothing measured", "[columns]") {
  Columns c;
  ColumnRequest excluding = c.request;
  excluding.excluded_files = {"bad.bin"};
  const Status refused = c.kept->Get(excluding).status();
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(refused.message(), Contains("bad.bin"));
  c.kept->Begin(PlaceOf(c.request, c.name));
  c.PutAll();
  REQUIRE(c.kept->Finish(c.key).ok());
  CHECK(c.kept->Get(excluding).ok());
}

TEST_CASE("a worker fetches a column once, and checks it", "[columns]") {
  Columns c;
  CHECK(c.kept->Encoded(c.key).status().code() == StatusCode::kNotFound);
  c.kept->Begin(PlaceOf(c.request, c.name));
  c.PutAll();
  REQUIRE(c.kept->Finish(c.key).ok());
  ColumnRequest there = c.request;
  there.folders = {c.dir / "worker"};
  int fetched = 0;
  std::string bytes = **c.kept->Encoded(c.key);
  FetchedColumns columns(
      [&](const ColumnKey& key) -> Result<std::string> {
        CHECK(key == c.key);
        ++fetched;
        return bytes;
      },
      MakeNullLogger());
  SECTION("good") {
    CHECK(columns.Get(there)->at(c.name)->At(599) == 599);
    CHECK(columns.Get(there)->at(c.name)->At(300) == 300);
    CHECK(fetched == 1);
  }
  SECTION("another digest") {
    bytes[bytes.size() / 2] ^= 1;
    const Status refused = columns.Get(there).status();
    CHECK(refused.code() == StatusCode::kUnavailable);
    CHECK_THAT(refused.message(), Contains("do not have its digest"));
    CHECK_FALSE(std::filesystem::exists(c.dir / "worker"));
    bytes[bytes.size() / 2] ^= 1;
    CHECK(columns.Get(there).ok());
  }
  SECTION("of another source") {
    const std::vector<std::uint64_t> one = {1};
    const auto encoded = EncodeColumn(c.key, MeasuredValues(one));
    bytes.assign(reinterpret_cast<const char*>(encoded.data()), encoded.size());
    CHECK_THAT(columns.Get(there).status().message(), Contains("it has 1 values"));
  }
}

}  // namespace
}  // namespace millrace::test
