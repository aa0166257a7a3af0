// What step arithmetic is made of, to and from the wire.
//
// Free functions; thread-safe.
#pragma once

#include "common/epoch/position.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// What the message says; whether it makes sense is StepArithmetic::Create's to tell.
StepOptions FromProto(const v1::StepSpec& spec);
void ToProto(const StepOptions& options, v1::StepSpec* to);

}  // namespace millrace
