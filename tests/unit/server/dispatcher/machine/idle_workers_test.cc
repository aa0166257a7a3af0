// Why workers idle, as a status says it.
#include <catch2/catch.hpp>

#include <string>

#include "server/dispatcher/machine/status.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

/// Workers with idle threads, of which a status says why.
struct Idle {
  Harness h;

  StreamId Add(const std::string& name, const std::string& host = "w") {
    const StreamId worker = h.AddWorker(name, host);
    h.workers[worker].set_threads(4);
    h.workers[worker].set_idle_threads(2);
    h.Work(worker, h.workers[worker]);
    return worker;
  }
  std::string Of(const std::string& name) const {
    const v1::ServiceStatus status = BuildStatus(*h.dispatcher, h.options, h.now.time);
    for (const v1::WorkerStatus& worker : status.workers()) {
      if (worker.name() == name) return worker.idle();
    }
    return "no such worker";
  }
  void Report(StreamId stream, bool asks, std::uint32_t used) {
    v1::Report report;
    report.mutable_next();
    report.set_asks(asks);
    report.set_used(used);
    h.Report(stream, report);
  }
};

TEST_CASE("a worker whose threads all build idles for no reason, and slots are shown", "[status]") {
  Idle idle;
  const StreamId worker = idle.Add("w1");
  idle.h.workers[worker].set_idle_threads(0);
  idle.h.workers[worker].set_slots(12);
  idle.h.workers[worker].set_owed(5);
  idle.h.Work(worker, idle.h.workers[worker]);
  CHECK(idle.Of("w1").empty());
  const v1::ServiceStatus status = BuildStatus(*idle.h.dispatcher, idle.h.options, idle.h.now.time);
  CHECK(status.workers(0).slots() == 12);
  CHECK(status.workers(0).owed() == 5);
}

TEST_CASE("a worker idles without a plan, without a consumer, and while it drains", "[status]") {
  Idle idle;
  const StreamId worker = idle.Add("w1");
  CHECK(idle.Of("w1") == "no consumer");
  idle.h.workers[worker].mutable_plans(0)->set_phase(v1::COMPILING);
  idle.h.Work(worker, idle.h.workers[worker]);
  CHECK(idle.Of("w1") == "no plan");
  idle.h.workers[worker].set_draining(true);
  idle.h.Work(worker, idle.h.workers[worker]);
  CHECK(idle.Of("w1") == "drains");
}

TEST_CASE("a worker idles if no consumer of its lists finds a step to ask for", "[status]") {
  Idle idle;
  idle.Add("w1");
  idle.Report(idle.h.Attach(HelloOptions{}), false, 1);
  CHECK(idle.Of("w1") == "no step in reach");
}

TEST_CASE("a worker idles if it is in no list of a consumer that asks", "[status]") {
  Idle idle;
  const StreamId stream = idle.h.Attach(HelloOptions{});
  idle.Report(stream, false, 0);
  for (int i = 0; i < 20; ++i) {
    idle.h.Attach(
        HelloOptions{.job = "y" + std::to_string(i), .nonce = static_cast<char>('A' + i)});
  }
  for (int i = 0; i < 40; ++i) idle.Add("w" + std::to_string(i));
  idle.h.talking = {stream};
  idle.h.Advance(seconds(1));
  std::string outside;
  for (int i = 0; i < 40 && outside.empty(); ++i) {
    const std::string name = "w" + std::to_string(i);
    bool listed = false;
    for (const auto& [id, session] : idle.h.dispatcher->facts().sessions()) {
      for (const WorkerId member : session.list.members) {
        listed = listed || idle.h.dispatcher->facts().FindWorker(member)->report.name() == name;
      }
    }
    if (!listed) outside = name;
  }
  REQUIRE_FALSE(outside.empty());
  CHECK(idle.Of(outside) == "no step in reach");
  idle.Report(stream, true, 8);
  CHECK(idle.Of(outside) == "list full");
}

TEST_CASE("a worker idles behind members of the consumer's own host", "[status]") {
  Idle idle;
  idle.Add("near", "h7");
  idle.Add("far", "h8");
  const StreamId stream = idle.h.Attach(HelloOptions{.host_id = "h7"});
  idle.Report(stream, true, 1);
  CHECK(idle.Of("far") == "another host first");
  CHECK(idle.Of("near") == "steps go to faster workers");
  idle.Report(stream, true, 2);
  CHECK(idle.Of("far") == "steps go to faster workers");
}

TEST_CASE("a worker idles if its memory is full", "[status]") {
  Idle idle;
  const StreamId worker = idle.Add("w1");
  idle.Report(idle.h.Attach(HelloOptions{}), true, 1);
  idle.h.workers[worker].set_memory_bytes(95);
  idle.h.workers[worker].set_memory_limit_bytes(100);
  idle.h.Work(worker, idle.h.workers[worker]);
  CHECK(idle.Of("w1") == "memory full");
}

}  // namespace
}  // namespace millrace::test
