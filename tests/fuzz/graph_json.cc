// The text of graph.json. What is read has to be written and read again as it is.
#include "server/kinds/graph/format/graph_json.h"

#include "common/base/hash.h"
#include "tests/fuzz/fuzz.h"

namespace millrace::fuzz {
namespace {

GraphDescription Sample() {
  GraphDescription graph;
  graph.nodes = 3;
  graph.edges = 2;
  graph.arrays["indptr"] = {"indptr.npy", {DType::kInt64, {4}}, 128, 160, {1, 2}};
  graph.arrays["indices"] = {"indices.npy", {DType::kUint32, {2}}, 128, 136, {3, 4}};
  return graph;
}

/// The text with its `digest` made right, if it has one.
std::string Sealed(std::string text) {
  const Status status = ReadGraphJson(text).status();
  const std::string expected = "digest: expected ";
  if (!status.message().starts_with(expected)) return text;
  const std::string right = status.message().substr(expected.size(), 32);
  const std::size_t got = status.message().rfind(' ') + 1;
  const std::size_t at = text.find(status.message().substr(got));
  return at == std::string::npos ? text : text.replace(at, right.size(), right);
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  const auto graph =
      ReadGraphJson(fuzz::Sealed(std::string(reinterpret_cast<const char*>(data), size)));
  if (!graph.ok()) {
    fuzz::Require(graph.status().code() == StatusCode::kDataLoss, "a bad graph.json is DataLoss");
    return 0;
  }
  fuzz::RequireOk(CheckDescription(*graph), "what was read agrees with itself");
  const auto again = ReadGraphJson(WriteGraphJson(*graph));
  fuzz::RequireOk(again.status(), "what was written is read");
  fuzz::Require(*again == *graph, "what was written is the same");
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  std::vector<std::string> seeds = {WriteGraphJson(Sample())};
  GraphDescription graph = Sample();
  graph.rows = GraphRows::kTarget;
  graph.edge_labels = {"a", "b"};
  graph.node_labels = {"\"\xc3\xa9\n"};
  graph.arrays["edge_label"] = {"labels", {DType::kUint8, {2}}, 0, 2, {5, 6}};
  graph.arrays["node_label"] = {"/labels", {DType::kInt16, {3}}, 0, 6, {5, 7}};
  graph.arrays["node_feature/x"] = {
      "all.safetensors", {DType::kBFloat16, {3, 2}}, 100, 4000, {5, 6}};
  graph.arrays["edge_feature/w"] = {"all.safetensors", {DType::kBool, {2}}, 112, 4000, {5, 6}};
  graph.arrays["roots/r"] = {"r.npy", {DType::kInt32, {5}}, 128, 148, {8, 9}};
  graph.arrays["targets/r/y"] = {"y.npy", {DType::kFloat64, {5, 1, 2}}, 128, 208, {8, 8}};
  graph.arrays["graphs/g"] = {"g.npy", {DType::kUint64, {3}}, 128, 152, {8, 7}};
  seeds.push_back(WriteGraphJson(graph));
  return seeds;
}
