#include "common/system/clock.h"

#include <ctime>

namespace millrace {

Time SystemClock::Now() const {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return {std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec)};
}

std::int64_t SystemClock::UnixSeconds() const { return std::time(nullptr); }

}  // namespace millrace
