// Converts the descriptions of tensors to and from the wire.
//
// Free functions; thread-safe.
#pragma once

#include <vector>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// Unimplemented if this program does not know the name of a kind, dtype or expansion.
Result<TensorSpec> FromProto(const v1::TensorSpec& tensor);
void ToProto(const TensorSpec& tensor, v1::TensorSpec* to);

}  // namespace millrace
