// Computes how much memory may hold batches that are built ahead, and how much the cache of
// examples. Batches get what everything else leaves of the process's limit, and the cache gets what
// they leave. So when memory is short, the cache shrinks first, then work ahead.
//
// Thread-safe.
#pragma once

#include <cstdint>

namespace millrace {

/// Memory of a process and of those of its plugins, without the page cache.
struct MemoryUse {
  std::uint64_t anonymous = 0;  // bytes
  std::uint64_t shared = 0;     // bytes of shared memory, in which batches are built
  std::uint64_t plugins = 0;    // bytes of the plugins' processes, their replies included
};

/// Returns how many bytes of batches may be built and not sent: `configured`, or less if the
/// process and its plugins would otherwise exceed `limit`. `built` is how many bytes such batches
/// have now. All shared memory counts as theirs: only batches use it, and they use it again and
/// again. (Replies of plugins lie in shared memory, too, and count as the plugins'.)
std::uint64_t WorkAheadBudget(std::uint64_t configured, std::uint64_t limit, MemoryUse use,
                              std::uint64_t built);

/// Returns how many bytes the cache may have: `configured`, or less if the process would otherwise
/// exceed `limit` once it has built as much as it may: `ahead`. `use` is without what the cache has
/// now; `built` is as above.
std::uint64_t CacheBudget(std::uint64_t configured, std::uint64_t limit, MemoryUse use,
                          std::uint64_t built, std::uint64_t ahead);

}  // namespace millrace
