// Makes sure that a daemon ends after a request to stop.
#pragma once

#include <signal.h>

#include <atomic>
#include <memory>
#include <thread>

#include "common/base/log.h"

namespace millrace {

/// From its construction on, it ends the process with exit code 0 when one of `signals` arrives
/// again, or when `grace_seconds` and a little more have passed. Every thread has to block these
/// signals. So an orderly stop cannot hang on work that cannot be interrupted. It is safe to end
/// any process like this: nothing in its memory has to be saved, and files are replaced completely
/// or not at all.
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
