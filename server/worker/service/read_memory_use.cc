#include "server/worker/service/read_memory_use.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "common/base/parse_number.h"
#include "server/files/huge_memory.h"

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
  // Copies of datasets are beside the limit of the process, as the page cache is.
  use.anonymous -= std::min(use.anonymous, HugeMemory::TotalBytes());
  return use;
}

}  // namespace millrace
