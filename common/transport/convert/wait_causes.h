// Converts causes of waiting to and from the wire.
//
// Free functions; thread-safe.
#pragma once

#include "common/base/wait_cause.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// kNone for a cause that this program does not know.
WaitCause FromProto(v1::WaitCause cause);
v1::WaitCause ToProto(WaitCause cause);

}  // namespace millrace
