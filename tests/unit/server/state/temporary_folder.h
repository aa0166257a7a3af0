// A folder that ends with the test. It is in memory if possible, so that a thousand commits do not
// wait for a disk. faulty_vfs.h simulates what a disk loses if the power is cut.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace millrace::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code ignored;
    const char* of_run = std::getenv("MILLRACE_TEST_MEMORY");
    const std::filesystem::path memory = of_run != nullptr ? of_run : "/dev/shm";
    const bool there =
        std::filesystem::is_directory(memory, ignored) && access(memory.c_str(), W_OK) == 0;
    std::string name =
        ((there ? memory : std::filesystem::temp_directory_path()) / "millrace-state-XXXXXX")
            .string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace millrace::test
