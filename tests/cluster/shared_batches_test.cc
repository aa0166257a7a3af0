// Clusters in which several consumers need the same batches: two jobs of one fingerprint, or
// replicas. Each batch is built once while the consumers are near one another.

#include <catch2/catch.hpp>

#include <algorithm>
#include <future>
#include <latch>
#include <string>
#include <vector>

#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

using test::BatchRecord;
using test::ReadAll;
using test::TestCluster;

constexpr std::uint64_t kSharedEpochs = 4;
constexpr std::uint64_t kBatchesOfEach = kSharedEpochs * 50;  // of one consumer

/// Options of consumers that need the same batches, in jobs of their own or as replicas.
std::vector<SessionOptions> Beside(const TestCluster& cluster, const std::string& how) {
  std::vector<SessionOptions> all(2, cluster.Options(0, 1));
  for (SessionOptions& options : all) options.epochs = kSharedEpochs;
  if (how == "jobs") {
    all[1].job = "other job";
  } else {
    all[1].replica = 1;
  }
  return all;
}

/// Lets consumers read the same epochs, each on a thread of its own. They begin together.
class Sharers {
 public:
  Sharers(TestCluster& cluster, const std::vector<SessionOptions>& consumers)
      : begin_(static_cast<std::ptrdiff_t>(consumers.size())) {
    for (const SessionOptions& options : consumers) {
      const std::string who = options.job + std::to_string(options.replica);
      futures_.push_back(std::async(std::launch::async, [this, &cluster, options, who] {
        auto session = cluster.Connect(options, who);
        begin_.arrive_and_wait();
        return session.ok() ? ReadAll(**session, kSharedEpochs) : session.status();
      }));
    }
  }
  /// The batches of each consumer.
  std::vector<std::vector<BatchRecord>> Join() {
    std::vector<std::vector<BatchRecord>> all;
    for (auto& future : futures_) {
      const Result<std::vector<BatchRecord>> read = future.get();
      INFO(read.status().message());
      REQUIRE(read.ok());
      all.push_back(*read);
    }
    return all;
  }

 private:
  std::latch begin_;
  std::vector<std::future<Result<std::vector<BatchRecord>>>> futures_;
};

std::vector<BatchRecord> ExpectedOfEach(TestCluster& cluster) {
  std::vector<BatchRecord> all;
  for (std::uint64_t epoch = 0; epoch < kSharedEpochs; ++epoch) {
    const auto one = cluster.Reference(epoch, 1);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

void CheckAll(TestCluster& cluster, Sharers& sharers) {
  const std::vector<BatchRecord> expected = ExpectedOfEach(cluster);
  REQUIRE(expected.size() == kBatchesOfEach);
  for (const auto& read : sharers.Join()) CHECK(read == expected);
}

TEST_CASE("consumers of the same batches have each built once, also over two workers",
          "[cluster][shared]") {
  const std::string how = GENERATE("jobs", "replicas");
  const int workers = GENERATE(1, 2);
  INFO(how << ", " << workers << " workers");
  TestCluster cluster;
  // A build takes longer than a batch needs to reach its loop.
  cluster.SetBuildTime(std::chrono::milliseconds(20));
  for (int i = 0; i < workers; ++i) cluster.AddWorker("w" + std::to_string(i));
  Sharers sharers(cluster, Beside(cluster, how));
  CheckAll(cluster, sharers);
  INFO(how << ", " << workers << " workers: " << cluster.Builds() << " builds of "
           << 2 * kBatchesOfEach << " batches");
  CHECK(cluster.Builds() >= kBatchesOfEach);
  // On a busy machine some steps are late, and asked of a second worker. Nothing shared is 2.
  CHECK(cluster.Builds() < kBatchesOfEach * 3 / 2);
}

TEST_CASE("consumers of the same batches lose nothing when a worker dies", "[cluster][shared]") {
  const std::string how = GENERATE("jobs", "replicas");
  TestCluster cluster;
  cluster.SetBuildTime(std::chrono::milliseconds(20));
  cluster.AddWorker("w0");
  cluster.AddWorker("w1");
  Sharers sharers(cluster, Beside(cluster, how));
  while (cluster.Builds() < kBatchesOfEach / 4) std::this_thread::yield();
  cluster.KillWorker("w0");
  CheckAll(cluster, sharers);
  CHECK(cluster.Builds() < 2 * kBatchesOfEach);
}

TEST_CASE("consumers of the same batches get them from a worker with room for one batch",
          "[cluster][shared]") {
  const std::string how = GENERATE("jobs", "replicas");
  TestCluster cluster;
  cluster.AddWorker("w0", 1);
  Sharers sharers(cluster, Beside(cluster, how));
  CheckAll(cluster, sharers);
}

TEST_CASE("a worker counts the batches that it sent without a build", "[cluster][shared]") {
  TestCluster cluster;
  cluster.SetBuildTime(std::chrono::milliseconds(20));
  cluster.AddWorker("w0");
  Sharers sharers(cluster, Beside(cluster, "jobs"));
  CheckAll(cluster, sharers);
  v1::WorkerStatus worker;
  while (worker.sent_batches() < 2 * kBatchesOfEach) {
    worker = cluster.Status()->workers(0);
    std::this_thread::yield();
  }
  CHECK(worker.sent_batches() == worker.shared_batches() + cluster.Builds());
}

}  // namespace
}  // namespace millrace
