// Asks the kernel how much memory a process takes.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include <sys/types.h>

namespace millrace {

/// Bytes that a process would free by ending, if all others that share memory with it ended too:
/// a page that n processes share counts one n-th for each. Without files and shared memory. So the
/// sum over a process and its forks is their memory together. If the kernel has no such figure
/// (/proc/PID/smaps_rollup), PrivateMemory, which counts such a page in full. 0 if the process is
/// gone. It takes the kernel about a millisecond per gigabyte.
std::uint64_t ShareOfMemory(pid_t process);

/// The bytes that a text such as smaps_rollup has for `name` ("Pss_Anon:"); -1 if it is missing.
std::int64_t KilobyteLine(std::string_view text, std::string_view name);

}  // namespace millrace
