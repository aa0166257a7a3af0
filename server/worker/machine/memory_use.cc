#include "server/worker/machine/memory_use.h"

#include <algorithm>

namespace millrace {

std::uint64_t WorkAheadBudget(std::uint64_t configured, std::uint64_t limit, MemoryUse use,
                              std::uint64_t built) {
  const std::uint64_t on_heap = built > use.shared ? built - use.shared : 0;
  const std::uint64_t others = use.anonymous - std::min(use.anonymous, on_heap);
  return std::min(configured, limit > others ? limit - others : 0);
}

}  // namespace millrace
