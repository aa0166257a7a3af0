#include "common/parameters/member.h"
#include "server/kinds/graph/graph_kind.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "server/kinds/graph/format/verify.h"
#include "server/source/warm.h"
#include "tests/support/recording_logger.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::SmallGraphFolder;

TEST_CASE("a graph dataset is opened, described and verified as a kind", "[graph_kind]") {
  SmallGraphFolder folder;
  folder.description.arrays.erase("graphs/parts");  // an edge leads from one of them to another
  const auto kind = MakeGraphKind();
  CHECK_FALSE(kind->IsOne(folder.dir.path()));
  REQUIRE(folder.Seal().ok());
  CHECK(kind->IsOne(folder.dir.path()));
  const OpenedDataset opened = kind->Open(folder.dir.path(), {});
  REQUIRE(opened.status.ok());
  CHECK(opened.dataset->kind() == "graph");
  CHECK(opened.dataset->examples() == 4);
  CHECK(opened.dataset->file_count() == 7);
  CHECK(opened.dataset->Files()[0].name == "edge_label.npy");
  CHECK_THAT(*kind->Inspect(folder.dir.path(), {}), Contains("edges            5\n") &&
                                                        Contains("node_feature/x") &&
                                                        Contains("float32 [4, 2]"));
  CHECK_THAT(*kind->Verify(folder.dir.path(), {}), Contains("7 files") && Contains("digest"));
  CHECK(kind->FilesToWarm(folder.dir.path())->names.size() == 8);
  test::OverwriteValue<float>(folder.dir / "node_feature/x.npy", 3, 0.5f);
  CHECK_THAT(kind->Verify(folder.dir.path(), {}).status().message(),
             Contains("node_feature/x.npy (array node_feature/x)"));
}

TEST_CASE("verifying a graph dataset finds an edge between two small graphs", "[graph_kind]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const Status status = MakeGraphKind()->Verify(folder.dir.path(), {}).status();
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK_THAT(status.message(), Contains("no edge leads from one small graph to another"));
}

TEST_CASE("files of a graph dataset are warmed, wherever they lie", "[graph_kind]") {
  const test::TempDir elsewhere;
  SmallGraphFolder folder;
  GraphSealer sealer(folder.dir.path(), folder.description);
  test::WriteText(elsewhere / "raw", std::string(4, 'x'));
  REQUIRE(sealer
              .Add("node_feature/raw",
                   {.path = elsewhere / "raw", .type = ArrayType{DType::kUint8, {4}}})
              .ok());
  REQUIRE(sealer.Seal().ok());
  const auto listing = *MakeGraphKind()->FilesToWarm(folder.dir.path());
  const auto has = [&](const std::string& name) {
    return std::count(listing.names.begin(), listing.names.end(), name) == 1;
  };
  CHECK(has((elsewhere / "raw").string()));
  CHECK(has("node_feature/x.npy"));
  CHECK(has("graph.json"));
  std::uint64_t told = 0;
  WarmOptions options;
  options.threads = 1;
  options.progress = [&](std::uint64_t bytes) { told += bytes; };
  const auto report = WarmFiles(folder.dir.path(), listing, options);
  REQUIRE(report.ok());
  CHECK(report->files == 10);
  CHECK(told == report->bytes);
  CHECK(report->bytes == GraphBytes(**GraphDataset::Open(folder.dir.path())));
  // They were written just now. What is in the cache already is not read.
  if (report->cached_before == report->bytes) CHECK(report->read == 0);
}

TEST_CASE("files of some arrays are warmed alone", "[graph_kind]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const auto kind = MakeGraphKind();
  const auto listing =
      kind->ArraysToWarm(folder.dir.path(), {"indptr", "node_feature/x", "indptr"});
  REQUIRE(listing.ok());
  CHECK(listing->names == std::vector<std::string>{"indptr.npy", "node_feature/x.npy"});
  CHECK(listing->identities.at(0) == *IdentifyFile(folder.dir / "indptr.npy"));
  const Status status = kind->ArraysToWarm(folder.dir.path(), {"node_feature/y"}).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(status.message(),
             Contains("has no array 'node_feature/y': expected one of edge_label, "
                      "graphs/parts, indices, indptr, "));
}

TEST_CASE("a graph dataset is copied into memory if its options say so", "[graph_kind]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const auto kind = MakeGraphKind();
  CHECK(kind->can_be_in_memory());
  const auto logger = std::make_shared<test::RecordingLogger>();
  std::mutex one_build;
  DatasetOpenOptions options;
  options.id = "g";
  options.logger = logger;
  options.one_build = &one_build;
  CHECK(kind->Open(folder.dir.path(), options).dataset->in_memory_bytes() == 0);
  options.in_memory = true;
  const OpenedDataset opened = kind->Open(folder.dir.path(), options);
  REQUIRE(opened.status.ok());
  const std::uint64_t bytes = opened.dataset->in_memory_bytes();
  CHECK(bytes == 9 * 4096);
  CHECK(opened.dataset->unverified() == 0);
  CHECK(logger->Has(fmt::format("dataset is in memory dataset=g bytes={} in_huge_pages=", bytes)));
}

TEST_CASE("a graph dataset that is damaged does not open", "[graph_kind]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  std::filesystem::resize_file(folder.dir / "indices.npy", 3);
  const OpenedDataset opened = MakeGraphKind()->Open(folder.dir.path(), {});
  CHECK(opened.status.code() == StatusCode::kDataLoss);
  CHECK(opened.dataset == nullptr);
}

TEST_CASE("a graph is made up with the numbers that were given", "[graph_kind]") {
  const test::TempDir dir;
  GenerateRequest request;
  request.params = Params({{"nodes", AsParamValue(500)},
                           {"features", AsParamValue(3)},
                           {"graphs", AsParamValue(10)}});
  const auto report = MakeGraphKind()->Generate(dir / "g", request);
  REQUIRE(report.ok());
  CHECK_THAT(*report, Contains("nodes         500\n"));
  const auto dataset = *GraphDataset::Open(dir / "g");
  CHECK(dataset->Find("node_feature/x")->type.shape[1] == 3);
  CHECK(dataset->Find("graphs/small")->rows() == 11);
}

TEST_CASE("a graph of another model is made up, with the options of that model", "[graph_kind]") {
  const test::TempDir dir;
  const auto kind = MakeGraphKind();
  const auto parameters = kind->generate_parameters();
  const Parameter* const model = FindParameter(parameters, "model");
  REQUIRE(model != nullptr);
  REQUIRE(model->allowed == std::vector<std::string>{"power-law", "rmat"});
  CHECK(model->default_value == ParamValue("power-law"));
  GenerateRequest request;
  request.params = Params({{"model", "rmat"},
                           {"nodes", AsParamValue(500)},
                           {"edges", AsParamValue(900)},
                           {"rows", "target"},
                           {"classes", AsParamValue(3)}});
  const auto report = kind->Generate(dir / "g", request);
  REQUIRE(report.ok());
  CHECK_THAT(*report, Contains("edges         900\n"));
  const auto dataset = *GraphDataset::Open(dir / "g");
  CHECK(dataset->description().rows == GraphRows::kTarget);
  CHECK(dataset->Find("node_feature/y")->rows() == 500);

  const auto error = [&](std::map<std::string, ParamValue> values) {
    GenerateRequest wrong;
    wrong.params = Params(std::move(values));
    return kind->Generate(dir / "wrong", wrong).status().message();
  };
  CHECK(error({{"model", "rmat"}, {"graphs", AsParamValue(3)}}) ==
        "--graphs: model rmat has no such option");
  CHECK(error({{"edges", AsParamValue(3)}}) == "--edges: model power-law has no such option");
  CHECK(error({{"model", "rmat"}, {"edges", AsParamValue(3)}, {"degree", AsParamValue(4)}}) ==
        "--degree: give either this or --edges");
}

}  // namespace
}  // namespace millrace
