// A bare stream of byte buffers over gRPC, from a process of its own: the upper limit for batches
// over gRPC. It uses the same API as common/transport; nothing is encoded, copied, checked or
// looked at.
#pragma once

#include <cstddef>

#include "common/base/result.h"

namespace millrace::bench {

struct BareGrpcRate {
  double bytes_per_second = 0;
  double cpu_seconds_per_gigabyte = 0;  // of both processes together
};

/// Streams messages of `block` bytes for about `seconds`. This forks: call it before this process
/// uses gRPC in any other way. gRPC is used only in the children.
Result<BareGrpcRate> MeasureBareGrpc(std::size_t block, double seconds);

}  // namespace millrace::bench
