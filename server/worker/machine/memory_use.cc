#include "server/worker/machine/memory_use.h"

#include <algorithm>

namespace millrace {
namespace {

/// Memory of everything but batches.
std::uint64_t Others(MemoryUse use, std::uint64_t built) {
  const std::uint64_t on_heap = built > use.shared ? built - use.shared : 0;
  return use.anonymous - std::min(use.anonymous, on_heap) + use.plugins;
}

}  // namespace

std::uint64_t WorkAheadBudget(std::uint64_t configured, std::uint64_t limit, MemoryUse use,
                              std::uint64_t built) {
  const std::uint64_t others = Others(use, built);
  return std::min(configured, limit > others ? limit - others : 0);
}

std::uint64_t CacheBudget(std::uint64_t configured, std::uint64_t limit, MemoryUse use,
                          std::uint64_t built, std::uint64_t ahead) {
  const std::uint64_t taken = Others(use, built) + ahead;
  return std::min(configured, limit > taken ? limit - taken : 0);
}

}  // namespace millrace
