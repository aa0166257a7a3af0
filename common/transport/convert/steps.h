// Converts the options of step arithmetic to and from the wire.
//
// Free functions; thread-safe.
#pragma once

#include "common/epoch/position.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// Takes the message unchanged. StepArithmetic::Create checks it.
StepOptions FromProto(const v1::StepSpec& spec);
void ToProto(const StepOptions& options, v1::StepSpec* to);

}  // namespace millrace
