// The one mapping between our errors and gRPC's.
#pragma once

#include <grpcpp/support/status.h>

#include "common/base/result.h"

namespace millrace {

/// A message that is too long for gRPC (which would send another error instead, of another code)
/// loses its middle: what begins it says what is wrong, what ends it what to do.
grpc::Status ToGrpcStatus(const Status& status);
/// Codes that gRPC may add some day become kUnknown.
Status FromGrpcStatus(const grpc::Status& status);

}  // namespace millrace
