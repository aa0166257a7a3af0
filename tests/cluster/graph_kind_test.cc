// A graph dataset with features and targets, through a whole cluster.

#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

#include "server/dataset/graph/generator/graph_generator.h"
#include "server/dataset/kinds/product_kinds.h"
#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

using test::BatchRecord;
using test::ReadAll;
using test::TestCluster;

TEST_CASE("a cluster serves features and targets of a graph, and goes on when a worker dies",
          "[cluster]") {
  TestCluster cluster(test::TestDataset{
      .kinds = ProductKinds(),
      .write =
          [](const std::filesystem::path& dir) {
            GraphGeneratorReport report;
            REQUIRE(GenerateGraph(dir, {.nodes = 2000, .edge_features = 2}, &report).ok());
          },
      .pipeline = "millrace: 1\ndataset: data\nsource: {roots: train}\nshuffle: {seed: 3}\n"
                  "closure: {max_subgraph_size: 30}\nfeatures: [x]\nedge_features: [w]\n"
                  "targets: [y]\nbatch: {size: 8, remainder: keep}\n"});
  cluster.AddWorker("one");
  cluster.AddWorker("two");
  const auto session = cluster.Connect(cluster.Options(0, 1), "rank-0");
  INFO(session.status().message());
  REQUIRE(session.ok());
  std::vector<BatchRecord> read = *ReadAll(**session, 1, 10);
  const v1::ServiceStatus status = *cluster.Status();
  REQUIRE(status.workers_size() == 2);
  CHECK(status.workers(0).datasets().at("data").kind() == "graph");
  cluster.KillWorker("one");
  const std::vector<BatchRecord> rest = *ReadAll(**session, 1);
  read.insert(read.end(), rest.begin(), rest.end());
  std::sort(read.begin(), read.end());
  CHECK(read == cluster.Reference(0, 1));
}

}  // namespace
}  // namespace millrace
