// What a plan says of itself on the wire.
//
// Pure functions.
#pragma once

#include "common/base/ids.h"
#include "common/epoch/position.h"
#include "millrace/v1/common.pb.h"
#include "server/pipeline/source.h"

namespace millrace {

v1::Spec MakeSpec(const Source& source, const StepArithmetic& steps,
                  const Fingerprint& order_fingerprint);

}  // namespace millrace
