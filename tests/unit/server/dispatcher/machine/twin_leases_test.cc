// Tests of sessions that need the same batches: they get them from the same workers.
#include <catch2/catch.hpp>

#include <map>
#include <set>

#include "server/dispatcher/machine/twin_leases.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

/// The worker of each batch, by its epoch and first example.
using ByBatch = std::map<std::pair<std::uint64_t, std::uint64_t>, std::string>;

ByBatch WorkersByBatch(const std::vector<v1::Lease>& leases) {
  ByBatch workers;
  for (const auto& lease : leases) {
    const v1::Shard& shard = lease.shard();
    for (std::uint32_t k = 0; k < shard.batches(); ++k) {
      workers[{shard.epoch(), shard.first_example() + k * shard.stride()}] =
          lease.worker().address();
    }
  }
  return workers;
}

/// How many batches both have, and how many of these from the same worker.
struct Overlap {
  std::size_t both = 0;
  std::size_t same = 0;
};
Overlap OverlapOf(const ByBatch& a, const ByBatch& b) {
  Overlap overlap;
  for (const auto& [batch, worker] : a) {
    const auto other = b.find(batch);
    if (other == b.end()) continue;
    ++overlap.both;
    overlap.same += other->second == worker ? 1 : 0;
  }
  return overlap;
}

/// A dispatcher with workers, and a consumer that has a window of leases.
struct Beside {
  Harness h;
  std::map<std::string, StreamId> workers;
  StreamId first = 0;

  explicit Beside(int count = 6, DispatcherOptions options = {}) : h(std::move(options)) {
    for (int i = 0; i < count; ++i) {
      const std::string name = "w" + std::to_string(i);
      workers[name] = h.AddWorker(name);
    }
    first = h.Attach(HelloOptions{});
    h.Report(first, {0, 0}, 60);
  }
  static HelloOptions Twin() {
    return {.job = "y", .where = "host8:1", .host_id = "h8", .nonce = 'b'};
  }
  /// Lets another consumer ask for the same places. Returns what it has in common.
  Overlap Ask(const HelloOptions& hello, std::uint32_t window = 60) {
    const StreamId stream = h.Attach(hello);
    h.Report(stream, {0, 0}, window);
    return OverlapOf(WorkersByBatch(h.LeasesOn(stream)), WorkersByBatch(h.LeasesOn(first)));
  }
};

TEST_CASE("jobs of one fingerprint and replicas get their batches from the same workers",
          "[leasing][twins]") {
  HelloOptions hello = Beside::Twin();
  SECTION("another job") {}
  SECTION("a replica") {
    hello.job = "x";
    hello.replica = 1;
  }
  // Windows differ, and so would the cuts into shards.
  const std::uint32_t window = GENERATE(60, 7, 200);
  const Overlap overlap = Beside().Ask(hello, window);
  CHECK(overlap.both == std::min(60u, window));
  CHECK(overlap.same == overlap.both);
}

TEST_CASE("whoever comes first to a place chooses, and the other one follows", "[leasing][twins]") {
  Beside b;
  const StreamId twin = b.h.Attach(Beside::Twin());
  b.h.Report(twin, {0, 0}, 200);  // it overtakes the first one
  b.h.Report(b.first, {0, 0}, 150);
  const Overlap overlap =
      OverlapOf(WorkersByBatch(b.h.LeasesOn(twin)), WorkersByBatch(b.h.LeasesOn(b.first)));
  CHECK(overlap.both == 150);
  CHECK(overlap.same == 150);
}

TEST_CASE("other ranks, world sizes and pipelines choose for themselves", "[leasing][twins]") {
  HelloOptions hello = Beside::Twin();
  SECTION("rank") { hello.rank = 1; }
  SECTION("world size") { hello.world_size = 4; }
  SECTION("pipeline") { hello.yaml = Yaml("keep=1\n"); }
  Beside b;
  if (hello.yaml != Yaml()) {
    for (int i = 0; i < 6; ++i) b.h.AddWorker("v" + std::to_string(i), "w", hello.yaml);
  }
  const StreamId stream = b.h.Attach(hello);
  b.h.Report(stream, {0, 0}, 60);
  std::map<std::string, std::size_t> batches;
  const ByBatch first = WorkersByBatch(b.h.LeasesOn(b.first));
  std::size_t at = 0;
  std::size_t same = 0;
  for (const auto& [batch, worker] : WorkersByBatch(b.h.LeasesOn(stream))) {
    const auto other = std::next(first.begin(), static_cast<std::ptrdiff_t>(at++));
    same += other->second == worker ? 1 : 0;
    if (at == first.size()) break;
  }
  CHECK(at == 60);
  CHECK(same < 40);
}

TEST_CASE("a twin's worker is passed over if it cannot be taken", "[leasing][twins]") {
  Beside b;
  const ByBatch first = WorkersByBatch(b.h.LeasesOn(b.first));
  const std::string address = first.begin()->second;
  const StreamId worker = b.workers.at(address.substr(0, 2));
  HelloOptions hello = Beside::Twin();
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  report.set_window(60);
  bool passed_over = true;
  SECTION("as long as it can be") { passed_over = false; }
  SECTION("its stream broke") { b.h.Break(worker); }
  SECTION("it drains") {
    b.h.workers[worker].set_draining(true);
    b.h.Work(worker, b.h.workers[worker]);
  }
  SECTION("it has lost the plan") {
    b.h.workers[worker].mutable_plans(0)->set_phase(v1::COMPILING);
    b.h.Work(worker, b.h.workers[worker]);
  }
  SECTION("it fails the consumer") {
    v1::Failing& failing = *report.add_failing();
    ToProto(b.h.dispatcher->facts().FindWorkerByNonce(address.substr(0, 2) + "..............")->id,
            failing.mutable_worker());
    failing.set_remaining_seconds(3);
  }
  SECTION("it has much more before it than others") {
    b.h.workers[worker].set_queue_seconds(100);
    b.h.Work(worker, b.h.workers[worker]);
  }
  SECTION("the consumer has workers on its own host") { b.h.AddWorker("own", "h8"); }
  const StreamId stream = b.h.Attach(hello);
  b.h.Report(stream, report);
  std::set<std::string> used;
  for (const auto& [batch, w] : WorkersByBatch(b.h.LeasesOn(stream))) used.insert(w);
  CHECK(used.contains(address) != passed_over);
}

TEST_CASE("a twin's worker that is as busy as all others is taken", "[leasing][twins]") {
  Beside b;
  for (auto& [stream, report] : b.h.workers) {
    report.set_queue_seconds(100);
    b.h.Work(stream, report);
  }
  const Overlap overlap = b.Ask(Beside::Twin());
  CHECK(overlap.both == 60);
  CHECK(overlap.same == 60);
}

TEST_CASE("a twin's workers are taken in a fleet that is larger than a consumer's set",
          "[leasing][twins]") {
  DispatcherOptions options;
  options.max_workers_of_consumer = 2;
  Beside b(9, options);
  const Overlap overlap = b.Ask(Beside::Twin());
  CHECK(overlap.both == 60);
  CHECK(overlap.same == 60);
}

TEST_CASE("shared batches count as work once", "[leasing][twins]") {
  Beside b;
  const auto granted = [&] {
    std::uint64_t batches = 0;
    for (const auto& [id, worker] : b.h.dispatcher->facts().workers()) {
      batches += worker.granted_batches;
    }
    return batches;
  };
  CHECK(granted() == 60);
  b.Ask(Beside::Twin(), 80);
  CHECK(granted() == 80);
}

TEST_CASE("what a session held before a restart is shared after it", "[leasing][twins]") {
  Beside b;
  const std::vector<v1::Lease> before = b.h.LeasesOn(b.first);
  const Number session = b.h.SessionOn(b.first);
  v1::AttachRequest back;
  *back.mutable_hello() = MakeHello({});
  ToProto(session, back.mutable_hello()->mutable_session());
  back.mutable_hello()->set_admitted(true);
  ToProto(Position{0, 0}, back.mutable_report()->mutable_next());
  back.mutable_report()->set_window(60);
  for (const auto& lease : before) *back.mutable_report()->add_held() = lease;
  const auto workers = b.h.workers;
  b.h.Restart();
  for (const auto& [stream, report] : workers) {
    const StreamId again = b.h.Open(true);
    v1::WorkRequest request = report;
    for (const auto& lease : before) {
      if (lease.worker().address() == report.self().address())
        *request.mutable_id() = lease.worker().id();
    }
    b.h.workers[again] = request;
    b.h.Work(again, request);
  }
  const StreamId twin_first = GENERATE(true, false) ? b.h.Attach(Beside::Twin()) : 0;
  if (twin_first != 0) b.h.Report(twin_first, {0, 0}, 1);
  const StreamId first = b.h.Open();
  b.h.Send(first, back);
  const StreamId twin = twin_first != 0 ? twin_first : b.h.Attach(Beside::Twin());
  b.h.Report(twin, {0, 0}, 60);
  const Overlap overlap = OverlapOf(WorkersByBatch(b.h.LeasesOn(twin)), WorkersByBatch(before));
  CHECK(overlap.both == 60);
  CHECK(overlap.same >= 59);
}

TEST_CASE("a session that is alone again remembers no twin", "[leasing][twins]") {
  Beside b;
  b.Ask(Beside::Twin());
  b.h.Bye(b.first);
  const StreamId again = b.h.Attach(HelloOptions{.nonce = 'c'});
  b.h.Report(again, {0, 0}, 60);
  CHECK(WorkersByBatch(b.h.LeasesOn(again)).size() == 60);
}

TEST_CASE("a trail finds the newest shard of a step, and what is left of it", "[twins]") {
  TwinTrail trail;
  CHECK_FALSE(trail.Find({0, 0}, 8));
  trail.Add({{0, 16}, 4}, 8, {1, 1});
  CHECK_FALSE(trail.Find({0, 8}, 8));
  CHECK(trail.Find({0, 16}, 8)->batches == 4);
  CHECK(trail.Find({0, 40}, 8)->batches == 1);
  CHECK_FALSE(trail.Find({0, 48}, 8));
  CHECK_FALSE(trail.Find({1, 16}, 8));
  CHECK_FALSE(trail.Find({0, 20}, 8));  // no step of those that the shard has
  trail.Add({{0, 24}, 2}, 8, {1, 2});
  CHECK(trail.Find({0, 16}, 8)->worker == Number{1, 1});
  CHECK(trail.Find({0, 24}, 8)->worker == Number{1, 2});
}

TEST_CASE("a trail remembers as many shards as a window can have", "[twins]") {
  TwinTrail trail;
  for (std::uint64_t i = 0; i < 100; ++i) trail.Add({{0, 8 * i}, 1}, 8, {1, i});
  CHECK_FALSE(trail.Find({0, 8 * 35}, 8));
  for (std::uint64_t i = 36; i < 100; ++i) CHECK(trail.Find({0, 8 * i}, 8)->worker == Number{1, i});
}

}  // namespace
}  // namespace millrace::test
