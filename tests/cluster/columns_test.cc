// Columns that the workers of a cluster measure together. Each process has folders of its own.

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "server/catalog/product_kinds.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "tests/support/patience.h"
#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

using Catch::Contains;
using test::BatchRecord;
using test::TestCluster;
using test::WaitFor;

constexpr std::uint64_t kNodes = 8000;  // and as many examples: 32 ranges
constexpr std::uint64_t kRangeOf = 256;

test::TestDataset Closures() {
  return {.kinds = ProductKinds(),
          .write =
              [](const std::filesystem::path& dir) {
                GraphGeneratorReport report;
                REQUIRE(GenerateGraph(dir, {.nodes = kNodes}, &report).ok());
              },
          .pipeline =
              "millrace: 1\ndataset: data\nsource: {roots: all}\nshuffle: {seed: 3}\n"
              "closure: {max_subgraph_size: 30}\nfilter: {where: \"nodes > 3\"}\n"
              "batch: {bucket: {by: nodes, count: 3, budget: 4000}, remainder: keep}\n",
          .apart = true};
}

/// A rank that attaches and reads one epoch, on a thread of its own.
class Rank {
 public:
  explicit Rank(TestCluster& cluster)
      : read_(std::async(std::launch::async, [&cluster]() -> Result<std::vector<BatchRecord>> {
          MILLRACE_ASSIGN_OR_RETURN(auto session, cluster.Connect(cluster.Options(0, 1), "rank"));
          return test::ReadAll(*session, 1);
        })) {}

  /// Joins, and checks that the epoch is that of the plan.
  void Check(TestCluster& cluster) {
    Result<std::vector<BatchRecord>> read = read_.get();
    INFO(read.status().message());
    REQUIRE(read.ok());
    CHECK(*read == cluster.Reference(0, 1));
  }

 private:
  std::future<Result<std::vector<BatchRecord>>> read_;
};

std::string WhyOf(TestCluster& cluster) {
  const auto status = cluster.Status();
  return status.ok() && status->jobs_size() > 0 ? status->jobs(0).why() : "";
}

TEST_CASE("two workers share the measuring of a column, and status says how far they are",
          "[cluster][columns]") {
  TestCluster cluster(Closures());
  cluster.SetMeasureTime(std::chrono::milliseconds(200));
  Rank rank(cluster);
  REQUIRE(WaitFor([&] {
    return WhyOf(cluster) == "measuring column nodes: 0 %, waits for a worker with dataset 'data'";
  }));
  cluster.AddWorker("one");
  cluster.AddWorker("two");
  std::string why;
  REQUIRE(WaitFor([&] {
    why = WhyOf(cluster);
    return why.find("%, 2 workers") != std::string::npos && why.find(" 0 %") == std::string::npos;
  }));
  CHECK_THAT(why, Contains("measuring column nodes: "));
  rank.Check(cluster);
  CHECK(cluster.Measured() == kNodes);
  CHECK(cluster.MeasuredBy("one") >= kNodes / 5);
  CHECK(cluster.MeasuredBy("two") >= kNodes / 5);
}

TEST_CASE("a worker lost in the middle of measuring loses only what it had not sent",
          "[cluster][columns]") {
  TestCluster cluster(Closures());
  cluster.SetMeasureTime(std::chrono::milliseconds(100));
  cluster.AddWorker("one");
  cluster.AddWorker("two");
  Rank rank(cluster);
  REQUIRE(WaitFor([&] { return cluster.MeasuredBy("one") >= 4 * kRangeOf; }));
  cluster.KillWorker("one");
  rank.Check(cluster);
  CHECK(cluster.Measured() >= kNodes);
  CHECK(cluster.Measured() <= kNodes + 8 * kRangeOf);
}

TEST_CASE("a dispatcher that begins again in the middle of measuring goes on",
          "[cluster][columns]") {
  TestCluster cluster(Closures());
  cluster.SetMeasureTime(std::chrono::milliseconds(100));
  cluster.AddWorker("one");
  Rank rank(cluster);
  REQUIRE(WaitFor([&] { return cluster.Measured() >= kNodes / 2; }));
  cluster.KillDispatcher();
  cluster.StartDispatcher();
  rank.Check(cluster);
  CHECK(cluster.Measured() >= kNodes);
  CHECK(cluster.Measured() <= kNodes + 8 * kRangeOf);
}

TEST_CASE("a worker that joins later fetches the column and builds no example for it",
          "[cluster][columns]") {
  TestCluster cluster(Closures());
  cluster.AddWorker("one");
  Rank(cluster).Check(cluster);
  cluster.KillWorker("one");
  cluster.AddWorker("two");
  Rank(cluster).Check(cluster);
  CHECK(cluster.MeasuredBy("two") == 0);
  CHECK(cluster.Measured() == kNodes);
  const auto files = [&](const std::string& process) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(cluster.ColumnsOf(process))) {
      names.push_back(entry.path().filename());
    }
    return names;
  };
  CHECK(files("two") == files("dispatcher"));
  CHECK(files("two").size() == 1);
}

TEST_CASE("a column that a new dispatcher finds is measured no more", "[cluster][columns]") {
  TestCluster cluster(Closures());
  cluster.AddWorker("one");
  Rank(cluster).Check(cluster);
  cluster.KillDispatcher();
  cluster.StartDispatcher();
  Rank(cluster).Check(cluster);
  CHECK(cluster.Measured() == kNodes);
}

TEST_CASE("a dispatcher that cannot write columns keeps them in memory", "[cluster][columns]") {
  TestCluster cluster(Closures());
  const std::filesystem::path folder = cluster.ColumnsOf("dispatcher");
  std::filesystem::create_directories(folder.parent_path());
  std::filesystem::create_symlink("/dev/null/nowhere", folder);
  cluster.AddWorker("one");
  Rank(cluster).Check(cluster);
  CHECK(cluster.Measured() == kNodes);
}

}  // namespace
}  // namespace millrace
