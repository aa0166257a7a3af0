#include "common/security/file_snapshot.h"

#include <sys/stat.h>

#include <fmt/core.h>

namespace millrace {

std::string FileSnapshot(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return "none";
  return fmt::format("{}:{}:{}.{}", found.st_ino, found.st_size, found.st_mtim.tv_sec,
                     found.st_mtim.tv_nsec);
}

}  // namespace millrace
