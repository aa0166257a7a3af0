// What one consumer's leases cover: those it says it holds, and those sent to it since that it has
// not spoken of yet. Finds the gaps in its window and cuts them into shards.
//
// Not thread-safe; part of the dispatcher's facts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/epoch/position.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// Steps of one epoch, one after another.
struct StepRun {
  Position at;
  std::uint32_t batches = 0;
  friend auto operator<=>(const StepRun&, const StepRun&) = default;
};

struct LeaseFacts {
  Number id;  // term 0: the consumer gave it to itself
  Number worker;
  StepRun run;
  Time sent;          // unused for held ones
  bool copy = false;  // of a late one
};

/// Whether a step of a session that began at `start` lies at `at`. False for places beyond the
/// epoch.
bool IsStep(const StepArithmetic& steps, Position start, Position at);

/// Checks a lease that a consumer claims to hold: InvalidArgument, with the numbers, where its
/// shard is none of a session that began at `start`. Overflow-safe for any numbers.
Status CheckHeld(const StepArithmetic& steps, Position start, const v1::Lease& lease);

class LeaseTable {
 public:
  /// The consumer's word: it holds exactly `held` of what it has been given up to `last_lease`.
  /// Leases sent before `lapsed` that it has not spoken of are given up for lost. REQUIRES:
  /// CheckHeld of each.
  void Report(std::vector<LeaseFacts> held, Number last_lease, Time lapsed);
  void Sent(const LeaseFacts& lease) { sent_.push_back(lease); }
  /// What was on its way on a broken stream never arrives.
  void StreamLost() { sent_.clear(); }
  void Clear();

  /// The steps among the `window` ones from `next` on that no lease covers, in order; none of
  /// `end_epoch` or later. O(leases log leases + epochs in the window).
  /// REQUIRES: a step lies at `next`, or `next` begins an epoch.
  std::vector<StepRun> Gaps(const StepArithmetic& steps, Position next, std::uint32_t window,
                            std::uint64_t end_epoch) const;

  std::size_t size() const { return held_.size() + sent_.size(); }
  /// Whether a copy of a late lease is held or on its way.
  bool HasCopy() const;
  /// nullptr where no such lease is held.
  const LeaseFacts* FindHeld(Number lease) const;
  /// Leases given to a worker, held or on their way.
  std::size_t CountFor(Number worker) const;
  void ShiftTimes(Duration by);

  const std::vector<LeaseFacts>& held() const { return held_; }
  const std::vector<LeaseFacts>& sent() const { return sent_; }

 private:
  std::vector<LeaseFacts> held_;
  std::vector<LeaseFacts> sent_;
};

/// The first at most `batches` steps of `run`, as a shard of `rank`; they are removed from `run`. A
/// cut tail step is a shard of its own. REQUIRES: run.batches > 0, batches > 0.
v1::Shard CutShard(const StepArithmetic& steps, std::uint32_t rank, std::uint32_t batches,
                   StepRun& run);

}  // namespace millrace
