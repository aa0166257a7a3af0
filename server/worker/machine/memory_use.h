// Computes how much memory may hold batches that are built ahead, and how much the cache of
// examples. Batches get the rest of the process's limit after everything else, and the cache gets
// the rest after them. So when memory is short, the cache shrinks first, then work ahead.
//
// Thread-safe.
#pragma once

#include <cstdint>

namespace millrace {

/// Memory of a process and of its plugins' processes, without the page cache.
struct MemoryUse {
  std::uint64_t anonymous = 0;  // bytes
  std::uint64_t shared = 0;     // bytes of shared memory, in which batches are built
  std::uint64_t plugins = 0;    // bytes of the plugins' processes, their replies included
};

/// Returns how many bytes of batches may be built and not sent: `configured`, or less if the
/// process and its plugins would otherwise exceed `limit`. `built` is how many bytes such batches
/// have now. All shared memory counts as theirs: only batches use it, and they use it again and
/// again. (Replies of plugins are in shared memory, too, but count as the plugins' memory.)
std::uint64_t WorkAheadBudget(std::uint64_t configured, std::uint64_t limit, MemoryUse use,
                              std::uint64_t built);

/// Returns how many bytes the cache may have: `configured`, or less if the process would otherwise
/// exceed `limit` once it has built as much as it may: `ahead`. `use` excludes the cache; `built`
/// is as above.
std::uint64_t CacheBudget(std::uint64_t configured, std::uint64_t limit, MemoryUse use,
                          std::uint64_t built, std::uint64_t ahead);

/// Returns how many more bytes the processes of plugins may take, so that half of `configured` is
/// left for batches. Less than 0 if they have too many. `use` and `built` are as above.
std::int64_t PluginRoom(std::uint64_t configured, std::uint64_t limit, MemoryUse use,
                        std::uint64_t built);

/// Returns how many processes of a pool may run, 1 to `places`, if `room` bytes are left for more
/// of them and `running` of them have `bytes` now. It grows by at most as many as run, so that the
/// memory of new processes is seen before others follow, and only into three quarters of the room,
/// so that it does not flap.
int ProcessesInRoom(int places, int running, std::uint64_t bytes, std::int64_t room);

}  // namespace millrace
