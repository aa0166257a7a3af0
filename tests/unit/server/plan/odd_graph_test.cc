// Graph datasets at the edge of what is one: without nodes, edges or examples, with one node, with
// links, pipes and devices in place of files.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/batch/batch.h"
#include "common/expand/expand.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/graph/format/graph_json.h"
#include "server/plan/plan_library.h"
#include "server/source/source.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Numbers = std::vector<std::int64_t>;

Result<std::shared_ptr<const Plan>> CompileOver(const fs::path& dir, const std::string& source,
                                                const std::string& more = "") {
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  options.datasets["g"].dir = dir;
  PipelineSource pipeline;
  pipeline.yaml =
      "millrace: 1\ndataset: g\nsource: " + source + "\nbatch: {size: 8, remainder: keep}\n" + more;
  PlanLibrary library(std::move(options), MakeNullLogger());
  return library.Compile(pipeline);
}

/// All examples in one batch.
Result<std::shared_ptr<const PackedBatch>> BatchOver(const fs::path& dir, const std::string& source,
                                                     const std::string& more = "") {
  MILLRACE_ASSIGN_OR_RETURN(const auto plan, CompileOver(dir, source, more));
  const auto scratch = plan->NewScratch();
  return plan->Batch(0, {0, static_cast<std::uint32_t>(plan->counts().selected)}, *scratch);
}

Numbers ValuesOf(const PackedBatch& batch, const std::string& path) {
  const auto tensor = batch.Find(path);
  INFO(path);
  REQUIRE(tensor.has_value());
  Numbers values;
  for (std::size_t i = 0; i < batch.tensors()[*tensor].rows; ++i) {
    values.push_back(batch.ValueAt(*tensor, i));
  }
  return values;
}

TEST_CASE("a graph without nodes, edges or examples is one without batches", "[odd_graph]") {
  GraphFolder folder(0, 0);
  folder.Add<std::int64_t>("indptr", DType::kInt64, {0});
  folder.Add<std::int32_t>("indices", DType::kInt32, {}, {0});
  folder.Add<std::uint8_t>("edge_label", DType::kUint8, {}, {0});
  folder.Add<std::uint8_t>("node_label", DType::kUint8, {}, {0});
  folder.Add<float>("node_feature/x", DType::kFloat32, {}, {0, 3});
  folder.Add<float>("edge_feature/w", DType::kFloat32, {}, {0, 2});
  folder.Add<std::int32_t>("roots/none", DType::kInt32, {}, {0});
  folder.Add<std::int64_t>("graphs/none", DType::kInt64, {0});
  folder.Add<std::int64_t>("targets/none/y", DType::kInt64, {}, {0});
  REQUIRE(folder.Seal().ok());
  const std::string more =
      "features: [x]\nedge_features: [w]\nfilter: {where: \"node >= 0\"}\n"
      "tensors: {seen: {lookup: edge, table: edge_feature/w}}\n";
  for (const char* source : {"{roots: none}", "{roots: all}", "{graphs: none}"}) {
    INFO(source);
    const auto plan = CompileOver(folder.dir.path(), source, more);
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    CHECK((*plan)->counts().selected == 0);
    const auto scratch = (*plan)->NewScratch();
    const auto batch = (*plan)->Batch(0, {0, 0}, *scratch);
    REQUIRE(batch.ok());
    CHECK((*batch)->examples() == 0);
    const ExampleId first(0);
    CHECK((*plan)->BatchOf({&first, 1}, 0, *scratch).status().code() == StatusCode::kOutOfRange);
  }
}

TEST_CASE("nodes without edges are examples", "[odd_graph]") {
  GraphFolder folder(3, 0);
  folder.Add<std::uint32_t>("indptr", DType::kUint32, {0, 0, 0, 0});
  folder.Add<std::uint32_t>("indices", DType::kUint32, {}, {0});
  folder.Add<std::uint32_t>("graphs/all", DType::kUint32, {0, 0, 3, 3});
  REQUIRE(folder.Seal().ok());
  for (const char* order : {"bfs", "dfs"}) {
    const auto batch =
        *BatchOver(folder.dir.path(), "{roots: all}",
                   std::string("closure: {order: ") + order + "}\noutput: [node, edge, root]\n");
    CHECK(ValuesOf(*batch, "node") == Numbers{0, 1, 2});
    CHECK(ValuesOf(*batch, "edge_splits") == Numbers{0, 0, 0, 0});
    CHECK(ValuesOf(*batch, "edge").empty());
  }
  const auto graphs = *BatchOver(folder.dir.path(), "{graphs: all}",
                                 "edges: {symmetrization: bidirectional, add_self_edges: true}\n");
  CHECK(ValuesOf(*graphs, "node_splits") == Numbers{0, 0, 3, 3});
  BufferPool pool;
  const auto delivered = *Expand(*graphs, DType::kInt32, pool);
  CHECK(delivered->Find("edge_source")->shape[0] == 3);
  CHECK(delivered->Find("edge_label")->ValueAt(2) == 2);
}

TEST_CASE("one node with edges to itself is a closure of one node", "[odd_graph]") {
  GraphFolder folder(1, 7);
  folder.Add<std::int32_t>("indptr", DType::kInt32, {0, 7});
  folder.Add<std::int64_t>("indices", DType::kInt64, {0, 0, 0, 0, 0, 0, 0});
  folder.Add<std::int64_t>("edge_label", DType::kInt64, {0, 1, 1, 500, 500, 500, 65534});
  REQUIRE(folder.Seal().ok());
  for (const char* source : {"{roots: all}"}) {
    const auto batch = *BatchOver(folder.dir.path(), source,
                                  "closure: {max_subgraph_size: 1}\noutput: [edge, edge_label]\n");
    CHECK(ValuesOf(*batch, "edge") == Numbers{0, 1, 2, 3, 4, 5, 6});
    CHECK(ValuesOf(*batch, "edge_label") == Numbers{0, 1, 1, 500, 500, 500, 65534});
    CHECK(ValuesOf(*batch, "edge_target") == Numbers(7));
  }
}

TEST_CASE("edges of a row that do not stand by label do so in a batch", "[odd_graph]") {
  // The format forbids it, and no reader looks.
  GraphFolder folder(2, 4);
  folder.Add<std::int32_t>("indptr", DType::kInt32, {0, 4, 4});
  folder.Add<std::int32_t>("indices", DType::kInt32, {1, 0, 1, 0});
  folder.Add<std::uint16_t>("edge_label", DType::kUint16, {3, 300, 0, 3});
  REQUIRE(folder.Seal().ok());
  const auto batch = *BatchOver(folder.dir.path(), "{roots: all}", "output: [edge, edge_label]\n");
  CHECK(ValuesOf(*batch, "edge_label") == Numbers{0, 3, 3, 300});
  CHECK(ValuesOf(*batch, "edge") == Numbers{2, 0, 3, 1});
}

TEST_CASE("labels beyond what a label may be are named, with file and array", "[odd_graph]") {
  GraphFolder folder(2, 1);
  folder.Add<std::int32_t>("indptr", DType::kInt32, {0, 1, 1});
  folder.Add<std::int32_t>("indices", DType::kInt32, {1});
  SECTION("of an edge") {
    folder.Add<std::uint64_t>("edge_label", DType::kUint64, {65535});
    REQUIRE(folder.Seal().ok());
    for (const char* source : {"{roots: all}"}) {
      CHECK_THAT(BatchOver(folder.dir.path(), source).status().message(),
                 Contains("edge_label.npy (array edge_label)") && Contains("below 65535"));
    }
  }
  SECTION("of a node") {
    folder.Add<std::uint64_t>("node_label", DType::kUint64, {0, std::uint64_t{1} << 24});
    REQUIRE(folder.Seal().ok());
    CHECK_THAT(BatchOver(folder.dir.path(), "{roots: all}").status().message(),
               Contains("node_label.npy (array node_label): number 1 is 16777216"));
    CHECK_THAT(BatchOver(folder.dir.path(), "{roots: all}", "filter: {where: \"node_label < 3\"}\n")
                   .status()
                   .message(),
               Contains("node_label.npy (array node_label): number 1 is 16777216"));
  }
}

TEST_CASE("links are followed, and those that lead nowhere are named", "[odd_graph]") {
  SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const TempDir elsewhere;
  const fs::path file = folder.dir / "indices.npy";
  const auto opened = [&] { return CompileOver(folder.dir.path(), "{roots: some}").status(); };
  fs::rename(file, elsewhere / "moved");
  fs::create_symlink(elsewhere / "moved", file);
  CHECK(opened().ok());
  fs::create_directory_symlink(folder.dir.path(), elsewhere / "folder");
  CHECK(CompileOver(elsewhere / "folder", "{roots: some}").ok());
  fs::remove(elsewhere / "moved");
  CHECK_THAT(opened().message(),
             Contains("indices.npy (array indices): is a link to a file that does not exist"));
  fs::remove(file);
  fs::create_symlink(file, file);
  CHECK_THAT(opened().message(), Contains("indices.npy (array indices): cannot be opened"));
  fs::rename(folder.dir / "graph.json", elsewhere / "json");
  fs::create_symlink(elsewhere / "json", folder.dir / "graph.json");
  CHECK_THAT(opened().message(), Contains("indices.npy (array indices)"));
}

TEST_CASE("what is no regular file is not opened, and is named", "[odd_graph]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  const auto replace = [&](const std::string& name, const std::string& what) {
    const fs::path path = folder.dir / name;
    fs::remove_all(path);
    if (what == "a named pipe") REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    if (what == "a folder") fs::create_directory(path);
    if (what == "a device") fs::create_symlink("/dev/zero", path);
    if (what == "a socket") {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      REQUIRE(path.string().size() < sizeof address.sun_path);
      std::strcpy(address.sun_path, path.c_str());
      const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
      REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
      ::close(fd);
    }
  };
  for (const std::string what : {"a named pipe", "a folder", "a device", "a socket"}) {
    INFO(what);
    replace("indices.npy", what);
    const Status status = CompileOver(folder.dir.path(), "{roots: some}").status();
    CHECK(status.code() == StatusCode::kDataLoss);
    CHECK_THAT(status.message(), Contains("indices.npy (array indices): is " + what));
  }
  for (const std::string what : {"a named pipe", "a folder", "a device", "a socket"}) {
    INFO(what);
    replace("graph.json", what);
    CHECK_THAT(CompileOver(folder.dir.path(), "{roots: some}").status().message(),
               Contains("graph.json: is " + what));
  }
}

TEST_CASE("a path that names a file in another way is the same file", "[odd_graph]") {
  SmallGraphFolder folder;
  folder.description.arrays["node_feature/z"] = folder.description.arrays["node_feature/x"];
  folder.description.arrays["node_feature/z"].path = ".//node_feature/./x.npy";
  REQUIRE(folder.Seal().ok());
  const auto batch = *BatchOver(folder.dir.path(), "{roots: some}", "features: [x, z]\n");
  const auto bytes = [&](const char* path) { return batch->tensor_bytes(*batch->Find(path)); };
  CHECK(std::equal(bytes("node_feature/x").begin(), bytes("node_feature/x").end(),
                   bytes("node_feature/z").begin()));
  folder.description.arrays["node_feature/z"].path = "node_feature/x.npy/";
  CHECK_THAT(folder.Seal().status().message(),
             Contains("node_feature/x.npy/ (array node_feature/z): cannot be opened"));
}

TEST_CASE("graph.json may have 64 MiB, and no more", "[odd_graph]") {
  const SmallGraphFolder folder;
  REQUIRE(folder.Seal().ok());
  std::string text = ReadText(folder.dir / "graph.json");
  text.resize(kMaxGraphFileBytes, ' ');
  WriteText(folder.dir / "graph.json", text);
  CHECK(CompileOver(folder.dir.path(), "{roots: some}").ok());
  WriteText(folder.dir / "graph.json", text + " ");
  CHECK_THAT(CompileOver(folder.dir.path(), "{roots: some}").status().message(),
             Contains("graph.json: has 67108865 bytes, expected at most 67108864"));
  // Labels may fill it.
  GraphDescription graph = folder.description;
  graph.node_labels.emplace();
  for (std::size_t i = 0; i < kMaxLabelNames; ++i) {
    graph.node_labels->push_back(std::to_string(i) + std::string(40, 'x'));
  }
  WriteText(folder.dir / "graph.json", WriteGraphJson(graph));
  const auto plan = CompileOver(folder.dir.path(), "{roots: some}");
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  CHECK((*plan)->source()->table_specs()[0].table.rows == kMaxLabelNames);
}

}  // namespace
}  // namespace millrace::test
