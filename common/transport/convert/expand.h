// Converts the rules for completing edges to and from the wire.
//
// Free functions; thread-safe.
#pragma once

#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// Unimplemented if this program does not know the name of the symmetrization.
Result<ExpandSpec> FromProto(const v1::ExpandSpec& spec);
void ToProto(const ExpandSpec& spec, v1::ExpandSpec* to);

}  // namespace millrace
