#include "server/worker/service/read_memory_use.h"

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

}  // namespace millrace
