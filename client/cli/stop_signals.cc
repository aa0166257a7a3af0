#include "client/cli/stop_signals.h"

#include <csignal>
#include <ctime>
#include <utility>

namespace millrace::cli {
namespace {

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals(std::function<void()> on_stop) : on_stop_(std::move(on_stop)) {
  const sigset_t set = StopSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { Run(); });
}

StopSignals::~StopSignals() {
  ending_ = true;
  thread_.join();
  const sigset_t set = StopSet();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void StopSignals::Run() {
  const sigset_t set = StopSet();
  while (!ending_) {
    const timespec patience{0, 100'000'000};
    if (sigtimedwait(&set, nullptr, &patience) < 0) continue;
    if (stopped_.exchange(true)) std::_Exit(130);
    on_stop_();
  }
}

}  // namespace millrace::cli
