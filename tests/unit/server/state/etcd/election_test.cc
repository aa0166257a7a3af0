// Elections over real etcd: with one candidate, in a cluster of three, and while etcd fails.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdio>
#include <set>

#include "tests/support/fake_clock.h"
#include "tests/unit/server/state/etcd/candidate.h"
#include "tests/unit/server/state/job_record.h"

namespace millrace::test {
namespace {

using Catch::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTtl = seconds(3);

TEST_CASE("one of two leads, and the other takes its place as soon as it resigns", "[election]") {
  EtcdCluster cluster;
  Candidate first(cluster, "first at a:1");
  Candidate second(cluster, "second at b:2");
  CHECK_THAT(first.election.NotTheLeader().message(), Contains("etcd has not said who leads"));
  first.election.Step();
  second.election.Step();
  CHECK(first.leads());
  CHECK_FALSE(second.leads());
  CHECK(first.election.Leads(first.election.fence()->create_revision).ok());
  CHECK(second.election.NotTheLeader() == Unavailable("not the leader: first at a:1 leads"));

  const std::int64_t revision = first.election.fence()->create_revision;
  first.election.Resign();
  CHECK_FALSE(first.leads());
  second.election.Step();
  first.election.Step();
  CHECK(second.leads());
  CHECK_FALSE(first.leads());
  CHECK(first.election.Leads(revision) == Unavailable("not the leader: second at b:2 leads"));
  CHECK(second.election.fence()->create_revision > revision);
}

TEST_CASE("a leader stops at the end of its time by its own clock, whatever etcd would say",
          "[election]") {
  EtcdCluster cluster;
  const auto clock = std::make_shared<FakeClock>();
  Candidate leader(cluster, "leader", seconds(100), clock);
  leader.election.Step();
  const std::int64_t revision = leader.election.fence()->create_revision;
  clock->Advance(seconds(99));
  CHECK(leader.election.Leads(revision).ok());
  leader.election.Step();  // renews the lease
  clock->Advance(seconds(99));
  CHECK(leader.election.Leads(revision).ok());
  clock->Advance(seconds(1));
  // Most of the lease's time is left in etcd. The leader's own clock says that its time is over.
  CHECK_FALSE(leader.election.Leads(revision).ok());
  CHECK_FALSE(leader.leads());
  // It can lead again only with a new key.
  leader.election.Step();
  REQUIRE(leader.leads());
  CHECK(leader.election.fence()->create_revision > revision);
  CHECK_FALSE(leader.election.Leads(revision).ok());
}

/// A clock that stands still, but jumps after one of its readings, as if the next call took so
/// long.
class JumpingClock final : public Clock {
 public:
  Time Now() const override {
    const Time now = clock_.Now();
    if (looks_left_-- == 1) clock_.Advance(jump_);
    return now;
  }
  std::int64_t UnixSeconds() const override { return clock_.UnixSeconds(); }
  void JumpAfter(int looks, Duration jump) {
    jump_ = jump;
    looks_left_ = looks;
  }
  void Advance(Duration by) { clock_.Advance(by); }

 private:
  mutable FakeClock clock_;
  mutable std::atomic<int> looks_left_{0};
  Duration jump_{0};
};

TEST_CASE("the time of a leader counts from when a renewal was sent, not from its answer",
          "[election]") {
  EtcdCluster cluster;
  const auto clock = std::make_shared<JumpingClock>();
  Candidate leader(cluster, "leader", seconds(100), clock);
  SECTION("the first one") {
    clock->JumpAfter(1, seconds(60));
    leader.election.Step();
  }
  SECTION("a later one") {
    leader.election.Step();
    clock->JumpAfter(2, seconds(60));  // the first reading checks whether the time is over
    leader.election.Step();
  }
  clock->Advance(seconds(39));
  CHECK(leader.leads());
  clock->Advance(seconds(1));
  CHECK_FALSE(leader.leads());
}

TEST_CASE("a leader whose renewal is answered after its time was over has lost its place",
          "[election]") {
  EtcdCluster cluster;
  const auto clock = std::make_shared<JumpingClock>();
  Candidate leader(cluster, "leader", seconds(100), clock);
  leader.election.Step();
  const std::int64_t revision = leader.election.fence()->create_revision;
  clock->Advance(seconds(70));
  clock->JumpAfter(2, seconds(50));
  leader.election.Step();  // sent at 70, answered at 120
  CHECK_FALSE(leader.election.Leads(revision).ok());
  CHECK_FALSE(leader.leads());
  leader.election.Step();
  REQUIRE(leader.leads());
  CHECK(leader.election.fence()->create_revision > revision);
}

TEST_CASE(
    "a standby leads within five seconds of a leader that stands still, which changes nothing "
    "when it wakes",
    "[election]") {
  EtcdCluster cluster;
  Candidate paused(cluster, "paused", kTtl);
  Candidate standby(cluster, "standby", kTtl);
  paused.election.Step();
  const auto old_store = paused.Store();
  REQUIRE(old_store->CommitTerm(1).ok());
  const std::int64_t revision = paused.election.fence()->create_revision;
  const double took = StepUntil({&standby}, [&] { return standby.leads(); });
  std::printf("a standby led after %.1f s\n", took);
  CHECK(took > 1);  // not while the other one could still lead
  CHECK_FALSE(paused.election.Leads(revision).ok());
  CHECK(old_store->CommitJob(1, Record("late"), kNow).code() == StatusCode::kFailedPrecondition);
  paused.election.Step();
  paused.election.Step();
  CHECK(standby.leads());
  CHECK_THAT(paused.election.NotTheLeader().message(), Contains("standby leads"));
}

TEST_CASE("in a cluster of three, killing etcd's leader loses no commit, and writing goes on",
          "[election]") {
  EtcdCluster cluster(3);
  Candidate leader(cluster, "leader", kTtl);
  StepUntil({&leader}, [&] { return leader.leads(); });
  auto store = leader.Store();
  REQUIRE(store->CommitTerm(1).ok());
  std::vector<std::string> acknowledged;
  std::uint64_t term = 1;
  const auto commit = [&](const std::string& job) {
    leader.election.Step();
    if (!leader.leads()) return false;
    if (!leader.election.Leads(leader.election.fence()->create_revision).ok()) return false;
    Status status = store->CommitJob(term, Record(job), kNow);
    if (status.code() == StatusCode::kFailedPrecondition) {
      // The candidate leads again with another key. It takes a new term, as a dispatcher does.
      store = leader.Store();
      if (!store->CommitTerm(++term).ok()) return false;
      status = store->CommitJob(term, Record(job), kNow);
    }
    if (status.ok()) acknowledged.push_back(job);
    return status.ok();
  };
  REQUIRE(commit("before"));
  const int killed = cluster.Leader();
  cluster.Kill(killed);
  int tries = 0;
  const double took = StepUntil({}, [&] { return commit("during" + std::to_string(++tries)); });
  std::printf("writing went on %.1f s after etcd's leader was killed\n", took);
  cluster.Start(killed);
  StepUntil({}, [&] { return commit("after" + std::to_string(++tries)); });
  const auto state = store->Load();
  REQUIRE(state.ok());
  std::set<std::string> there;
  for (const auto& record : state->jobs) there.insert(record.name());
  for (const std::string& job : acknowledged) CHECK(there.count(job) == 1);
}

TEST_CASE("without a majority of etcd nobody leads, and when it is back one does", "[election]") {
  EtcdCluster cluster(3);
  Candidate leader(cluster, "leader", kTtl);
  Candidate standby(cluster, "standby", kTtl);
  StepUntil({&leader}, [&] { return leader.leads(); });
  standby.election.Step();
  const auto store = leader.Store();
  REQUIRE(store->CommitTerm(1).ok());
  REQUIRE(store->CommitJob(1, Record("a"), kNow).ok());
  cluster.Kill(0);
  cluster.Kill(1);
  StepUntil({&leader}, [&] { return !leader.leads(); });
  CHECK(store->CommitJob(1, Record("b"), kNow).code() == StatusCode::kUnavailable);
  standby.election.Step();
  CHECK_FALSE(standby.leads());
  CHECK_THAT(standby.election.NotTheLeader().message(), Contains("etcd has not said who leads"));
  cluster.Start(0);
  cluster.Start(1);
  StepUntil({&leader, &standby}, [&] { return leader.leads() || standby.leads(); });
  CHECK(leader.leads() != standby.leads());
  const auto after = (leader.leads() ? leader : standby).Store();
  CHECK(after->Load()->term == 1);
  CHECK(after->Load()->jobs.size() == 1);
  CHECK(after->CommitTerm(2).ok());
}

TEST_CASE("when etcd stands still past the lease, its leader stops before anyone else can lead",
          "[election]") {
  EtcdCluster cluster;
  Candidate leader(cluster, "leader", kTtl);
  Candidate standby(cluster, "standby", kTtl);
  leader.election.Step();
  const auto store = leader.Store();
  REQUIRE(store->CommitTerm(1).ok());
  const std::int64_t revision = leader.election.fence()->create_revision;
  cluster.Pause(0);
  StepUntil({&leader}, [&] { return !leader.leads(); });
  CHECK(store->CommitJob(1, Record("b"), kNow).code() == StatusCode::kUnavailable);
  cluster.Resume(0);
  StepUntil({&leader, &standby}, [&] { return leader.leads() || standby.leads(); });
  CHECK(leader.leads() != standby.leads());
  CHECK_FALSE(leader.election.Leads(revision).ok());
  CHECK(store->CommitTerm(9).code() == StatusCode::kFailedPrecondition);
  CHECK((leader.leads() ? leader : standby).Store()->CommitTerm(2).ok());
}

}  // namespace
}  // namespace millrace::test
