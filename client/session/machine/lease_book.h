// The leases that a consumer holds, as intervals of its steps. The book knows which steps are still
// lacking, and how much room each lease gets.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "client/session/machine/lease.h"

namespace millrace::client {

/// A lease is held until the loop has passed its last step. Until then, nobody has to build its
/// batches again.
struct HeldLease {
  Lease lease;
  std::uint64_t shard_first = 0;  // step of the lease's first batch
  std::uint64_t first = 0;        // first step that the consumer lacks; `end` if it lacks none
  std::uint64_t end = 0;
  std::uint64_t room = 0;  // how many steps from `first` on may be built

  bool lacks() const { return first < end; }
};

class LeaseBook {
 public:
  using Map = std::map<Number, HeldLease>;

  void Add(const Lease& lease, std::uint64_t first_step);
  bool Has(Number lease) const { return leases_.count(lease) != 0; }
  HeldLease* Find(Number lease);
  /// Gives back the steps from `first + keep` on.
  static void Trim(HeldLease& held, std::uint64_t keep) {
    held.end = std::min(held.end, held.first + keep);
  }
  /// Gives back the steps that one worker's leases lack. Returns how many leases gave back steps.
  std::size_t LapseOf(Number worker);
  const Map& all() const { return leases_; }
  Map& all() { return leases_; }

  /// Moves every lease's `first` to the first step that is neither before `next` nor held. Drops a
  /// lease if `next` has passed it, or if nothing of it came and nothing is lacking. Returns true
  /// if a lease was dropped or now lacks nothing.
  bool Cut(std::uint64_t next, const std::function<bool(std::uint64_t)>& is_held);

  /// The leases that lack steps, in order of need: by their first lacking step, and originals
  /// before copies. The result is valid until a lease is added or dropped.
  const std::vector<HeldLease*>& ByNeed();

  /// Gives room to leases in order of need: only to steps before `window_end`, and to at most
  /// `slots` steps in all.
  ///
  /// A lease may begin at a step that an earlier lease covers. If it is a copy, it gets room for
  /// one batch, which does not count as one of the `slots`. If it is not a copy, it gets no room
  /// until the earlier lease is done or gone.
  void GiveRoom(std::uint64_t window_end, std::uint64_t slots);

  /// The first run of steps in [from, end) that are neither held nor expected from a lease. The run
  /// is [first, second), and it is empty if there are no such steps.
  std::pair<std::uint64_t, std::uint64_t> FirstGap(
      std::uint64_t from, std::uint64_t end,
      const std::function<bool(std::uint64_t)>& is_held) const;

  /// The lease that a step will come from: of the leases that cover it, the one with the most room.
  /// nullptr if no lease covers it.
  const HeldLease* Covering(std::uint64_t step) const;

 private:
  Map leases_;
  std::vector<HeldLease*> by_need_;
};

}  // namespace millrace::client
