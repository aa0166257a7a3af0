// Sees to it that a daemon that was told to stop does stop.
#pragma once

#include <signal.h>

#include <atomic>
#include <memory>
#include <thread>

#include "common/base/log.h"

namespace millrace {

/// From its making on, ends the process with exit code 0 when one of `signals` (which every thread
/// has to block) comes again, or when `grace_seconds` and a little more have passed: stopping in
/// order must not wait for what cannot be interrupted. Ending any process is safe: nothing that it
/// has in memory matters, and files are replaced whole or not at all.
class ShutdownLimit {
 public:
  ShutdownLimit(const sigset_t& signals, double grace_seconds, std::shared_ptr<Logger> log);
  ~ShutdownLimit();
  ShutdownLimit(const ShutdownLimit&) = delete;
  ShutdownLimit& operator=(const ShutdownLimit&) = delete;

 private:
  void Run(double seconds);

  const sigset_t signals_;
  const std::shared_ptr<Logger> log_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace millrace
