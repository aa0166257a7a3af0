// Reasons for dropping and their names, to and from the wire.
//
// Free functions; thread-safe.
#pragma once

#include "common/batch/layout/drop_reasons.h"
#include "common/batch/layout/layout.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// Keeps the number, also where proto has no name for it.
v1::DropReason ToProto(DropReason reason);

/// The names that a plan's spec has, with those of this program for what it does not name.
DropReasonNames DropReasonsOf(const v1::Spec& spec);
/// Puts the names of all reasons that this program knows into a spec.
void AddDropReasons(v1::Spec& spec);

/// The name of a count's reason: its own, as a dispatcher writes it into a status, or `names`'.
std::string NameOf(const v1::DroppedCount& count, const DropReasonNames& names);

}  // namespace millrace
