// A kind of dataset that comes from outside (tests/support/number_kind.h), through a whole cluster.

#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

#include "server/dataset/kinds/product_kinds.h"
#include "tests/support/number_kind.h"
#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

using test::BatchRecord;
using test::ReadAll;
using test::TestCluster;

TEST_CASE("a cluster serves a kind of dataset from outside, and goes on when a worker dies",
          "[cluster]") {
  TestCluster cluster(test::TestDataset{
      .kinds = ProductKinds().With(test::MakeNumberKind()),
      .write = [](const std::filesystem::path& dir) { test::WriteNumbers(dir, 500); },
      .pipeline = "millrace: 1\ndataset: data\nsource: numbers\nshuffle: {seed: 3}\n"
                  "parity: {odd: true}\nbatch: {size: 8, remainder: keep}\n"});
  cluster.AddWorker("one");
  cluster.AddWorker("two");
  const auto session = cluster.Connect(cluster.Options(0, 1), "rank-0");
  INFO(session.status().message());
  REQUIRE(session.ok());
  std::vector<BatchRecord> read = *ReadAll(**session, 1, 10);
  const v1::ServiceStatus status = *cluster.Status();
  REQUIRE(status.workers_size() == 2);
  CHECK(status.workers(0).datasets().at("data").kind() == "numbers");
  cluster.KillWorker("one");
  const std::vector<BatchRecord> rest = *ReadAll(**session, 1);
  read.insert(read.end(), rest.begin(), rest.end());
  std::sort(read.begin(), read.end());
  CHECK(read == cluster.Reference(0, 1));
}

}  // namespace
}  // namespace millrace
