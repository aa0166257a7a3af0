// Converts a plan's description from the wire to the BatchSpec that users see, and to the delivery
// of its batches.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>

#include "client/session/machine/session_actions.h"
#include "client/spec.h"
#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "common/expand/delivery.h"

namespace millrace::client {

struct AdmittedPlan {
  BatchSpec spec;
  Delivery delivery;
};

/// Unimplemented if the spec has a name or an operation that this program does not know, since the
/// servers are newer. InvalidArgument if its tensors break the rules of tensor_table.h, if
/// consumers cannot compute the requested tensors from them, or if batches cannot be delivered in
/// the requested number of micro-batches.
Result<AdmittedPlan> PlanFromProto(const Admission& admission, DType index_dtype,
                                   std::uint32_t micro = 1);

}  // namespace millrace::client
