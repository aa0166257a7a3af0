// Tensors that a pipeline defines, through a whole cluster: some are computed at the workers, some
// at the consumer.

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/catalog/product_kinds.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

using test::BatchRecord;
using test::ReadAll;
using test::TestCluster;

/// A graph with 3 features a node, and targets below 16.
test::TestDataset Graph(const std::string& tensors) {
  return {
      .kinds = ProductKinds(),
      .write =
          [](const std::filesystem::path& dir) {
            GraphGeneratorReport report;
            REQUIRE(GenerateGraph(dir, {.nodes = 1000, .features = 3, .edge_features = 2}, &report)
                        .ok());
          },
      .pipeline =
          "millrace: 1\ndataset: data\nsource: {roots: train}\nshuffle: {seed: 3}\n"
          "closure: {max_subgraph_size: 20}\nfeatures: [x]\ntargets: [y]\n"
          "batch: {size: 8, remainder: keep}\n" +
          tensors};
}

/// `two` shrinks what travels, so workers compute it; `hot` and `wide` grow it.
constexpr const char* kTensors =
    "tensors:\n"
    "  two: {slice: node_feature/x, range: [1, 3]}\n"
    "  hot: {one_hot: target/y, depth: 16, dtype: float32}\n"
    "  wide: {expr: 'two * 2 + 0.5', dtype: float64}\n"
    "output: [hot, node, target/y, two, wide]\n";

template <class T>
std::span<const T> Values(const Batch& batch, const std::string& name) {
  const DeliveredTensor* const tensor = batch.Find(name);
  INFO(name);
  REQUIRE(tensor != nullptr);
  return tensor->values<T>();
}

TEST_CASE("tensors of a pipeline are delivered with the values that they are defined to have",
          "[cluster][tensors]") {
  TestCluster cluster(Graph(kTensors));
  cluster.AddWorker("one");
  const auto session = cluster.Connect(cluster.Options(0, 1), "rank-0");
  INFO(session.status().message());
  REQUIRE(session.ok());
  std::size_t rows = 0;
  while (const auto batch = (*session)->Next().value()) {
    CHECK(batch->Find("node_feature/x") == nullptr);
    CHECK(batch->Find("edge_source") == nullptr);
    const auto y = Values<std::int64_t>(*batch, "target/y");
    const auto hot = Values<float>(*batch, "hot");
    REQUIRE(hot.size() == 16 * y.size());
    for (std::size_t i = 0; i < hot.size(); ++i) {
      CHECK(hot[i] == (static_cast<std::int64_t>(i % 16) == y[i / 16] ? 1.0F : 0.0F));
    }
    const auto two = Values<float>(*batch, "two");
    const auto wide = Values<double>(*batch, "wide");
    CHECK(two.size() == 2 * Values<std::int32_t>(*batch, "node").size());
    REQUIRE(wide.size() == two.size());
    for (std::size_t i = 0; i < two.size(); ++i) {
      CHECK(wide[i] == static_cast<double>(two[i] * 2 + 0.5F));
    }
    rows += y.size();
  }
  CHECK(rows == 100);
}

TEST_CASE("rows of any array of a dataset are looked up by number", "[cluster][tensors]") {
  TestCluster cluster(
      Graph("tensors: {seen: {lookup: node, table: node_feature/x}}\n"
            "output: [node_feature/x, seen]\n"));
  cluster.AddWorker("one");
  const auto session = cluster.Connect(cluster.Options(0, 1), "rank-0");
  INFO(session.status().message());
  REQUIRE(session.ok());
  const auto batch = (*session)->Next().value();
  REQUIRE(batch.has_value());
  const auto seen = Values<float>(*batch, "seen");
  const auto x = Values<float>(*batch, "node_feature/x");
  CHECK_FALSE(x.empty());
  CHECK(std::equal(seen.begin(), seen.end(), x.begin(), x.end()));
}

TEST_CASE("features of edges are looked up by the places of edges", "[cluster][tensors]") {
  TestCluster cluster(
      Graph("edge_features: [w]\n"
            "tensors: {seen: {lookup: edge, table: edge_feature/w}}\n"
            "output: [edge, edge_feature/w, seen]\n"));
  cluster.AddWorker("one");
  const auto session = cluster.Connect(cluster.Options(0, 1), "rank-0");
  INFO(session.status().message());
  REQUIRE(session.ok());
  const auto batch = (*session)->Next().value();
  REQUIRE(batch.has_value());
  const auto seen = Values<float>(*batch, "seen");
  const auto w = Values<float>(*batch, "edge_feature/w");
  CHECK(seen.size() > 100);
  CHECK(std::equal(seen.begin(), seen.end(), w.begin(), w.end()));
  CHECK(Values<std::int32_t>(*batch, "edge").size() * 2 == w.size());
  // An unlabelled graph has no labels, and nobody asked for nodes.
  CHECK(batch->Find("edge_label") == nullptr);
  CHECK(batch->Find("node") == nullptr);
}

/// An operation that the product does not have: every row with its last value first.
OperationType Reversed() {
  OperationType operation;
  operation.name = "reversed";
  operation.help = "the values of a row in reversed order";
  operation.worker_only = true;  // clients have the product's table
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    const TensorType& input = context.inputs.front();
    MapStep map;
    for (std::uint64_t i = input.UnitElements(); i-- > 0;) {
      map.map.push_back(static_cast<std::uint32_t>(i));
    }
    BoundOperation bound;
    bound.steps.push_back({input, std::move(map)});
    return bound;
  };
  return operation;
}

TEST_CASE("a cluster runs an operation from outside", "[cluster][tensors]") {
  test::TestDataset dataset =
      Graph("tensors: {back: {reversed: node_feature/x}}\noutput: [back, node_feature/x]\n");
  dataset.operations =
      std::make_shared<const OperationTable>(OperationTable::Default().With(Reversed()));
  TestCluster cluster(dataset);
  cluster.AddWorker("one");
  const auto session = cluster.Connect(cluster.Options(0, 1), "rank-0");
  INFO(session.status().message());
  REQUIRE(session.ok());
  const auto batch = (*session)->Next().value();
  REQUIRE(batch.has_value());
  const auto back = Values<float>(*batch, "back");
  const auto x = Values<float>(*batch, "node_feature/x");
  REQUIRE(back.size() == x.size());
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(back[i] == x[i / 3 * 3 + 2 - i % 3]);
}

TEST_CASE("any fleet delivers a pipeline's tensors with the same bytes, also if a worker dies",
          "[cluster][tensors]") {
  TestCluster cluster(Graph(kTensors));
  cluster.AddWorker("one");
  cluster.AddWorker("two");
  const auto session = cluster.Connect(cluster.Options(0, 1), "rank-0");
  INFO(session.status().message());
  REQUIRE(session.ok());
  std::vector<BatchRecord> read = *ReadAll(**session, 1, 4);
  cluster.KillWorker("one");
  const std::vector<BatchRecord> rest = *ReadAll(**session, 1);
  read.insert(read.end(), rest.begin(), rest.end());
  std::sort(read.begin(), read.end());
  CHECK(read == cluster.Reference(0, 1));
}

TEST_CASE("a value that no operation can take ends the job with the tensor's name",
          "[cluster][tensors]") {
  TestCluster cluster(Graph("tensors:\n  hot: {one_hot: target/y, depth: 2}\noutput: [hot]\n"));
  cluster.AddWorker("one");
  const auto session = cluster.Connect(cluster.Options(0, 1), "rank-0");
  REQUIRE(session.ok());
  Status status;
  for (bool more = true; more && status.ok();) {
    const auto batch = (*session)->Next();
    status = batch.status();
    more = batch.ok() && batch->has_value();
  }
  INFO(status.ToString());
  CHECK_FALSE(status.ok());
  CHECK(status.message().find("hot") != std::string::npos);
}

TEST_CASE("a pipeline whose tensors do not fit the source is refused with the place",
          "[cluster][tensors]") {
  TestCluster cluster(Graph("tensors:\n  a: {cast: node_feature/z, dtype: int8}\n"));
  cluster.AddWorker("one");
  const auto session = cluster.Connect(cluster.Options(0, 1), "rank-0");
  REQUIRE_FALSE(session.ok());
  INFO(session.status().message());
  CHECK(session.status().message().find(":10:") != std::string::npos);
  CHECK(session.status().message().find("there is no tensor 'node_feature.z'") !=
        std::string::npos);
}

}  // namespace
}  // namespace millrace
