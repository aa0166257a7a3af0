// A worker's state machine, driven by hand.
#include <catch2/catch.hpp>

#include "server/worker/worker_state.h"
#include "tests/support/fake_plan.h"

namespace millrace {
namespace {

constexpr Duration kMs = std::chrono::milliseconds(1);
constexpr WorkerState::StreamId kStream = 1;

/// With a plan that is ready, and one consumer.
struct Machine {
  std::shared_ptr<test::FakePlan> plan =
      std::make_shared<test::FakePlan>(StepOptions{1000, 10, 0, false, 1});
  WorkerState state{{.name = "w", .address = "w:1", .dispatcher = "d:1"},
                    "nonce",
                    [] { return 0.5; },
                    MakeNullLogger()};
  Time now{std::chrono::seconds(1)};

  Machine() {
    state.Start(now);
    v1::WorkResponse response;
    response.set_term(5);
    response.mutable_id()->set_n(1);
    response.add_plans()->set_fingerprint(plan->fingerprint().ToString());
    state.OnWorkResponse(1, response, now);
    state.OnPlan(plan->fingerprint().ToString(),
                 WorkerState::CompiledPlan{plan, plan->static_digest()}, now);
    REQUIRE(state.OnStreamOpened(kStream, "consumer").ok());
  }

  void Wants() {
    v1::WantList list;
    list.set_fingerprint(plan->fingerprint().ToString());
    v1::Want& want = *list.add_wants();
    want.mutable_lease()->set_n(1);
    want.set_room(1);
    want.mutable_shard()->set_stride(10);
    want.mutable_shard()->set_examples(10);
    want.mutable_shard()->set_batches(1);
    state.OnWants(kStream, list, now);
    state.TakeActions();
  }

  /// Alive, where it is said once so much time has passed.
  std::optional<v1::Alive> AliveAfter(Duration d) {
    now = now + d;
    state.Tick(now);
    std::optional<v1::Alive> said;
    for (const auto& action : state.TakeActions()) {
      const auto* send = std::get_if<WorkerAction::SendPart>(&action);
      if (send == nullptr) continue;
      REQUIRE(send->part.has_alive());
      said = send->part.alive();
      state.OnSent(kStream, now);
    }
    return said;
  }
};

TEST_CASE("a worker that owes says once a second that it lives, and how old its want list is",
          "[worker][alive]") {
  Machine m;
  m.Wants();
  CHECK(m.AliveAfter(0 * kMs)->wants_age_ms() == 0);
  CHECK(!m.AliveAfter(900 * kMs));
  CHECK(m.AliveAfter(300 * kMs)->wants_age_ms() == 1200);
  m.Wants();
  CHECK(m.AliveAfter(1000 * kMs)->wants_age_ms() == 1000);
}

TEST_CASE("a worker that has heard nothing for 3 s says so at once", "[worker][alive]") {
  Machine m;
  m.Wants();
  m.AliveAfter(0 * kMs);
  CHECK(m.AliveAfter(1000 * kMs));
  CHECK(m.AliveAfter(1000 * kMs));
  CHECK(!m.AliveAfter(200 * kMs));
  CHECK(m.AliveAfter(900 * kMs)->wants_age_ms() == 3100);
  CHECK(!m.AliveAfter(900 * kMs));
  CHECK(m.AliveAfter(200 * kMs)->wants_age_ms() == 4200);
}

TEST_CASE("a worker that stood still has missed nothing that it can tell", "[worker][alive]") {
  Machine m;
  m.Wants();
  m.AliveAfter(0 * kMs);
  CHECK(m.AliveAfter(60'000 * kMs)->wants_age_ms() == 0);
  CHECK(m.AliveAfter(1000 * kMs)->wants_age_ms() == 1000);
}

}  // namespace
}  // namespace millrace
