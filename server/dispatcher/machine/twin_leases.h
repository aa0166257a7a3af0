// Which worker has the batches of a place, for sessions that need the same batches.
//
// Sessions are twins if they have one fingerprint, world size and rank: replicas of a rank, or jobs
// beside one another. A worker builds a batch once for all twins (docs/protocol.md, "Shared
// batches"), if they ask the same worker. So the last shards of twins are remembered with their
// workers. Places are compared and not whole shards: windows of twins differ, and so do the cuts.
//
// A cache of what follows from the facts. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/epoch/position.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// The last shards that twins got.
class TwinTrail {
 public:
  /// A window is at most so many shards, so that those of the twin in front are all there.
  static constexpr std::size_t kShards = 64;

  /// A shard's part from one step on.
  struct Part {
    Number worker;
    std::uint32_t batches = 0;
  };
  /// The part, from `at` on, of the last shard that covers this step; nullopt if none is
  /// remembered. `stride`: examples in a step of all ranks.
  std::optional<Part> Find(Position at, std::uint64_t stride) const;
  void Add(const StepRun& run, std::uint64_t stride, Number worker);

 private:
  struct Shard {
    StepRun run;
    Number worker;
  };
  std::vector<Shard> shards_;  // a ring
  std::size_t oldest_ = 0;
  Position end_;  // no shard covers this place or a later one
};

class TwinLeases {
 public:
  /// Must be called once for each session, with its plan and the leases that it has already. The
  /// session has to stay where it is until Forget is called, and to keep its plan.
  void Add(const SessionFacts& session);
  void Forget(Number session);
  /// The trail of the session's twins, which is valid until the session is forgotten; nullptr if it
  /// has no twin now.
  TwinTrail* TrailOf(Number session);

 private:
  using Key = std::tuple<std::string, std::uint32_t, std::uint32_t>;  // fingerprint, world, rank
  struct Group {
    std::set<const SessionFacts*> sessions;
    TwinTrail trail;  // empty as long as there is one session
  };
  using Groups = std::map<Key, Group>;
  struct Member {
    const SessionFacts* session;
    Groups::iterator group;
  };

  Groups groups_;
  std::unordered_map<Number, Member> group_of_;  // by session
  std::size_t twins_ = 0;                        // sessions that are not the first of their group
};

}  // namespace millrace
