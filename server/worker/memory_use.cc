#include "server/worker/memory_use.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace millrace {

MemoryUse ReadMemoryUse() {
  MemoryUse use;
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    if (!(words >> name >> kib)) continue;
    if (name == "RssAnon:") use.anonymous = kib << 10;
    if (name == "RssShmem:") use.shared = kib << 10;
  }
  return use;
}

std::uint64_t WorkAheadBudget(std::uint64_t configured, std::uint64_t limit, MemoryUse use,
                              std::uint64_t built) {
  const std::uint64_t on_heap = built > use.shared ? built - use.shared : 0;
  const std::uint64_t others = use.anonymous - std::min(use.anonymous, on_heap);
  return std::min(configured, limit > others ? limit - others : 0);
}

}  // namespace millrace
