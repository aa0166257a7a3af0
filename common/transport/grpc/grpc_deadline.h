// When a call or an alarm of gRPC is over.
#pragma once

#include <cstdint>

#include <grpc/support/time.h>

namespace millrace {

/// So many seconds from now, by the clock that nobody sets: a deadline by the wall clock would move
/// with it. For grpc::ClientContext::set_deadline and grpc::Alarm::Set.
inline gpr_timespec SecondsFromNow(double seconds) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_micros(static_cast<std::int64_t>(seconds * 1e6), GPR_TIMESPAN));
}

}  // namespace millrace
