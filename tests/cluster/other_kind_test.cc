// A kind of dataset that comes from outside (tests/support/number_kind.h), through a whole cluster.

#include <catch2/catch.hpp>

#include "server/catalog/product_kinds.h"
#include "tests/cluster/outlives_worker.h"
#include "tests/support/number_kind.h"
#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

using test::TestCluster;

TEST_CASE("a cluster serves a kind of dataset from outside, and goes on when a worker dies",
          "[cluster]") {
  TestCluster cluster(test::TestDataset{
      .kinds = ProductKinds().With(test::MakeNumberKind()),
      .write = [](const std::filesystem::path& dir) { test::WriteNumbers(dir, 500); },
      .pipeline = "millrace: 1\ndataset: data\nsource: numbers\nshuffle: {seed: 3}\n"
                  "parity: {odd: true}\nbatch: {size: 8, remainder: keep}\n"});
  test::CheckOutlivesWorker(cluster, "numbers");
}

}  // namespace
}  // namespace millrace
