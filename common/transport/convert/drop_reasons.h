// Converts the reasons for dropping examples, and their names, to and from the wire.
//
// Free functions; thread-safe.
#pragma once

#include "common/batch/layout/drop_reasons.h"
#include "common/batch/layout/layout.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// Keeps the number, even if the protocol has no name for it.
v1::DropReason ToProto(DropReason reason);

/// The names that the spec of a plan has. Reasons that it does not name keep this program's names.
DropReasonNames DropReasonsOf(const v1::Spec& spec);
/// Puts all reasons that have a name into a spec that has no names yet.
void AddDropReasons(const DropReasonNames& names, v1::Spec& spec);

/// The name of the reason of a count. This is the count's own name, if a dispatcher wrote one into
/// the status; otherwise `names` gives it.
std::string NameOf(const v1::DroppedCount& count, const DropReasonNames& names);
std::string NameOf(const v1::LostPieces& count, const DropReasonNames& names);

}  // namespace millrace
