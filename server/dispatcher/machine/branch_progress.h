// How far a job has read the branches of its mix.
//
// A free function over facts; thread-safe.
#pragma once

#include "common/epoch/position.h"
#include "millrace/v1/dispatcher.pb.h"

namespace millrace {

/// Adds the rows of each branch read before `next`; nothing if the plan is no mix. REQUIRES: the
/// spec is the spec of a plan, and `next` is in an epoch of it.
///
/// The places of a block are shuffled, so the share of a part of a block can be wrong. It is wrong
/// by less than the branch's part of one block. At whole blocks, and so at the beginning of every
/// epoch, it is exact. Places that `remainder: drop` leaves out count as read once the epoch is
/// over, because a branch goes on behind them.
void AddBranches(const v1::Spec& spec, Position next, v1::JobStatus& out);

}  // namespace millrace
