// The dispatcher's facts about demand and supply at one moment: the totals of training
// loops and of workers.
//
// Thread-compatible value types.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "server/dispatcher/machine/dispatcher_facts.h"
#include "server/dispatcher/machine/dispatcher_options.h"
#include "server/dispatcher/machine/measured_rates.h"

namespace millrace {

struct FleetSnapshot {
  struct Loop {
    SessionId session;
    std::string_view job;              // of the facts
    std::optional<LoopTotals> totals;  // unset if its batches do not count, or are not known yet
  };
  struct Supplier {
    WorkerId worker;
    bool present = false;  // heard, and does not drain
    WorkerTotals totals;
  };
  std::vector<Loop> loops;  // of all sessions, live and waiting
  std::vector<Supplier> suppliers;
};

/// Takes a snapshot of the facts. The replicas of a rank all read the same batches, so only replica
/// 0 counts. The snapshot is valid until the facts change.
FleetSnapshot SnapshotFleet(const DispatcherFacts& facts, Time now,
                            const DispatcherOptions& options);

}  // namespace millrace
