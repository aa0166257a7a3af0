// Converts a plan's description from the wire to the BatchSpec that users see.
//
// Free functions; thread-safe.
#pragma once

#include "client/session/machine/session_actions.h"
#include "client/spec.h"
#include "common/base/result.h"
#include "common/batch/layout/layout.h"

namespace millrace::client {

/// Unimplemented if the spec has a name that this program does not know, since the servers are
/// newer.
Result<BatchSpec> SpecFromProto(const Admission& admission, DType index_dtype);

}  // namespace millrace::client
