#include "server/kinds/graph/format/graph_json.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "server/kinds/graph/format/json_reader.h"
#include "tests/support/skip.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

GraphDescription Sample() {
  GraphDescription graph;
  graph.nodes = 3;
  graph.edges = 2;
  graph.rows = GraphRows::kTarget;
  graph.edge_labels = {"cites \"x\"", "b\n"};
  graph.arrays["indptr"] = {"indptr.npy", {DType::kInt64, {4}}, 128, 160, {1, 2}};
  graph.arrays["indices"] = {"/far/indices.bin", {DType::kUint32, {2}}, 4, 12, {3, 4}};
  graph.arrays["node_feature/x"] = {
      "all.safetensors", {DType::kBFloat16, {3, 2}}, 100, 4000, {5, 6}};
  graph.arrays["edge_feature/w"] = {"all.safetensors", {DType::kBool, {2}}, 112, 4000, {5, 6}};
  graph.arrays["targets/all/y"] = {"y.npy", {DType::kFloat64, {3, 0}}, 128, 128, {7, 8}};
  return graph;
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string JsonError(const std::string& text) {
  const auto graph = ReadGraphJson(text);
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.status().code() == StatusCode::kDataLoss);
  return graph.status().message();
}

TEST_CASE("graph.json is read as it was written", "[graph_json]") {
  const auto read = ReadGraphJson(WriteGraphJson(Sample()));
  INFO(read.status().message());
  REQUIRE(read.ok());
  CHECK(*read == Sample());
}

TEST_CASE("the golden graphs' digests are those of their descriptions", "[graph_json]") {
  const fs::path graphs = fs::path(test::SharedDirOrSkip()) / "golden-graphs/graphs";
  std::size_t found = 0;
  for (const auto& folder : fs::directory_iterator(graphs)) {
    const auto graph = ReadGraphJson(test::ReadText(folder.path() / "graph.json"));
    INFO(folder.path() << ": " << graph.status().message());
    CHECK(graph.ok());
    ++found;
  }
  CHECK(found == 3);
}

TEST_CASE("the digest's lines are sorted and absent parts have none", "[graph_json]") {
  GraphDescription graph = Sample();
  CHECK(DigestLines(graph) ==
        "array edge_feature/w=bool [2] 112 00000000000000050000000000000006\n"
        "array indices=uint32 [2] 4 00000000000000030000000000000004\n"
        "array indptr=int64 [4] 128 00000000000000010000000000000002\n"
        "array node_feature/x=bfloat16 [3, 2] 100 00000000000000050000000000000006\n"
        "array targets/all/y=float64 [3, 0] 128 00000000000000070000000000000008\n"
        "edge_labels=[\"cites \\\"x\\\"\", \"b\\u000a\"]\n"
        "edges=2\nnodes=3\nrows=\"target\"\n");
  graph.edge_labels.reset();
  CHECK_THAT(DigestLines(graph), !Contains("labels"));
}

TEST_CASE("a path is no part of the digest", "[graph_json]") {
  GraphDescription graph = Sample();
  const Digest128 digest = DigestOf(graph);
  graph.arrays["indptr"].path = "elsewhere.npy";
  CHECK(DigestOf(graph) == digest);
}

TEST_CASE("a changed number of graph.json contradicts its digest", "[graph_json]") {
  const std::string text = WriteGraphJson(Sample());
  CHECK_THAT(JsonError(Replaced(text, "\"rows\": \"target\"", "\"rows\": \"source\"")),
             Contains("digest: expected ") && Contains("which its content has"));
}

TEST_CASE("unknown keys of graph.json are refused by name", "[graph_json]") {
  const std::string text = WriteGraphJson(Sample());
  CHECK_THAT(JsonError(Replaced(text, "\"nodes\": 3", "\"nodes\": 3, \"weight\": 1")),
             Contains("the key 'weight' is unknown; expected millrace_graph, nodes,"));
  CHECK_THAT(JsonError(Replaced(text, "\"offset\": 128", "\"offset\": 128, \"order\": \"C\"")),
             Contains("array 'indptr': the key 'order' is unknown"));
  CHECK_THAT(JsonError(Replaced(text, "\"node_feature/x\"", "\"node_features/x\"")),
             Contains("array 'node_features/x': unknown; expected indptr"));
}

TEST_CASE("graph.json that lacks a key or an array is refused by name", "[graph_json]") {
  const std::string text = WriteGraphJson(Sample());
  CHECK_THAT(JsonError(Replaced(text, " \"edges\": 2,\n", "")),
             Contains("the key edges is missing"));
  CHECK_THAT(JsonError(Replaced(text, ", \"bytes\": 160", "")),
             Contains("array 'indptr': the key bytes is missing"));
  CHECK_THAT(JsonError(Replaced(text, "\"indices\": {", "\"roots/x\": {")),
             Contains("has no array indices"));
}

TEST_CASE("graph.json of another version is refused by its version", "[graph_json]") {
  const std::string text = WriteGraphJson(Sample());
  CHECK_THAT(
      JsonError(Replaced(text, "\"millrace_graph\": 1", "\"millrace_graph\": 2, \"new\": 1")),
      Contains("millrace_graph: expected version 1, got 2"));
  CHECK_THAT(JsonError("{\"nodes\": 1}"), Contains("millrace_graph is missing"));
  CHECK_THAT(JsonError("[]"), Contains("expected an object"));
}

TEST_CASE("text that is no JSON, nested too deep or with a key twice is refused", "[graph_json]") {
  CHECK_THAT(JsonError(""), Contains("is no JSON"));
  CHECK_THAT(JsonError("{\"a\": \"\xff\"}"), Contains("is no JSON: at byte"));
  CHECK_THAT(JsonError("{\"nodes\": 1e999}"), Contains("is no JSON"));
  CHECK_THAT(JsonError(std::string(1 << 20, '[')), Contains("nested more than 4 deep"));
  CHECK_THAT(JsonError(R"({"arrays": {"x": {"shape": [[]]}}})"),
             Contains("nested more than 4 deep"));
  CHECK_THAT(JsonError(R"({"arrays": {"x": {"shape": []}}})"), !Contains("nested"));
  CHECK_THAT(JsonError("{\"nodes\": 1, \"nodes\": 2}"), Contains("the key 'nodes' twice"));
}

TEST_CASE("a text with more values than any dataset needs is refused before it takes memory",
          "[graph_json]") {
  std::string numbers = R"({"millrace_graph": 1, "nodes": [0)";
  for (std::size_t i = 0; i < kMaxJsonValues; ++i) numbers += ",0";
  CHECK_THAT(JsonError(numbers), Contains("has more than 4194304 keys and values"));
  std::string keys = R"({"millrace_graph": 1)";
  for (std::size_t i = 0; i < kMaxJsonValues / 2; ++i) keys += ",\"" + std::to_string(i) + "\":0";
  CHECK_THAT(JsonError(keys), Contains("has more than 4194304 keys and values"));
}

TEST_CASE("numbers of graph.json that are none or too large are refused", "[graph_json]") {
  const std::string text = WriteGraphJson(Sample());
  for (const std::string number : {"-1", "1.5", "\"3\"", "281474976710655", "null", "true"}) {
    CHECK_THAT(JsonError(Replaced(text, "\"nodes\": 3", "\"nodes\": " + number)),
               Contains("nodes: expected an integer from 0 to"));
  }
}

/// The message for a sample of which `change` was made.
template <class Change>
std::string ErrorAfter(Change change) {
  GraphDescription graph = Sample();
  change(graph);
  const Status status = CheckDescription(graph);
  REQUIRE_FALSE(status.ok());
  CHECK(JsonError(WriteGraphJson(graph)) == status.message());
  return status.message();
}

TEST_CASE("an array whose type or shape does not fit its name is refused", "[graph_json]") {
  const auto with = [](const std::string& name, DType dtype, std::vector<std::uint64_t> shape) {
    return ErrorAfter([&](GraphDescription& graph) {
      graph.arrays[name] = {"other.npy", {dtype, shape}, 0, 1000, {9, 9}};
    });
  };
  CHECK_THAT(with("indptr", DType::kInt64, {3}),
             Contains("array indptr: has shape [3], expected a first extent of 4"));
  CHECK_THAT(with("indptr", DType::kUint16, {4}), Contains("has dtype uint16"));
  CHECK_THAT(with("indices", DType::kFloat32, {2}), Contains("has dtype float32"));
  CHECK_THAT(with("indices", DType::kInt32, {2, 1}), Contains("expected one dimension"));
  CHECK_THAT(with("edge_label", DType::kBool, {2}), Contains("has dtype bool"));
  CHECK_THAT(with("node_label", DType::kUint8, {2}), Contains("first extent of 3"));
  CHECK_THAT(with("node_feature/y", DType::kUint8, {2}), Contains("first extent of 3"));
  CHECK_THAT(with("edge_feature/y", DType::kUint8, {3}), Contains("first extent of 2"));
  CHECK_THAT(with("node_feature/y", DType::kUint8, {}), Contains("is a scalar"));
  CHECK_THAT(with("graphs/g", DType::kInt32, {0}), Contains("is empty"));
  CHECK_THAT(with("targets/none/y", DType::kUint8, {2}),
             Contains("there is neither roots/none nor graphs/none"));
  CHECK_THAT(with("targets/all/y", DType::kUint8, {2}), Contains("first extent of 3"));
}

TEST_CASE("an array has one of the names of the format", "[graph_json]") {
  const auto named = [](const std::string& name) {
    GraphDescription graph = Sample();
    graph.arrays[name] = {"other.npy", {DType::kUint8, {3}}, 0, 1000, {9, 9}};
    return CheckDescription(graph);
  };
  const std::string longest(64, 'x');
  for (const std::string word : {"x", "_", "X9_a", longest.c_str()}) {
    INFO(word);
    CHECK(named("node_feature/" + word).ok());
    CHECK(named("targets/all/" + word).ok());
  }
  for (const std::string name : {"node_feature/", "node_feature/x y", "node_feature/9x",
                                 "node_feature/a.b", "targets/all/x/y", "targets/all", "roots",
                                 "Node_feature/x", "node_feature/é", "indptr/x"}) {
    INFO(name);
    CHECK_THAT(named(name).message(), Contains("unknown; expected indptr"));
  }
  CHECK_FALSE(named("node_feature/" + longest + "x").ok());
}

TEST_CASE("an array has at most eight dimensions, and rows that could be addressed",
          "[graph_json]") {
  const auto with = [](std::vector<std::uint64_t> shape) {
    GraphDescription graph = Sample();
    graph.arrays["targets/none/y"] = {
        "other.npy", {DType::kFloat64, std::move(shape)}, 0, 1000, {9, 9}};
    graph.arrays["roots/none"] = {"roots.npy", {DType::kInt32, {0}}, 0, 1000, {9, 8}};
    return CheckDescription(graph).message();
  };
  CHECK(with({0, 1, 1, 1, 1, 1, 1, 1}).empty());
  CHECK_THAT(with({0, 1, 1, 1, 1, 1, 1, 1, 1}), Contains("has 9 dimensions, expected at most 8"));
  // There is no row, but whoever counts the bytes of one must not count beyond 64 bits.
  CHECK_THAT(with({0, std::uint64_t{1} << 32, std::uint64_t{1} << 32}),
             Contains("expected fewer than 2^63 bytes"));
  CHECK(with({0, std::uint64_t{1} << 30, std::uint64_t{1} << 29}).empty());
}

TEST_CASE("an array that does not lie in its file is refused", "[graph_json]") {
  CHECK_THAT(ErrorAfter([](GraphDescription& graph) { graph.arrays["indptr"].bytes = 159; }),
             Contains("array indptr: int64 [4] from byte 128 on does not lie in a file of 159"));
  CHECK_THAT(ErrorAfter([](GraphDescription& graph) {
               graph.arrays["indptr"].offset = std::uint64_t{1} << 61;
             }),
             Contains("does not lie in a file"));
  CHECK_THAT(ErrorAfter([](GraphDescription& graph) {
               graph.arrays["node_feature/x"].type.shape = {3, kMaxArrayExtent, kMaxArrayExtent};
             }),
             Contains("expected fewer than 2^63 bytes"));
}

TEST_CASE("two arrays of one file have to agree about it", "[graph_json]") {
  CHECK_THAT(
      ErrorAfter([](GraphDescription& graph) { graph.arrays["node_feature/x"].bytes = 4001; }),
      Contains("array node_feature/x: another array of 'all.safetensors'"));
  CHECK_THAT(ErrorAfter([](GraphDescription& graph) {
               graph.arrays["node_feature/x"].xxh3 = {5, 7};
             }),
             Contains("gives its bytes or its xxh3 otherwise"));
}

TEST_CASE("a path that leads out of the folder is refused, an absolute one is not",
          "[graph_json]") {
  for (const std::string path : {"../indptr.npy", "a/../../indptr.npy", ".."}) {
    CHECK_THAT(ErrorAfter([&](GraphDescription& graph) { graph.arrays["indptr"].path = path; }),
               Contains("array indptr: path: ") && Contains("leads out of the folder"));
  }
  CHECK_THAT(ErrorAfter([](GraphDescription& graph) { graph.arrays["indptr"].path.clear(); }),
             Contains("path: is empty"));
  CHECK_THAT(ErrorAfter([](GraphDescription& graph) {
               graph.arrays["indptr"].path = std::string("indptr.npy\0x", 12);
             }),
             Contains("path: has a zero byte"));
  GraphDescription graph = Sample();
  graph.arrays["indptr"].path = "a..b/..c/indptr.npy";
  CHECK(CheckDescription(graph).ok());
}

TEST_CASE("labels that are there twice are refused", "[graph_json]") {
  CHECK_THAT(ErrorAfter([](GraphDescription& graph) {
               graph.edge_labels = {"a", "b", "a"};
             }),
             Contains("edge_labels: 'a' is there twice"));
  CHECK_THAT(
      ErrorAfter([](GraphDescription& graph) { graph.node_labels = std::vector<std::string>(); }),
      Contains("node_labels: expected 1 to"));
}

}  // namespace
}  // namespace millrace
