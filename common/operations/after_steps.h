// The steps that may follow any operation, in this order:
//
// - squeeze: removes the last fixed axis, whose extent is 1;
// - shape: gives other fixed extents to as many values;
// - scale and offset: a number, or one for each element of the last axis. They are computed in the
//   common type of tensor and dtype; the product is rounded, then the offset is added, +0 if there
//   is no offset;
// - dtype: converts the values (common/tensor/convert.h).
//
// Pure functions.
#pragma once

#include <vector>

#include "common/operations/operation.h"

namespace millrace {

/// The parameters by which a user asks for the steps.
const std::vector<Parameter>& AfterParameters();

/// Appends the steps to an operation that is bound without them.
Status AppendAfterSteps(const Params& params, BoundOperation& bound);

/// The type that both types' values are computed in: the wider one; for a signed and an unsigned
/// integer a signed type that holds both, at most int64; for an integer and a float float32 if the
/// integer has at most 16 bits, otherwise float64. float16 and bfloat16 count as float32.
DType CommonType(DType a, DType b);

}  // namespace millrace
