// Tests of which workers a consumer may ask, in which order, and when it is told.
#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "server/dispatcher/machine/list_order.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using Names = std::vector<std::string>;

WorkerId IdOf(const Harness& h, const std::string& name) {
  return h.dispatcher->facts().FindWorkerByNonce((name + std::string(16, '.')).substr(0, 16))->id;
}

const SessionFacts& SessionOf(const Harness& h, StreamId stream) {
  return *h.dispatcher->facts().FindSession(h.SessionOn(stream));
}

v1::Report FromBegin() {
  v1::Report report;
  report.mutable_next();
  return report;
}

v1::Report Using(std::uint32_t members) {
  v1::Report report = FromBegin();
  report.set_used(members);
  return report;
}

/// A report of a loop that waits although its consumer asks all that it may.
v1::Report Short() {
  v1::Report report = FromBegin();
  report.set_asks(true);
  report.mutable_now()->set_cause(v1::WAIT_BUILD);
  return report;
}

std::set<std::string> Set(const Names& names) { return {names.begin(), names.end()}; }

/// Adds workers w0, w1, … that have an idle thread each.
void AddIdle(Harness& h, int count) {
  for (int i = 0; i < count; ++i) {
    const StreamId worker = h.AddWorker("w" + std::to_string(i));
    h.workers[worker].set_idle_threads(1);
    h.Work(worker, h.workers[worker]);
  }
}

/// Adds so many jobs of one consumer each, which share the workers and stay.
void AddOthers(Harness& h, int count) {
  for (int i = 0; i < count; ++i) {
    h.talking.push_back(h.Attach(
        HelloOptions{.job = "other" + std::to_string(i), .nonce = static_cast<char>('A' + i)}));
  }
}

TEST_CASE("a list comes in the message of the Welcome, also if it is empty", "[list]") {
  Harness h;
  const StreamId none = h.Attach(HelloOptions{.job = "y", .nonce = 'b'});
  h.AddWorker("w1");
  const StreamId one = h.Attach(HelloOptions{});
  for (const StreamId stream : {none, one}) {
    const auto& messages = h.attach.at(stream);
    const auto welcome = std::find_if(messages.begin(), messages.end(),
                                      [](const auto& m) { return m.has_welcome(); });
    REQUIRE(welcome != messages.end());
    REQUIRE(welcome->has_list());
    CHECK(welcome->list().number() == 1);
    CHECK(welcome->list().workers_size() == (stream == one ? 1 : 0));
  }
  const v1::WorkerRef worker = h.ListsOn(one)[0].workers(0);
  CHECK(worker.address() == "w1:7701");
  CHECK(worker.host_id() == "w");
  CHECK(WorkerId(FromProto(worker.id())) == IdOf(h, "w1"));
}

TEST_CASE("a session that comes back on a new stream gets its list again", "[list]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId first = h.Attach(HelloOptions{});
  h.Break(first);
  v1::Hello hello = MakeHello({});
  ToProto(h.SessionOn(first), hello.mutable_session());
  hello.set_admitted(true);
  const StreamId second = h.Attach(hello);
  REQUIRE(h.ListsOn(second).size() == 1);
  CHECK(h.ListsOn(second)[0].number() == 2);
  CHECK(h.ListOn(second) == Names{"w1"});
}

TEST_CASE("a consumer is told at once when its list changes, and the number rises by one",
          "[list]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking.push_back(stream);
  h.Advance(seconds(1));
  const StreamId worker = h.AddWorker("w1");
  REQUIRE(h.ListsOn(stream).size() == 2);
  CHECK(h.ListOn(stream) == Names{"w1"});
  h.Advance(seconds(1));
  h.Break(worker);
  CHECK(h.ListOn(stream).empty());
  std::uint64_t number = 0;
  for (const v1::WorkerList& list : h.ListsOn(stream)) CHECK(list.number() == ++number);
  CHECK(number == 3);
}

TEST_CASE("an address that changes is a change of the list", "[list]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking.push_back(stream);
  h.Advance(seconds(2));
  REQUIRE(h.ListsOn(stream).size() == 1);  // nothing has changed
  h.workers[worker].mutable_self()->set_address("w9:7701");
  h.Work(worker, h.workers[worker]);
  CHECK(h.ListOn(stream) == Names{"w9"});
}

TEST_CASE("a list is sent at most 4 times a second", "[list]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  for (int i = 0; i < 100; ++i) {
    h.AddWorker("w" + std::to_string(i));
    h.now.time = h.now.time + milliseconds(10);
    h.Do(h.dispatcher->OnTick(h.now));
  }
  CHECK(h.ListsOn(stream).size() <= 5);
  h.talking.push_back(stream);
  h.Advance(seconds(1));
  CHECK(h.ListOn(stream).size() == 100);  // the last change was not forgotten
}

TEST_CASE("a consumer without a usable worker is told why, and the list that comes ends that",
          "[list]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  h.ReportAt(stream, {0, 0});
  CHECK_THAT(h.WhyOn(stream), Contains("no worker has the dataset stdlib: no worker is connected"));
  h.talking.push_back(stream);
  h.Advance(seconds(1));
  h.AddWorker("w1");
  CHECK(h.ListOn(stream) == Names{"w1"});
  CHECK(SessionOf(h, stream).why.empty());
}

TEST_CASE("a consumer that has all batches that it wants needs no worker", "[list]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{.start = {1, 0}, .epochs = 2});
  v1::Report report;
  ToProto(Position{1, 72}, report.mutable_next());
  report.set_buffered_batches(11);  // the last step of an epoch, and 10 of the next one
  h.Report(stream, report);
  CHECK_THAT(h.WhyOn(stream), !Contains("no worker"));
  report.set_buffered_batches(10);
  h.Report(stream, report);
  CHECK_THAT(h.WhyOn(stream), Contains("no worker"));
}

TEST_CASE("a worker that is silent for 3 s or loses its stream leaves the list",
          "[list][workers]") {
  Harness h;
  const StreamId silent = h.AddWorker("w1");
  h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking.push_back(stream);
  h.StopWorker(silent);
  h.Advance(milliseconds(2500));
  CHECK(h.ListOn(stream).size() == 2);
  h.Advance(milliseconds(500));
  CHECK(h.ListOn(stream) == Names{"w2"});
}

TEST_CASE("a pause of the dispatcher silences no worker", "[list][workers][time]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  h.Pause(seconds(5));
  CHECK(h.ListsOn(stream).size() == 1);
  CHECK(h.ListOn(stream) == Names{"w1"});
}

TEST_CASE("a loopback address goes only to consumers of its host", "[list][address]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1", "h7");
  h.workers[worker].mutable_self()->set_address("127.0.0.1:7701");
  h.Work(worker, h.workers[worker]);
  const StreamId near = h.Attach(HelloOptions{.rank = 0, .host_id = "h7", .nonce = 'a'});
  const StreamId far = h.Attach(HelloOptions{.rank = 1, .host_id = "h8", .nonce = 'b'});
  const StreamId unknown = h.Attach(HelloOptions{.job = "y", .host_id = "", .nonce = 'c'});
  for (const StreamId s : {near, far, unknown}) h.ReportAt(s, {0, 0});
  CHECK(h.ListOn(near).size() == 1);
  CHECK(h.ListOn(far).empty());
  CHECK(h.ListOn(unknown).empty());
  CHECK_THAT(h.WhyOn(far), Contains("127.0.0.1:7701 is reachable from its own host only"));
}

TEST_CASE("workers of the consumer's host come first", "[list][order]") {
  Harness h;
  for (int i = 0; i < 6; ++i) {
    h.AddWorker("w" + std::to_string(i), i % 2 == 0 ? "h7" : "elsewhere");
  }
  const Names list = h.ListOn(h.Attach(HelloOptions{.host_id = "h7"}));
  REQUIRE(list.size() == 6);
  CHECK(Set({list.begin(), list.begin() + 3}) == std::set<std::string>{"w0", "w2", "w4"});
}

TEST_CASE("the order is that of hashes, which anybody can compute", "[list][order]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{.rank = 1, .world_size = 4});
  const ListOrder order(SessionOf(h, stream));
  Worker worker;
  worker.id = WorkerId({7, 42});
  const std::string text = SessionOf(h, stream).plan->fingerprint + "/4/1/7.42";
  CHECK(order.Of(worker).hash == Xxh3_64(std::as_bytes(std::span(text))));
  const WorkerId first({1, 1});
  const WorkerId second({1, 2});
  CHECK(ListPlace{true, 1, first} < ListPlace{false, 9, first});
  CHECK(ListPlace{false, 9, second} < ListPlace{false, 1, first});
  CHECK(ListPlace{false, 9, first} < ListPlace{false, 9, second});
}

TEST_CASE("the ranks of a plan whose windows have homes have one order", "[list][order]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream =
      h.Attach(HelloOptions{.rank = 1, .world_size = 4, .yaml = Yaml("window=8\n")});
  Worker worker;
  worker.id = WorkerId({7, 42});
  const std::string text = SessionOf(h, stream).plan->fingerprint + "/7.42";
  CHECK(ListOrder(SessionOf(h, stream)).Of(worker).hash ==
        Xxh3_64(std::as_bytes(std::span(text))));
}

TEST_CASE("sessions that need the same batches have the same members, and others do not",
          "[list][order]") {
  Harness h;
  AddOthers(h, 20);
  const StreamId a = h.Attach(HelloOptions{.job = "a", .nonce = 'a'});
  const StreamId b = h.Attach(HelloOptions{.job = "b", .where = "host8:1", .nonce = 'b'});
  const StreamId replica = h.Attach(HelloOptions{.job = "a", .nonce = 'c', .replica = 1});
  const StreamId rank = h.Attach(HelloOptions{.job = "a", .rank = 1, .nonce = 'd'});
  h.talking.insert(h.talking.end(), {a, b, replica, rank});
  for (int i = 0; i < 24; ++i) h.AddWorker("w" + std::to_string(i));
  h.Advance(seconds(1));
  REQUIRE(h.ListOn(a).size() == 8);
  CHECK(h.ListOn(b) == h.ListOn(a));
  CHECK(h.ListOn(replica) == h.ListOn(a));
  CHECK(h.ListOn(rank) != h.ListOn(a));
}

TEST_CASE("a consumer keeps its members when other workers come and go", "[list][order]") {
  Harness h;
  AddOthers(h, 30);
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking.push_back(stream);
  for (int i = 0; i < 24; ++i) h.AddWorker("w" + std::to_string(i));
  h.Advance(seconds(1));
  const Names before = h.ListOn(stream);
  REQUIRE(before.size() == 8);
  const auto outside = std::find_if(h.workers.begin(), h.workers.end(), [&](const auto& worker) {
    return !Set(before).contains(worker.second.name());
  });
  h.Break(outside->first);
  h.AddWorker("new");
  h.Advance(seconds(1));
  Names kept = h.ListOn(stream);
  std::erase(kept, "new");
  CHECK(std::equal(kept.begin(), kept.end(), before.begin()));
  CHECK(kept.size() >= 7);
}

TEST_CASE("a member that fails for a while stays, and one that fails for good leaves",
          "[list][failing]") {
  Harness h;
  h.AddWorker("w1");
  h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking.push_back(stream);
  h.Advance(seconds(1));
  v1::Report report = FromBegin();
  v1::Failing& failing = *report.add_failing();
  ToProto(IdOf(h, "w1"), failing.mutable_worker());
  failing.set_remaining_seconds(60);
  h.Report(stream, report);
  CHECK(h.ListOn(stream).size() == 2);
  failing.set_code(static_cast<std::uint32_t>(StatusCode::kDataLoss));
  h.Advance(seconds(1));
  h.Report(stream, report);
  CHECK(h.ListOn(stream) == Names{"w2"});
  // A worker that has refused single batches may build the others.
  failing.add_refused();
  h.Advance(seconds(1));
  h.Report(stream, report);
  CHECK(h.ListOn(stream).size() == 2);
}

TEST_CASE("if all workers fail a consumer for good, all are members while others may come",
          "[list][failing]") {
  Harness h;
  h.AddWorker("w1");
  h.AddWorker("w2");
  const StreamId later = h.AddWorker("w3");
  h.workers[later].mutable_plans(0)->set_phase(v1::COMPILING);
  h.Work(later, h.workers[later]);
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking.push_back(stream);
  v1::Report report = FromBegin();
  for (const char* name : {"w1", "w2"}) {
    v1::Failing& failing = *report.add_failing();
    ToProto(IdOf(h, name), failing.mutable_worker());
    failing.set_code(static_cast<std::uint32_t>(StatusCode::kDataLoss));
  }
  h.Report(stream, report);
  h.Advance(seconds(1));
  REQUIRE(h.IsOpen(stream));
  CHECK(h.ListOn(stream).size() == 2);
  h.workers[later].mutable_plans(0)->set_phase(v1::READY);
  h.Advance(seconds(1));
  CHECK(h.ListOn(stream) == Names{"w3"});
}

TEST_CASE("the length follows the workers of a plan and the consumers that share them", "[list]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking.push_back(stream);
  for (int i = 0; i < 20; ++i) h.AddWorker("w" + std::to_string(i));
  h.Advance(seconds(1));
  CHECK(h.ListOn(stream).size() == 20);
  CHECK(SessionOf(h, stream).list.size.members() == 160);
  // Consumers of another plan count as far as the same workers serve them.
  const std::string other = Yaml("seed=5\n");
  for (int i = 0; i < 3; ++i) {
    h.talking.push_back(h.Attach(HelloOptions{
        .job = "other" + std::to_string(i), .yaml = other, .nonce = static_cast<char>('A' + i)}));
  }
  v1::PipelineText text;
  text.set_yaml(other);
  for (auto& [id, worker] : h.workers) {
    v1::PlanState& plan = *worker.add_plans();
    plan.set_fingerprint((*CompileFake(text))->fingerprint().ToString());
    plan.set_phase(v1::READY);
  }
  h.Advance(seconds(1));
  const StreamId late = h.Attach(HelloOptions{.job = "late", .nonce = 'z'});
  CHECK(SessionOf(h, late).list.size.members() == 32);  // 8 * 20 / 5
}

TEST_CASE("a list doubles each second in which a loop waits while others are idle",
          "[list][grow]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  AddOthers(h, 40);
  AddIdle(h, 40);
  h.talking.push_back(stream);
  h.Advance(milliseconds(500));
  REQUIRE(h.ListOn(stream).size() == 8);
  h.Report(stream, Short());
  CHECK(h.ListOn(stream).size() == 16);
  h.Advance(milliseconds(750));
  h.Report(stream, Short());
  CHECK(h.ListOn(stream).size() == 16);
  h.Advance(milliseconds(250));
  h.Report(stream, Short());
  CHECK(h.ListOn(stream).size() == 32);
  h.Advance(seconds(1));
  h.Report(stream, Short());
  CHECK(h.ListOn(stream).size() == 40);
  h.Advance(seconds(1));
  h.Report(stream, Short());
  CHECK(SessionOf(h, stream).list.size.members() == 64);  // nobody is outside
}

TEST_CASE("a list does not grow if nothing is asked, nobody waits or nobody is idle",
          "[list][grow]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  AddOthers(h, 40);
  AddIdle(h, 40);
  v1::Report report = Short();
  SECTION("nothing is asked") { report.set_asks(false); }
  SECTION("nobody waits") { report.clear_now(); }
  SECTION("others are idle for moments only") {
    h.talking.push_back(stream);
    for (auto& [id, worker] : h.workers) worker.set_idle_threads(0);
    h.Advance(milliseconds(500));
    for (int i = 0; i < 10; ++i) {
      for (const std::uint32_t idle : {0, 1}) {
        for (auto& [id, worker] : h.workers) {
          worker.set_idle_threads(idle);
          h.Work(id, worker);
        }
      }
      h.Report(stream, report);
      CHECK(h.ListOn(stream).size() == 8);
      for (auto& [id, worker] : h.workers) worker.set_idle_threads(0);
      h.Advance(milliseconds(500));
    }
  }
  SECTION("it waits for its own host") { report.mutable_now()->set_cause(v1::WAIT_EXPAND); }
  SECTION("nobody is idle") {
    for (auto& [id, worker] : h.workers) worker.set_idle_threads(0);
  }
  SECTION("only its members are idle") {
    h.talking.push_back(stream);
    h.Advance(seconds(1));
    for (auto& [id, worker] : h.workers) {
      worker.set_idle_threads(Set(h.ListOn(stream)).contains(worker.name()) ? 1 : 0);
    }
  }
  h.talking.push_back(stream);
  for (int i = 0; i < 5; ++i) {
    h.Advance(seconds(1));
    h.Report(stream, report);
  }
  CHECK(h.ListOn(stream).size() == 8);
}

TEST_CASE("waits that have ended since the last report count too", "[list][grow]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  AddOthers(h, 40);
  AddIdle(h, 40);
  v1::Report report = FromBegin();
  report.set_asks(true);
  h.Advance(milliseconds(250));
  v1::WaitedSeconds& waited = *report.mutable_counters()->add_waited();
  waited.set_cause(v1::WAIT_QUEUE);
  waited.set_seconds(5);
  h.Report(stream, report);  // they may be long ago
  CHECK(SessionOf(h, stream).list.size.members() == 8);
  waited.set_seconds(5.1);
  h.Report(stream, report);
  CHECK(SessionOf(h, stream).list.size.members() == 16);
}

TEST_CASE("a list longer than its share is cut when all others take what they can get", "[list]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  AddIdle(h, 40);
  h.talking.push_back(stream);
  h.Advance(seconds(1));
  REQUIRE(h.ListOn(stream).size() == 40);
  AddOthers(h, 9);
  const std::uint32_t of_others = GENERATE(2, 32);
  for (int i = 0; i < 12; ++i) {
    h.Report(stream, Using(40));
    for (std::size_t other = 1; other < h.talking.size(); ++other) {
      h.Report(h.talking[other], Using(of_others));
    }
    h.Advance(seconds(1));
  }
  // 8 * 40 / 10 if all take what they can get. Those that use little leave the rest to this one.
  CHECK(h.ListOn(stream).size() == (of_others == 2 ? 40 : 32));
}

TEST_CASE("the last members leave when they were not used for a minute", "[list][grow]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  AddOthers(h, 40);
  AddIdle(h, 40);
  for (const StreamId other : h.talking) h.Report(other, Using(1));
  h.talking.push_back(stream);
  v1::Report report = FromBegin();
  report.set_used(20);  // it says so at first, after a restart of the dispatcher
  h.Report(stream, report);
  h.Advance(seconds(1));
  REQUIRE(h.ListOn(stream).size() == 20);
  const Names before = h.ListOn(stream);
  report.set_used(12);
  for (int i = 0; i < 62; ++i) {
    h.Report(stream, report);
    h.Advance(seconds(1));
  }
  const Names after = h.ListOn(stream);
  REQUIRE(after.size() == 12);
  CHECK(std::equal(after.begin(), after.end(), before.begin()));
  report.set_used(0);
  for (int i = 0; i < 122; ++i) {
    h.Report(stream, report);
    h.Advance(seconds(1));
  }
  CHECK(h.ListOn(stream).size() == 8);
}

}  // namespace
}  // namespace millrace::test
