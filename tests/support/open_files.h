// Counts what a test has open.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

namespace millrace::test {

/// The descriptors that this process has open, but for those of /proc: the tests' own clock reads
/// files there, on a thread of its own, and so does this function.
inline std::size_t OpenFiles() {
  std::size_t open = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::filesystem::path to = std::filesystem::read_symlink(entry.path(), gone);
    open += !gone && !to.string().starts_with("/proc/") ? 1 : 0;
  }
  return open;
}

}  // namespace millrace::test
