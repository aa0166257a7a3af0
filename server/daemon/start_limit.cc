#include "server/daemon/start_limit.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>

namespace millrace {
namespace {

constexpr unsigned kSeconds = 30;
constexpr std::string_view kLine =
    "millraced: neither started nor ended within 30 s; the lines before say how far it came: raise "
    "the limits of memory and threads (ulimit -v, ulimit -u, cgroup), see that the disk of the "
    "state folder answers, and start it again\n";

void OnAlarm(int /*signal*/) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kLine.data(), kLine.size());
  _exit(1);
}

}  // namespace

void LimitStart() {
  signal(SIGALRM, &OnAlarm);
  alarm(kSeconds);
}

void EndStartLimit() {
  alarm(0);
  signal(SIGALRM, SIG_DFL);
}

}  // namespace millrace
