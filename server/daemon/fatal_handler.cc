#include "server/daemon/fatal_handler.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

namespace millrace {
namespace {

/// Ends the process with a message. Allocates no memory.
[[noreturn]] void EndWith(std::string_view why) {
  const auto piece = [](std::string_view text) {
    return iovec{const_cast<char*>(text.data()), text.size()};
  };
  const iovec line[] = {piece("millraced: "), piece(why), piece("\n")};
  [[maybe_unused]] const ssize_t written = writev(STDERR_FILENO, line, 3);
  _exit(1);
}

[[noreturn]] void OnTerminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      EndWith(
          "no memory could be had from the system: raise its limit (ulimit -v, cgroup) or lower "
          "--memory-limit, and start it again");
    } catch (const std::filesystem::filesystem_error& e) {
      EndWith(e.what());
    } catch (const std::system_error&) {
      EndWith(
          "no thread could be had from the system: raise its limits (ulimit -u, ulimit -v, "
          "cgroup), and start it again");
    } catch (const std::exception& e) {
      EndWith(e.what());
    } catch (...) {
    }
  }
  std::abort();
}

}  // namespace

void InstallFatalHandler() { std::set_terminate(&OnTerminate); }

}  // namespace millrace
