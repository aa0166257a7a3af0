// A thread that calls a function at a steady rate.
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "common/system/mutex.h"

namespace millrace {

/// Calls `tick` every `period` until it is destroyed. The destructor waits for a running call.
class Ticker {
 public:
  Ticker(std::chrono::milliseconds period, std::function<void()> tick)
      : period_(period), tick_(std::move(tick)), thread_([this] { Run(); }) {}
  ~Ticker() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  void Run() {
    MutexLock lock(mutex_);
    while (!stopping_) {
      changed_.WaitFor(mutex_, period_);
      if (stopping_) return;
      lock.Unlock();
      tick_();
      lock.Lock();
    }
  }

  const std::chrono::milliseconds period_;
  const std::function<void()> tick_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace millrace
