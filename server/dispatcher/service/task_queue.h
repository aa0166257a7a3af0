// Tasks for one thread that runs them in order and does something else regularly.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <utility>

#include "common/system/mutex.h"

namespace millrace {

/// Thread-safe. Posting never blocks; whoever posts sees to it that the queue stays short.
class TaskQueue {
 public:
  /// Ignored after Close.
  void Post(std::function<void()> task) {
    MutexLock lock(mutex_);
    if (closed_) return;
    tasks_.push_back(std::move(task));
    changed_.NotifyOne();
  }

  /// All tasks that wait, in order; none where `until` came first.
  std::deque<std::function<void()>> TakeAll(std::chrono::steady_clock::time_point until) {
    MutexLock lock(mutex_);
    while (tasks_.empty() && !closed_) {
      const auto left = until - std::chrono::steady_clock::now();
      if (left.count() <= 0) break;
      changed_.WaitFor(mutex_, left);
    }
    return std::exchange(tasks_, {});
  }

  /// Drops nothing that was posted before.
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }

  bool closed() {
    MutexLock lock(mutex_);
    return closed_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ MILLRACE_GUARDED_BY(mutex_);
  bool closed_ MILLRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace
