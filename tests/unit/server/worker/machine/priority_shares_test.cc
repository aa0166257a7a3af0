// Tests of how jobs share a worker of many, as its consumers deal steps: each stream has few slots,
// and the batch that a consumer needs next is usually at another worker.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/worker/machine/stream_shares.h"
#include "tests/unit/server/worker/machine/queue_fixture.h"

namespace millrace {
namespace {

/// One worker in virtual time. Each consumer fills its slots again a round trip after a batch.
class Shared {
 public:
  explicit Shared(int threads) : threads_(threads) {}

  void Add(const std::string& job, double weight, double batch_seconds, int streams = 1) {
    for (int i = 0; i < streams; ++i) {
      const std::uint64_t id = streams_.size() + 1;
      queue_.AddStream(id, "plan " + std::to_string(id), job);
      shares_.Add(id, job);
      shares_.SetAsks(id, true);
      shares_.SetBatchSeconds(job, batch_seconds);
      streams_[id] = {job, batch_seconds, {}, 0};
    }
    queue_.SetWeight(job, weight);
    shares_.SetWeight(job, weight);
  }

  /// The next batch of the job's consumers is always asked of this worker.
  void NextIsHere(const std::string& job) { next_is_here_ = job; }

  void Run(double seconds) {
    for (auto& [id, stream] : streams_) Deal(id, stream);
    const double end = now_ + seconds;
    while (now_ < end) {
      Begin();
      const Event event = *events_.begin();
      events_.erase(events_.begin());
      now_ = event.at;
      Stream& stream = streams_.at(event.stream);
      if (!event.build) {
        Deal(event.stream, stream);
        continue;
      }
      const auto task = building_.extract(event.build);
      const auto& [build, took] = task.mapped();
      test::BuildBytes(queue_, build, 1, took);
      done_[stream.job].push_back({now_, took});
      queue_.TakeToSend(event.stream);
      std::erase(stream.asked, build.at.example);
      events_.insert({now_ + kRoundTrip, event.stream, 0});
    }
  }

  /// Build seconds of the job, by the time at which they ended, from `from` on.
  double Seconds(const std::string& job, double from = 0) const {
    double seconds = 0;
    for (const Done& done : done_.at(job)) seconds += done.at >= from ? done.took : 0;
    return seconds;
  }
  /// The longest time without a batch of the job, from `from` on.
  double LongestGap(const std::string& job, double from) const {
    double longest = 0;
    double last = from;
    for (const Done& done : done_.at(job)) {
      if (done.at < from) continue;
      longest = std::max(longest, done.at - last);
      last = done.at;
    }
    return std::max(longest, now_ - last);
  }

 private:
  static constexpr double kRoundTrip = 0.002;
  struct Stream {
    std::string job;
    double batch_seconds = 0;
    std::vector<std::uint64_t> asked;
    std::uint64_t last = 0;  // step
  };
  struct Done {
    double at;
    double took;
  };
  struct Event {
    double at;
    std::uint64_t stream;
    std::uint64_t build;  // 0: the consumer has heard
    friend auto operator<=>(const Event&, const Event&) = default;
  };

  /// The consumer asks for as many steps as it has slots.
  void Deal(std::uint64_t id, Stream& stream) {
    const WorkerCapacity capacity{
        .threads = threads_, .batch_seconds = stream.batch_seconds, .memory_bytes = 1 << 20};
    const std::uint32_t slots = SlotsOfStream(capacity, shares_.Of(id));
    while (stream.asked.size() < slots) stream.asked.push_back(stream.last += 80);
    std::vector<test::Steps> steps;
    for (const std::uint64_t at : stream.asked) steps.push_back({at, 1});
    const std::uint64_t next = stream.asked.front() - (stream.job == next_is_here_ ? 0 : 80);
    v1::WantList list = test::Wants(next, steps, 1 << 20);
    list.set_asks(true);
    if (const Status status = queue_.SetWants(id, list); !status.ok()) FAIL(status.ToString());
  }
  void Begin() {
    while (static_cast<int>(building_.size()) < threads_) {
      const auto task = queue_.Next();
      if (!task) return;
      const double takes = streams_.at(task->stream).batch_seconds * (0.8 + 0.4 * spread_(random_));
      building_.emplace(task->build, std::pair(*task, takes));
      events_.insert({now_ + takes, task->stream, task->build});
    }
  }

  const int threads_;
  BuildQueue queue_{1 << 30};
  StreamShares shares_;
  std::map<std::uint64_t, Stream> streams_;
  std::map<std::uint64_t, std::pair<BuildQueue::Task, double>> building_;
  std::set<Event> events_;
  std::map<std::string, std::vector<Done>> done_;
  std::minstd_rand random_{1};
  std::uniform_real_distribution<double> spread_;
  std::string next_is_here_;
  double now_ = 0;
};

TEST_CASE("jobs of several priorities share build seconds, and none gets its share in bursts",
          "[build_queue][shares]") {
  const int threads = GENERATE(1, 2, 8);
  const double light_seconds = GENERATE(0.05, 0.5, 2.0);
  const double heavy_seconds = GENERATE(0.05, 0.5, 2.0);
  INFO(threads << " threads, batches of " << light_seconds << " and " << heavy_seconds << " s");
  Shared worker(threads);
  worker.Add("light", 1, light_seconds);
  worker.Add("heavy", 4, heavy_seconds);
  worker.NextIsHere(GENERATE("", "light", "heavy"));
  worker.Run(250);
  const double light = worker.Seconds("light", 50);
  const double heavy = worker.Seconds("heavy", 50);
  CHECK(light / (light + heavy) == Approx(0.2).epsilon(0.15));
  CHECK(light + heavy == Approx(200 * threads).epsilon(0.05));
  CHECK(worker.LongestGap("light", 50) <= 2 * light_seconds / (0.2 * threads) + heavy_seconds);
}

TEST_CASE("three priorities, with several streams a job, share as they should",
          "[build_queue][shares]") {
  Shared worker(4);
  worker.NextIsHere("two");
  worker.Add("one", 1, 0.3, 4);
  worker.Add("two", 2, 1.0, 1);
  worker.Add("five", 5, 0.1, 8);
  worker.Run(600);
  const double all = worker.Seconds("one") + worker.Seconds("two") + worker.Seconds("five");
  CHECK(worker.Seconds("one") / all == Approx(1 / 8.0).epsilon(0.1));
  CHECK(worker.Seconds("two") / all == Approx(2 / 8.0).epsilon(0.1));
  CHECK(worker.Seconds("five") / all == Approx(5 / 8.0).epsilon(0.1));
}

}  // namespace
}  // namespace millrace
