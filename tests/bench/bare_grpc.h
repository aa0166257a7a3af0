// A bare stream of byte buffers over gRPC, from a process of its own: what moving batches over gRPC
// cannot beat. The API is the one that common/transport uses; nothing is encoded, copied, checked
// or looked at.
#pragma once

#include <cstddef>

#include "common/base/result.h"

namespace millrace::bench {

struct BareGrpcRate {
  double bytes_per_second = 0;
  double cpu_seconds_per_gigabyte = 0;  // both processes
};

/// Streams messages of `block` bytes for about `seconds`. Forks: call it before this process makes
/// any other use of gRPC; it uses gRPC in children only.
Result<BareGrpcRate> MeasureBareGrpc(std::size_t block, double seconds);

}  // namespace millrace::bench
