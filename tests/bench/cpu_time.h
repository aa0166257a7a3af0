// CPU time of a thread or a process, in seconds. Other programs on the machine change it little.
#pragma once

#include <sys/types.h>
#include <time.h>

namespace millrace::bench {

inline double ClockSeconds(clockid_t clock) {
  timespec now{};
  if (clock_gettime(clock, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

inline double ThreadCpuSeconds() { return ClockSeconds(CLOCK_THREAD_CPUTIME_ID); }
inline double ProcessCpuSeconds() { return ClockSeconds(CLOCK_PROCESS_CPUTIME_ID); }

/// CPU time of another process, which must not have been waited for; 0 if the process is gone.
inline double ProcessCpuSeconds(pid_t pid) {
  clockid_t clock;
  return clock_getcpuclockid(pid, &clock) == 0 ? ClockSeconds(clock) : 0;
}

}  // namespace millrace::bench
