// Ctrl-C and SIGTERM as an event, so that work in progress can end cleanly.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace millrace::cli {

/// Calls `on_stop` once, on a thread of its own, when SIGINT or SIGTERM comes. It acts from its
/// construction on. REQUIRES: it is made before any other thread, because other threads inherit the
/// block of the two signals. A second signal ends the process at once.
class StopSignals {
 public:
  explicit StopSignals(std::function<void()> on_stop);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool stopped() const { return stopped_; }

 private:
  void Run();

  const std::function<void()> on_stop_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace millrace::cli
