// A graph dataset with features and targets, through a whole cluster.

#include <catch2/catch.hpp>

#include "server/catalog/product_kinds.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "tests/cluster/outlives_worker.h"
#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

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
  test::CheckOutlivesWorker(cluster, "graph");
}

}  // namespace
}  // namespace millrace
