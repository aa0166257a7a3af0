// Deadlines for calls and alarms of gRPC.
#pragma once

#include <cstdint>

#include <grpc/support/time.h>

namespace millrace {

/// The moment `seconds` from now, by the monotonic clock. A deadline by the wall clock would move
/// when that clock is set. For grpc::ClientContext::set_deadline and grpc::Alarm::Set.
inline gpr_timespec SecondsFromNow(double seconds) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_micros(static_cast<std::int64_t>(seconds * 1e6), GPR_TIMESPAN));
}

}  // namespace millrace
