// Lets a test say that it cannot run here.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace millrace::test {

/// Ends the process so that CTest counts the test as skipped. Every test case runs in a process of
/// its own.
[[noreturn]] inline void SkipTest(const std::string& why) {
  std::printf("skipped: %s\n", why.c_str());
  std::fflush(stdout);
  std::_Exit(77);
}

/// The folder with the reference datasets and golden files: $MILLRACE_SHARED, or `shared` beside
/// the source tree. Skips the test if there is none.
inline std::string SharedDirOrSkip() {
  const char* from_environment = std::getenv("MILLRACE_SHARED");
  const std::string dir = from_environment != nullptr
                              ? from_environment
                              : std::string(MILLRACE_SOURCE_DIR) + "/../shared";
  if (std::FILE* f = std::fopen((dir + "/golden/README.md").c_str(), "r")) {
    std::fclose(f);
    return dir;
  }
  SkipTest("no reference data at " + dir);
}

}  // namespace millrace::test
