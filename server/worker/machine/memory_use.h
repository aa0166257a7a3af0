// Computes how much memory may hold batches that are built ahead. They get what everything else
// leaves of the process's limit. So when memory is short, work ahead shrinks first.
//
// Thread-safe.
#pragma once

#include <cstdint>

namespace millrace {

/// Memory of a process, without the page cache.
struct MemoryUse {
  std::uint64_t anonymous = 0;  // bytes
  std::uint64_t shared = 0;     // bytes of shared memory, in which batches are built
};

/// Returns how many bytes of batches may be built and not sent: `configured`, or less if the
/// process would otherwise exceed `limit`. `built` is how many bytes such batches have now. All
/// shared memory counts as theirs, since only batches use it, and they use it again and again.
std::uint64_t WorkAheadBudget(std::uint64_t configured, std::uint64_t limit, MemoryUse use,
                              std::uint64_t built);

}  // namespace millrace
