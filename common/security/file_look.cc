#include "common/security/file_look.h"

#include <sys/stat.h>

#include <fmt/core.h>

namespace millrace {

std::string FileLook(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return "none";
  return fmt::format("{}:{}:{}.{}", found.st_ino, found.st_size, found.st_mtim.tv_sec,
                     found.st_mtim.tv_nsec);
}

}  // namespace millrace
