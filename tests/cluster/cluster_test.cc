// Whole clusters over the in-process network. The thread sanitizer runs these tests.

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/transport/convert/spans.h"
#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

using test::BatchRecord;
using test::ReadAll;
using test::TestCluster;

/// Lets all ranks read `epochs` epochs at the same time, each on a thread of its own. The result
/// has each rank's batches, or its error.
class Readers {
 public:
  Readers(TestCluster& cluster, std::uint32_t world_size, std::uint64_t epochs,
          std::optional<std::uint64_t> steps = std::nullopt, const std::string& cursor = "") {
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      SessionOptions options = cluster.Options(rank, world_size);
      options.cursor = cursor;
      futures_.push_back(std::async(std::launch::async, [this, &cluster, options, epochs, steps] {
        return Read(cluster, options, epochs, steps);
      }));
    }
  }

  std::vector<BatchRecord> Join() {
    std::vector<BatchRecord> all;
    for (auto& future : futures_) {
      Result<std::vector<BatchRecord>> records = future.get();
      if (!records.ok()) {
        UNSCOPED_INFO(records.status().ToString());
        CHECK(records.ok());
        continue;
      }
      all.insert(all.end(), records->begin(), records->end());
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  void WaitForBatches(std::uint64_t count) {
    while (taken_ < count) std::this_thread::yield();
  }
  std::string cursor() { return cursor_; }

 private:
  Result<std::vector<BatchRecord>> Read(TestCluster& cluster, const SessionOptions& options,
                                        std::uint64_t epochs, std::optional<std::uint64_t> steps) {
    MILLRACE_ASSIGN_OR_RETURN(auto session,
                              cluster.Connect(options, "rank" + std::to_string(options.rank)));
    std::vector<BatchRecord> all;
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      if (epoch > 0) {
        MILLRACE_ASSIGN_OR_RETURN(const bool more, session->NextEpoch());
        if (!more) break;
      }
      for (;;) {
        if (steps && all.size() >= *steps) break;
        MILLRACE_ASSIGN_OR_RETURN(const auto one, ReadAll(*session, 1, 1));
        if (one.empty()) break;
        all.push_back(one.front());
        ++taken_;
      }
    }
    if (options.rank == 0) cursor_ = session->cursor();
    return all;
  }

  std::atomic<std::uint64_t> taken_{0};
  std::string cursor_;
  std::vector<std::future<Result<std::vector<BatchRecord>>>> futures_;
};

std::vector<BatchRecord> Expected(TestCluster& cluster, std::uint32_t world_size,
                                  std::uint64_t epochs) {
  std::vector<BatchRecord> all;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto one = cluster.Reference(epoch, world_size);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

TEST_CASE("any fleet delivers the plan's batches to any number of ranks", "[cluster]") {
  const int workers = GENERATE(1, 3);
  const std::uint32_t ranks = GENERATE(1u, 3u);
  TestCluster cluster;
  for (int i = 0; i < workers; ++i) cluster.AddWorker("w" + std::to_string(i));
  Readers readers(cluster, ranks, 2);
  CHECK(readers.Join() == Expected(cluster, ranks, 2));
}

TEST_CASE("a killed worker changes no batch", "[cluster]") {
  TestCluster cluster;
  cluster.AddWorker("w0");
  cluster.AddWorker("w1");
  Readers readers(cluster, 2, 3);
  readers.WaitForBatches(20);
  cluster.KillWorker("w0");
  CHECK(readers.Join() == Expected(cluster, 2, 3));
}

TEST_CASE("a paused worker is passed over and changes no batch", "[cluster]") {
  TestCluster cluster;
  cluster.AddWorker("w0");
  cluster.AddWorker("w1");
  Readers readers(cluster, 2, 3);
  readers.WaitForBatches(20);
  cluster.PauseWorker("w0", true);
  CHECK(readers.Join() == Expected(cluster, 2, 3));
  cluster.PauseWorker("w0", false);
}

TEST_CASE("workers that come and go by drain change no batch", "[cluster]") {
  TestCluster cluster;
  cluster.AddWorker("w0");
  Readers readers(cluster, 2, 3);
  readers.WaitForBatches(10);
  cluster.AddWorker("w1");
  readers.WaitForBatches(30);
  cluster.StopWorker("w0");
  CHECK(readers.Join() == Expected(cluster, 2, 3));
}

TEST_CASE("a restarted dispatcher goes on from what consumers and workers say", "[cluster]") {
  TestCluster cluster;
  cluster.AddWorker("w0");
  cluster.AddWorker("w1");
  Readers readers(cluster, 2, 4);
  readers.WaitForBatches(20);
  cluster.KillDispatcher();
  cluster.StartDispatcher();
  CHECK(readers.Join() == Expected(cluster, 2, 4));
}

TEST_CASE("a worker that joins late starts a job that waited for it", "[cluster]") {
  TestCluster cluster;
  Readers readers(cluster, 1, 1);
  cluster.AddWorker("w0");
  CHECK(readers.Join() == Expected(cluster, 1, 1));
}

TEST_CASE("a cursor goes on with the remaining examples on another number of ranks", "[cluster]") {
  TestCluster cluster;
  cluster.AddWorker("w0");
  Readers first(cluster, 4, 1, 3);
  first.Join();
  Readers second(cluster, 2, 1, std::nullopt, first.cursor());
  CHECK(second.Join() == cluster.Reference(0, 2, 3 * 4 * 8));
}

TEST_CASE("replicas of a rank read the same batches", "[cluster]") {
  TestCluster cluster;
  cluster.AddWorker("w0");
  SessionOptions options = cluster.Options(0, 1);
  auto replica = std::async(std::launch::async, [&cluster, options]() mutable {
    options.replica = 1;
    auto session = cluster.Connect(options, "replica");
    return session.ok() ? ReadAll(**session, 1) : session.status();
  });
  auto session = cluster.Connect(options, "rank");
  REQUIRE(session.ok());
  const auto own = ReadAll(**session, 1);
  REQUIRE(own.ok());
  const auto other = replica.get();
  REQUIRE(other.ok());
  CHECK(*own == *other);
  CHECK(*own == cluster.Reference(0, 1));
}

TEST_CASE("one consumer and two workers with room for one batch each, one killed, go on",
          "[cluster]") {
  TestCluster cluster;
  cluster.AddWorker("w0", 1);
  cluster.AddWorker("w1", 1);
  Readers readers(cluster, 1, 3);
  readers.WaitForBatches(10);
  cluster.KillWorker("w1");
  CHECK(readers.Join() == Expected(cluster, 1, 3));
}

TEST_CASE("a rank that is taken over is told by whom", "[cluster]") {
  TestCluster cluster;
  cluster.AddWorker("w0");
  auto first = cluster.Connect(cluster.Options(0, 1), "first");
  REQUIRE(first.ok());
  REQUIRE((*first)->Next().ok());
  auto second = cluster.Connect(cluster.Options(0, 1), "second");
  REQUIRE(second.ok());
  Status status;
  for (int i = 0; i < 10'000 && status.ok(); ++i) {
    auto batch = (*first)->Next();
    if (!batch.ok()) {
      status = batch.status();
    } else if (!batch->has_value()) {
      REQUIRE((*first)->NextEpoch().ok());
    }
  }
  CHECK(status.code() == StatusCode::kAborted);
  CHECK(status.message().find("taken over by") != std::string::npos);
}

/// A job whose ranks read until they are told to stop, each as fast as its batches come. Jobs of
/// other names have other batches, since these are shuffled with another seed.
class Taker {
 public:
  Taker(TestCluster& cluster, const std::string& job, std::uint32_t priority, std::uint32_t ranks) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      SessionOptions options = cluster.Options(rank, ranks);
      options.job = job;
      options.overrides = {"shuffle.seed=" + std::to_string(job.front())};
      options.priority = priority;
      threads_.emplace_back([this, &cluster, options](const std::stop_token& stop) {
        const auto session = cluster.Connect(options, options.job + std::to_string(options.rank));
        while (session.ok() && !stop.stop_requested()) {
          const auto next = (*session)->Next();
          const bool good = next.ok() && (next->has_value() || (*session)->NextEpoch().ok());
          if (!good) break;
          if (next->has_value()) ++taken_;
        }
        ended_ = true;
      });
    }
  }
  ~Taker() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }
  std::uint64_t taken() const { return taken_; }
  bool ended() const { return ended_; }

 private:
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<bool> ended_{false};
  std::vector<std::jthread> threads_;  // joined before the members that they write to are destroyed
};

TEST_CASE("jobs that wait for one worker get batches by their priority", "[cluster][priority]") {
  // The weights of two jobs. The ratio of their batches must be between half and twice the ratio of
  // their weights.
  const auto [first, second] = GENERATE(table<std::uint32_t, std::uint32_t>({{4, 1}, {1, 1}}));
  const auto ranks = GENERATE(1u, 6u);
  const double ratio = static_cast<double>(first) / second;
  TestCluster cluster;
  // An epoch is longer than the batches that are counted, and a build takes longer than a batch
  // needs to reach its loop. So both loops always wait.
  std::string yaml = cluster.pipeline();
  yaml.replace(yaml.find("size: 8"), 7, "size: 1");
  cluster.SetPipeline(yaml);
  cluster.SetBuildTime(std::chrono::milliseconds(100));
  cluster.AddWorker("w0");
  Taker a(cluster, "a", first, ranks);
  Taker b(cluster, "b", second, ranks);
  const auto both = [&] { return !a.ended() && !b.ended(); };
  while (both() && (a.taken() < 10 || b.taken() < 10)) std::this_thread::yield();
  const std::uint64_t a_before = a.taken();
  const std::uint64_t b_before = b.taken();
  const auto a_got = [&] { return a.taken() - a_before; };
  const auto b_got = [&] { return b.taken() - b_before; };
  while (both() && a_got() + b_got() < 100) std::this_thread::yield();
  REQUIRE(both());
  const auto got_a = static_cast<double>(a_got());
  const auto got_b = static_cast<double>(b_got());
  INFO(got_a << " and " << got_b << " batches");
  CHECK(got_b > 0);  // a job of small weight makes progress too
  CHECK(got_a > ratio / 2 * got_b);
  CHECK(got_a < ratio * 2 * got_b);
}

/// Notes by role and number which processes have sent spans.
class TraceReader final : public StreamHandler<v1::TraceChunk> {
 public:
  void OnMessage(v1::TraceChunk chunk) override {
    MutexLock lock(mutex_);
    if (chunk.began() != 0) began_ = true;
    const v1::TraceProcess& process = chunk.process();
    const std::size_t spans = SpanCount(chunk.spans());
    if (spans > 0) spans_[{process.role(), process.id().n()}] += spans;
    changed_.NotifyAll();
  }
  void OnWriteDone() override {}
  void OnClosed(const Status&) override {}

  void WaitForBegin() {
    MutexLock lock(mutex_);
    while (!began_) changed_.Wait(mutex_);
  }
  /// Whether so many processes have sent spans. Waits a moment for them.
  bool HasProcesses(v1::TraceRole role, std::ptrdiff_t count) {
    MutexLock lock(mutex_);
    for (int moments = 0; CountOf(role) < count; ++moments) {
      if (moments == 100) return false;
      changed_.WaitFor(mutex_, std::chrono::milliseconds(10));
    }
    return true;
  }

 private:
  std::ptrdiff_t CountOf(v1::TraceRole role) const MILLRACE_REQUIRES(mutex_) {
    return std::count_if(spans_.begin(), spans_.end(),
                         [role](const auto& s) { return s.first.first == role; });
  }

  Mutex mutex_;
  CondVar changed_;
  bool began_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::map<std::pair<v1::TraceRole, std::uint64_t>, std::size_t> spans_ MILLRACE_GUARDED_BY(mutex_);
};

TEST_CASE("a trace has the spans of workers and consumers and changes nothing that is delivered", "[trace]") {
  TestCluster cluster;
  cluster.AddWorker("w0");
  cluster.AddWorker("w1");
  const auto reader = std::make_shared<TraceReader>();
  const auto trace = cluster.Trace(reader);
  reader->WaitForBegin();
  Readers readers(cluster, 2, 2);
  CHECK(readers.Join() == Expected(cluster, 2, 2));
  // A worker whose plan is ready late has nothing to build for the first job.
  while (!reader->HasProcesses(v1::TRACE_WORKER, 2) ||
         !reader->HasProcesses(v1::TRACE_CONSUMER, 2)) {
    Readers(cluster, 2, 2).Join();
  }
}

}  // namespace
}  // namespace millrace
