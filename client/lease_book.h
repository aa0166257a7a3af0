// The leases that a consumer holds, as intervals of its steps: what still lacks, and how much room
// each gets.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "client/lease.h"

namespace millrace::client {

/// Steps [first, end) that the consumer lacks or may lack; `lease.shard` begins at step `shard_first`.
struct HeldLease {
  Lease lease;
  std::uint64_t shard_first = 0;
  std::uint64_t first = 0;  // first step of it that the consumer lacks
  std::uint64_t end = 0;
  std::uint64_t room = 0;   // steps from `first` on that may be built

  std::uint32_t lacking() const { return static_cast<std::uint32_t>(end - first); }
};

class LeaseBook {
 public:
  using Map = std::map<Number, HeldLease>;

  void Add(const Lease& lease, std::uint64_t first_step);
  bool Has(Number lease) const { return leases_.count(lease) != 0; }
  HeldLease* Find(Number lease);
  void Drop(Number lease) { leases_.erase(lease); }
  /// Drops all of one worker's; how many.
  std::size_t DropOf(Number worker);
  const Map& all() const { return leases_; }
  Map& all() { return leases_; }

  /// Cuts every lease to the first step that is neither before `next` nor held, and drops those that
  /// lack nothing. True where one was dropped.
  bool Cut(std::uint64_t next, const std::function<bool(std::uint64_t)>& is_held);

  /// In order of need: by first lacking step, originals before copies.
  std::vector<HeldLease*> ByNeed();

  /// Gives room in order of need: to steps before `window_end` only, `slots` in all. A copy of what an
  /// earlier lease covers gets room for one batch beyond that; another such lease waits until the
  /// earlier one is done or gone.
  void GiveRoom(std::uint64_t window_end, std::uint64_t slots);

  /// The lease that a step will come from: the one with room, or any that covers it; or nullptr.
  const HeldLease* Covering(std::uint64_t step) const;

 private:
  Map leases_;
};

}  // namespace millrace::client
