#include "server/worker/service/read_memory_use.h"

#include <fstream>
#include <sstream>
#include <string>

#include "common/base/parse_number.h"

namespace millrace {

MemoryUse ReadMemoryUse() {
  MemoryUse use;
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::string kib;
    if (!(words >> name >> kib)) continue;
    const Result<std::uint64_t> number = ParseNumber<std::uint64_t>(kib);
    if (!number.ok()) continue;
    if (name == "RssAnon:") use.anonymous = *number << 10;
    if (name == "RssShmem:") use.shared = *number << 10;
  }
  return use;
}

}  // namespace millrace
