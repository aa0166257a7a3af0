// How much memory may hold batches that are built ahead: what the process's limit leaves beside
// everything else. Work ahead is what shrinks first.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>

namespace millrace {

/// Memory of a process, the page cache aside.
struct MemoryUse {
  std::uint64_t anonymous = 0;  // bytes
  std::uint64_t shared = 0;     // of shared memory, in which batches are built
};

/// Bytes for batches built and not sent: `configured`, or less where the process would exceed
/// `limit` with them. `built` are bytes of such batches now. Shared memory is given out again and
/// again to batches, and to nothing else; it counts as theirs.
std::uint64_t WorkAheadBudget(std::uint64_t configured, std::uint64_t limit, MemoryUse use,
                              std::uint64_t built);

}  // namespace millrace
