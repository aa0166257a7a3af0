// The one mapping between our errors and gRPC's.
#pragma once

#include <grpcpp/support/status.h>

#include "common/base/result.h"

namespace millrace {

grpc::Status ToGrpcStatus(const Status& status);
/// Codes that gRPC may add some day become kUnknown.
Status FromGrpcStatus(const grpc::Status& status);

}  // namespace millrace
