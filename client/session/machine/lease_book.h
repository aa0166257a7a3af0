// The leases that a consumer holds, as intervals of its steps: what still lacks, and how much room
// each gets.
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

/// A lease is held until the loop has passed it: what it brought and the loop has not taken is
/// nobody's to build again.
struct HeldLease {
  Lease lease;
  std::uint64_t shard_first = 0;  // step of the lease's first batch
  std::uint64_t first = 0;  // first step of it that the consumer lacks; `end` where it lacks none
  std::uint64_t end = 0;
  std::uint64_t room = 0;  // steps from `first` on that may be built

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
  /// Gives back what one worker's leases lack; how many leases that were.
  std::size_t LapseOf(Number worker);
  const Map& all() const { return leases_; }
  Map& all() { return leases_; }

  /// Moves every lease's `first` to the first step that is neither before `next` nor held, and
  /// drops those that `next` has passed, or of which nothing came and nothing is lacking. True
  /// where one was dropped or now lacks nothing.
  bool Cut(std::uint64_t next, const std::function<bool(std::uint64_t)>& is_held);

  /// Those that lack something, in order of need: by first lacking step, originals before copies.
  /// Good until a lease is added or dropped.
  const std::vector<HeldLease*>& ByNeed();

  /// Gives room in order of need: to steps before `window_end` only, `slots` in all. A copy of what
  /// an earlier lease covers gets room for one batch beyond that; another such lease waits until
  /// the earlier one is done or gone.
  void GiveRoom(std::uint64_t window_end, std::uint64_t slots);

  /// The first steps of [from, end) that are neither held nor lacking in any lease: [first,
  /// second), empty where there are none.
  std::pair<std::uint64_t, std::uint64_t> FirstGap(
      std::uint64_t from, std::uint64_t end,
      const std::function<bool(std::uint64_t)>& is_held) const;

  /// The lease that a step will come from: the one with room, or any that covers it; or nullptr.
  const HeldLease* Covering(std::uint64_t step) const;

 private:
  Map leases_;
  std::vector<HeldLease*> by_need_;
};

}  // namespace millrace::client
