// The one mapping between our errors and gRPC's.
#pragma once

#include <grpcpp/support/status.h>

#include "common/base/result.h"

namespace millrace {

/// gRPC would replace a message that is too long by another error with another code. So such a
/// message loses its middle: its start says what is wrong, and its end says what to do.
grpc::Status ToGrpcStatus(const Status& status);
/// Codes that gRPC may add later become kUnknown.
Status FromGrpcStatus(const grpc::Status& status);

}  // namespace millrace
