// Want lists and builds for tests of the worker's build queue.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "server/worker/machine/build_queue.h"
#include "server/worker/service/builder.h"

namespace millrace::test {

struct WantSpec {
  std::uint64_t lease;
  std::uint64_t position;
  std::uint32_t batches;
  std::uint32_t room;
};

/// A want list for steps of 10 examples. The batch at a position holds the 10 examples from there
/// on.
inline v1::WantList Wants(std::uint64_t next, std::vector<WantSpec> specs,
                          std::uint64_t credit = 0) {
  v1::WantList list;
  list.set_fingerprint("f");
  list.mutable_next()->set_example(next);
  list.set_credit_bytes(credit);
  for (const WantSpec& spec : specs) {
    v1::Want& want = *list.add_wants();
    want.mutable_lease()->set_term(1);
    want.mutable_lease()->set_n(spec.lease);
    want.set_room(spec.room);
    v1::Shard& shard = *want.mutable_shard();
    shard.set_position(spec.position);
    shard.set_stride(10);
    shard.set_first_example(spec.position);
    shard.set_examples(10);
    shard.set_batches(spec.batches);
  }
  return list;
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

}  // namespace millrace::test
