#include "server/daemon/shutdown_limit.h"

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <utility>

namespace millrace {
namespace {

// Added to the grace time, in which the daemon finishes the work that it owes: time to stop its
// threads and to exit.
constexpr double kStopSeconds = 2;

}  // namespace

ShutdownLimit::ShutdownLimit(const sigset_t& signals, double grace_seconds,
                             std::shared_ptr<Logger> log)
    : signals_(signals), log_(std::move(log)) {
  thread_ = std::thread([this, grace_seconds] { Run(grace_seconds + kStopSeconds); });
}

ShutdownLimit::~ShutdownLimit() {
  ended_ = true;
  thread_.join();
}

void ShutdownLimit::Run(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!ended_) {
    const timespec patience{0, 20'000'000};
    const bool again = sigtimedwait(&signals_, nullptr, &patience) > 0;
    if (!again && std::chrono::steady_clock::now() < end) continue;
    log_->Warning("stopped at once",
                  {{"why", again ? "a second signal" : "the grace time is over"}});
    std::_Exit(0);
  }
}

}  // namespace millrace
