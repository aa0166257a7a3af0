// The leases of one consumer: those that it says it holds, and those that were sent to it and that
// it has not acknowledged yet. The table finds the gaps between them in the consumer's window.
// CutShard cuts a gap into shards.
//
// Not thread-safe; part of the dispatcher's facts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/epoch/position.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// Consecutive steps of one epoch.
struct StepRun {
  Position at;
  std::uint32_t batches = 0;
  friend auto operator<=>(const StepRun&, const StepRun&) = default;
};

struct LeaseFacts {
  Number id;  // term 0: the consumer granted it to itself
  Number worker;
  StepRun run;
  Time sent;          // unused if the lease is held
  bool copy = false;  // it is a copy of a late lease
};

/// Whether a step lies at `at`, in a session that began at `start`. False for places beyond the
/// epoch's end.
bool IsStep(const StepArithmetic& steps, Position start, Position at);

/// Checks a lease that a consumer claims to hold. InvalidArgument, with the numbers, if a session
/// that began at `start` cannot have its shard. No number makes it overflow.
Status CheckHeld(const StepArithmetic& steps, Position start, const v1::Lease& lease);

class LeaseTable {
 public:
  /// Takes a consumer's report: it holds exactly `held` of the leases up to `last_lease`. A later
  /// lease that was sent before `lapsed` counts as lost. REQUIRES: each passed CheckHeld.
  void Report(std::vector<LeaseFacts> held, Number last_lease, Time lapsed);
  /// How many leases the consumer gives up by that report, for each worker: leases that it had, and
  /// of which it holds nothing or less now, although its loop at `next` has not passed them. Copies
  /// do not count. A step has `stride` examples.
  std::map<Number, std::uint32_t> GivenUp(const std::vector<LeaseFacts>& held, Number last_lease,
                                          Position next, std::uint64_t stride) const;
  void Sent(const LeaseFacts& lease) { sent_.push_back(lease); }
  /// Forgets the leases on their way: the stream is broken, so they never arrive.
  void StreamLost() { sent_.clear(); }
  void Clear();

  /// The steps that no lease covers, in order, among the `window` steps from `next` on. Steps of
  /// `end_epoch` and later epochs are left out. O(leases log leases + epochs in the window).
  /// REQUIRES: a step lies at `next`, or `next` begins an epoch.
  std::vector<StepRun> Gaps(const StepArithmetic& steps, Position next, std::uint32_t window,
                            std::uint64_t end_epoch) const;

  std::size_t size() const { return held_.size() + sent_.size(); }
  /// Whether a copy of a late lease is held or on its way.
  bool HasCopy() const;
  /// The held lease with this number; nullptr if there is none.
  const LeaseFacts* FindHeld(Number lease) const;
  /// The number of leases that a worker serves, held or on their way.
  std::size_t CountFor(Number worker) const;
  void ShiftTimes(Duration by);

  const std::vector<LeaseFacts>& held() const { return held_; }
  const std::vector<LeaseFacts>& sent() const { return sent_; }

 private:
  std::vector<LeaseFacts> held_;
  std::vector<LeaseFacts> sent_;
};

/// Removes steps from the front of `run`, at most `batches`, and returns them as a shard of `rank`.
/// A short last step of an epoch is a shard by itself. REQUIRES: run.batches > 0, batches > 0.
v1::Shard CutShard(const StepArithmetic& steps, std::uint32_t rank, std::uint32_t batches,
                   StepRun& run);

}  // namespace millrace
