// A worker's state machine for tests, which bring its events one by one.
#pragma once

#include <catch2/catch.hpp>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/protocol_version.h"
#include "server/worker/machine/worker_machine.h"
#include "server/worker/service/builder.h"
#include "tests/support/fake_plan.h"

namespace millrace::test {

constexpr Duration kMs = std::chrono::milliseconds(1);
constexpr WorkerMachine::StreamId kStream = 1;
constexpr WorkerMachine::StreamId kTwin = 2;

/// A worker's state machine with a plan that is ready, and with one consumer.
struct Machine {
  std::shared_ptr<FakePlan> plan = std::make_shared<FakePlan>(StepOptions{1000, 10, 0, false, 1});
  WorkerMachine state;
  Time now{std::chrono::seconds(1)};
  /// The streams on which the machine's actions send a batch, and those to which they refuse one.
  std::set<WorkerMachine::StreamId> sent, refused;
  std::set<WorkerMachine::StreamId> writing;  // a control message or a batch
  std::map<WorkerMachine::StreamId, std::vector<v1::BatchFragment>> messages;
  std::map<WorkerMachine::StreamId, v1::Alive> alive;  // the last one
  v1::WorkRequest report;                              // the last one

  explicit Machine(int threads = 1, std::uint64_t memory = 1 << 30)
      : state(
            {.name = "w",
             .address = "w:1",
             .dispatcher = "d:1",
             .threads = threads,
             .memory_bytes = memory},
            "nonce", [] { return 0.5; }, MakeNullLogger()) {
    state.Start(now);
    Say({});
    state.OnPlan(plan->facts().fingerprint().ToString(),
                 WorkerMachine::ReadyPlan{plan, plan->facts().static_digest(),
                                          plan->facts().fingerprint().ToString(), ""},
                 now);
    REQUIRE(state.OnStreamOpened(kStream, {"consumer"}).ok());
    state.TakeActions();
    state.OnWorkWritten(1, now);
  }

  /// The dispatcher says this, and that the plan has to be kept.
  void Say(v1::WorkResponse response) {
    response.set_term(5);
    response.mutable_id()->set_n(1);
    response.add_plans()->set_fingerprint(plan->facts().fingerprint().ToString());
    state.OnWorkResponse(1, response, now);
  }

  /// A list that asks for the first steps of an epoch.
  v1::WantList List(std::uint32_t steps) const {
    v1::WantList list;
    list.set_fingerprint(plan->facts().fingerprint().ToString());
    list.set_protocol(kProtocol);
    list.set_world_size(1);
    list.set_credit_bytes(1000);
    if (steps == 0) return list;
    v1::Run& run = *list.add_runs();
    run.set_stride(10);
    run.set_examples(10);
    run.set_steps(steps);
    return list;
  }
  /// The consumer asks for them, and the machine has written what it says to that.
  void Wants(std::uint32_t steps = 1) {
    WantsOf(kStream, steps);
    Act();
  }
  void WantsOf(WorkerMachine::StreamId stream, std::uint32_t steps) {
    state.OnWants(stream, List(steps), now);
  }
  /// Opens a stream of another consumer, which asks for the same batches.
  void AddTwin(std::uint32_t steps = 1) {
    REQUIRE(state.OnStreamOpened(kTwin, {"twin"}).ok());
    WantsOf(kTwin, steps);
  }

  /// Carries out the machine's actions. Messages are written at once, batches by Sent.
  void Act() {
    for (auto actions = state.TakeActions(); !actions.empty(); actions = state.TakeActions()) {
      for (const auto& action : actions) {
        if (const auto* batch = std::get_if<WorkerAction::SendBatch>(&action)) {
          sent.insert(batch->stream);
          writing.insert(batch->stream);
        } else if (const auto* control = std::get_if<WorkerAction::SendControl>(&action)) {
          if (control->message.has_refused()) refused.insert(control->stream);
          if (control->message.has_alive()) alive[control->stream] = control->message.alive();
          messages[control->stream].push_back(control->message);
          state.OnSent(control->stream, now);
        } else if (const auto* work = std::get_if<WorkerAction::SendWork>(&action)) {
          report = work->report;
          state.OnWorkWritten(1, now);
        }
      }
    }
  }
  /// The batch that goes out on a stream is written.
  void Sent(WorkerMachine::StreamId stream = kStream) {
    if (writing.erase(stream) > 0) state.OnSent(stream, now);
    Act();
  }
  /// Builds the next batch, which takes so long, and tells where it lies.
  std::optional<Position> Build(double seconds = 0.001, std::uint64_t bytes = 100) {
    const auto task = state.NextBuild(now);
    if (!task) return std::nullopt;
    now = now + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    state.OnBuilt(*task, std::make_shared<BuiltBatch>(), bytes, seconds, {}, now);
    Act();
    return task->at;
  }
  /// The messages that were sent on a stream since the last call.
  std::vector<v1::BatchFragment> Messages(WorkerMachine::StreamId stream = kStream) {
    return std::exchange(messages[stream], {});
  }
  /// Lets this much time pass, and returns the Alive that the worker sends then, if any.
  std::optional<v1::BatchFragment> AliveAfter(Duration d,
                                              WorkerMachine::StreamId stream = kStream) {
    Act();
    Messages(stream);
    now = now + d;
    state.Tick(now);
    Act();
    std::optional<v1::BatchFragment> said;
    for (const v1::BatchFragment& message : Messages(stream)) {
      if (message.has_alive()) said = message;
    }
    return said;
  }
};

}  // namespace millrace::test
