#include "server/files/cache_dir.h"

#include <cstdlib>

namespace millrace {

std::filesystem::path DefaultCacheDir() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::filesystem::path(cache) / "millrace";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::filesystem::path(home) / ".cache" / "millrace";
  return {};
}

}  // namespace millrace
