// Tests of how much work steps cost, counted in messages: many short epochs cost no more than a
// long one, and what lies far ahead costs nothing.
#include <catch2/catch.hpp>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {
namespace {

struct Work {
  std::size_t lists = 0;
  std::size_t runs = 0;    // in these lists
  std::size_t others = 0;  // other actions
  std::size_t ticks = 0;
};

/// What it costs to take so many steps, a millisecond each, from a worker that builds 10 at a time.
Work TakeSteps(const Machine::Options& options, std::uint64_t steps) {
  Machine m(options);
  m.Welcome();
  const StreamId worker = m.Join(1, {.slots = 40, .batch_ms = 1});
  Work work;
  const auto perform = [&] {
    for (const Action& action : m.state->TakeActions()) {
      if (const auto* wants = std::get_if<SendWants>(&action)) {
        ++work.lists;
        work.runs += static_cast<std::size_t>(wants->message.runs_size());
        m.state->OnBatchesWritten(worker, m.now);
      } else {
        ++work.others;
        if (const auto* sent = std::get_if<SendAttach>(&action)) {
          m.state->OnAttachWritten(sent->stream, m.now);
        }
      }
    }
  };
  while (m.state->next() < steps) {
    const std::set<std::uint64_t> asked = m.AskedOf(1);
    std::size_t brought = 0;
    for (const std::uint64_t step : asked) {
      if (brought == 10 || step >= m.state->next() + m.state->window()) break;
      ++brought;
      m.Arrive(worker, step);
      perform();
    }
    for (int i = 0; i < 10; ++i) {
      m.now = m.now + kMs;
      if (m.state->NextTick() <= m.now) {
        ++work.ticks;
        m.state->Tick(m.now);
      }
      if (m.state->holds(m.state->next()) && m.state->next() < steps) m.TakeBatch();
      perform();
    }
    if (m.now.since_boot / (500 * kMs) != m.spoke_at) {
      m.spoke_at = m.now.since_boot / (500 * kMs);
      m.Say(1, {.slots = 40, .batch_ms = 1});
      m.Heartbeat();
    }
  }
  return work;
}

/// A session of so many epochs, each of so many steps.
Machine::Options Epochs(std::uint64_t epoch_steps, std::uint32_t epochs) {
  Machine::Options options;
  options.steps = {.examples = 10 * epoch_steps, .size = 5, .world_size = 2};
  options.epochs = epochs;
  return options;
}

TEST_CASE("epochs of one step cost no more lists and actions than one long epoch",
          "[dealing][epochs]") {
  constexpr std::uint64_t kSteps = 10'000;
  const Work one = TakeSteps(Epochs(kSteps, 1), kSteps);
  const Work many = TakeSteps(Epochs(1, kSteps), kSteps);
  CHECK(many.lists <= one.lists + one.lists / 10);
  CHECK(many.others <= one.others + 10);
  CHECK(many.ticks <= one.ticks + one.ticks / 10);
  CHECK(one.lists <= kSteps / 2);
  // A list names what is asked, and each step of such epochs is a run.
  CHECK(many.runs <= 40 * many.lists);
}

TEST_CASE("steps cost the same however many epochs lie ahead", "[dealing][epochs]") {
  constexpr std::uint64_t kSteps = 2000;
  const Work few = TakeSteps(Epochs(1, kSteps), kSteps);
  const Work endless = TakeSteps(Epochs(1, 4'000'000'000), kSteps);
  CHECK(endless.lists <= few.lists + few.lists / 10);
  CHECK(endless.runs <= few.runs + few.runs / 10);
  CHECK(endless.others <= few.others + 10);
}

}  // namespace
}  // namespace millrace::client
