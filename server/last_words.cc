#include "server/last_words.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

namespace millrace {
namespace {

/// Allocates nothing.
[[noreturn]] void EndWith(const char* line) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, std::strlen(line));
  _exit(1);
}

[[noreturn]] void OnTerminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      EndWith(
          "millraced: no memory could be had from the system: raise its limit (ulimit -v, cgroup) "
          "or lower --memory-limit, and start it again\n");
    } catch (const std::system_error&) {
      EndWith(
          "millraced: no thread could be had from the system: raise its limits (ulimit -u, "
          "ulimit -v, cgroup), and start it again\n");
    } catch (...) {
    }
  }
  std::abort();
}

}  // namespace

void InstallLastWords() { std::set_terminate(&OnTerminate); }

}  // namespace millrace
