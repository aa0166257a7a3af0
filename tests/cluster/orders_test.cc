// Orders of all forms through a whole cluster.

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "server/catalog/product_kinds.h"
#include "tests/cluster/outlives_worker.h"
#include "tests/support/number_kind.h"
#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

using test::BatchRecord;
using test::TestCluster;

/// 600 numbers from 0 to 100, in a scattered order, with the keys of an order.
test::TestDataset Numbers(const std::string& order) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < 600; ++i) numbers.push_back(i * 37 % 101);
  return {
      .kinds = ProductKinds().With(test::MakeNumberKind()),
      .write = [numbers](const std::filesystem::path& dir) { test::WriteNumbers(dir, numbers); },
      .pipeline = "millrace: 1\ndataset: data\nsource: numbers\n" + order};
}

/// A mix of the even and the odd ones of 600 numbers.
test::TestDataset MixOfNumbers() {
  test::TestDataset dataset = Numbers("");
  dataset.pipeline =
      "millrace: 1\nbranches:\n"
      "  odd: {dataset: data, source: numbers, parity: {odd: true}, shuffle: {seed: 2}}\n"
      "  even: {dataset: data, source: numbers, parity: {odd: false}}\n"
      "mix: {weights: {odd: 3, even: 1}, seed: 4, epoch: {of: odd}}\n"
      "batch: {size: 8, remainder: keep}\n";
  return dataset;
}

std::vector<test::TestDataset> Orders() {
  std::vector<test::TestDataset> orders = {MixOfNumbers()};
  for (const char* order : {
           "shuffle: {block: 10, window: 4}\nbatch: {size: 8, remainder: keep}\n",
           "shuffle: {seed: 2}\nbatch: {bucket: {by: value, count: 5, budget: 600}, remainder: "
           "keep}\n",
           "shuffle: {seed: 2}\nbatch: {bucket: {by: value, bounds: [40, 100], size: 6, together: "
           "4}}\n",
           "shuffle: {seed: 2}\nbatch: {size: 8, remainder: keep}\nbalance: {by: value, group: "
           "9}\n",
       }) {
    orders.push_back(Numbers(order));
  }
  return orders;
}

TEST_CASE("an epoch of every form of order outlives a worker", "[cluster][order]") {
  for (const test::TestDataset& order : Orders()) {
    CAPTURE(order.pipeline);
    TestCluster cluster(order);
    test::CheckOutlivesWorker(cluster, "numbers");
  }
}

TEST_CASE(
    "ranks of every form of order get the batches of the plan, and a cursor goes on with "
    "another world size",
    "[cluster][order]") {
  for (const test::TestDataset& order : Orders()) {
    CAPTURE(order.pipeline);
    TestCluster cluster(order);
    cluster.AddWorker("one");
    std::vector<BatchRecord> read;
    std::string cursor;
    std::uint64_t from = 0;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      const auto session = cluster.Connect(cluster.Options(rank, 3), "three");
      REQUIRE(session.ok());
      const std::vector<BatchRecord> steps = *test::ReadAll(**session, 1, 5);
      read.insert(read.end(), steps.begin(), steps.end());
      cursor = (*session)->cursor();
      from = (*session)->position().example;
    }
    std::vector<BatchRecord> wanted = cluster.Reference(0, 3);
    wanted.resize(15);
    std::sort(read.begin(), read.end());
    CHECK(read == wanted);

    read.clear();
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      SessionOptions options = cluster.Options(rank, 2);
      options.job = "two";
      options.cursor = cursor;
      const auto session = cluster.Connect(options, "two");
      INFO(session.status().message());
      REQUIRE(session.ok());
      const std::vector<BatchRecord> rest = *test::ReadAll(**session, 1);
      read.insert(read.end(), rest.begin(), rest.end());
    }
    std::sort(read.begin(), read.end());
    CHECK(read == cluster.Reference(0, 2, from));
  }
}

}  // namespace
}  // namespace millrace
