// Want lists and builds for tests of the worker's build queue.
#pragma once

#include <catch2/catch.hpp>

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "server/worker/machine/build_queue.h"
#include "server/worker/service/builder.h"

namespace millrace::test {

/// A run of steps that a list names.
struct Steps {
  std::uint64_t position;
  std::uint32_t steps;
};

/// A want list for steps of 10 examples. The batch at a position holds the 10 examples from there
/// on.
inline v1::WantList Wants(std::uint64_t next, const std::vector<Steps>& asked,
                          std::uint64_t credit = 0) {
  v1::WantList list;
  list.set_fingerprint("f");
  list.mutable_next()->set_example(next);
  list.set_credit_bytes(credit);
  for (const Steps& steps : asked) {
    v1::Run& run = *list.add_runs();
    run.set_position(steps.position);
    run.set_stride(10);
    run.set_first_example(steps.position);
    run.set_examples(10);
    run.set_steps(steps.steps);
  }
  return list;
}

/// The positions that runs name.
inline std::vector<std::uint64_t> Named(const std::vector<v1::Run>& runs) {
  std::vector<std::uint64_t> positions;
  for (const v1::Run& run : runs) {
    for (std::uint32_t k = 0; k < run.steps(); ++k) {
      positions.push_back(run.position() + k * run.stride());
    }
  }
  return positions;
}

/// Hands the queue a batch of this size for a task.
inline void BuildBytes(BuildQueue& queue, const BuildQueue::Task& task, std::uint64_t bytes = 100,
                       double seconds = 1) {
  queue.Built(task, std::make_shared<BuiltBatch>(), bytes, seconds);
}

/// Builds all that may be built. Returns the positions.
inline std::vector<std::uint64_t> BuildAll(BuildQueue& queue) {
  std::vector<std::uint64_t> positions;
  while (auto task = queue.Next()) {
    positions.push_back(task->at.example);
    BuildBytes(queue, *task);
  }
  return positions;
}

inline constexpr RankPlace kOnlyRank{1, 0};
using Streams = std::set<BuildQueue::StreamId>;

/// A queue with two streams of one plan that belong to jobs a and b.
struct Twosome {
  BuildQueue queue;
  explicit Twosome(std::uint64_t budget = 1 << 20, RankPlace place = kOnlyRank) : queue(budget) {
    queue.AddStream(1, "plan", "a", place);
    queue.AddStream(2, "plan", "b", place);
  }
  void Want(std::uint64_t stream, std::uint64_t next, const std::vector<Steps>& asked,
            std::uint64_t credit = 1 << 20) {
    REQUIRE(queue.SetWants(stream, Wants(next, asked, credit)).ok());
  }
  /// Sends all that may be sent on the stream. Returns the positions.
  std::vector<std::uint64_t> Send(std::uint64_t stream) {
    std::vector<std::uint64_t> positions;
    while (auto out = queue.TakeToSend(stream)) {
      positions.push_back(out->task.at.example);
      shared += out->shared ? 1 : 0;
      on_their_way.push_back(out->batch);
    }
    return positions;
  }
  void Arrive() { on_their_way.clear(); }

  int shared = 0;
  std::vector<std::shared_ptr<const BuiltBatch>> on_their_way;
};

using Positions = std::vector<std::uint64_t>;

}  // namespace millrace::test
