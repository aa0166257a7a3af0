#include "server/worker/machine/memory_use.h"

#include <algorithm>
#include <cmath>

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

std::int64_t PluginRoom(std::uint64_t configured, std::uint64_t limit, MemoryUse use,
                        std::uint64_t built) {
  return static_cast<std::int64_t>(limit) - static_cast<std::int64_t>(Others(use, built)) -
         static_cast<std::int64_t>(configured / 2);
}

int ProcessesInRoom(int places, int running, std::uint64_t bytes, std::int64_t room) {
  const double one = std::max(1.0, static_cast<double>(bytes) / std::max(1, running));
  const double left = static_cast<double>(room);
  const double more = left >= 0
                          ? std::min<double>(std::max(1, running), std::floor(0.75 * left / one))
                          : -std::min<double>(running, std::ceil(-left / one));
  return std::clamp(running + static_cast<int>(more), 1, places);
}

}  // namespace millrace
