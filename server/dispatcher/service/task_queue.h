// A queue of tasks for one thread, which runs them in order and does other work between them.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <utility>

#include "common/system/mutex.h"

namespace millrace {

/// Thread-safe. Post never blocks, so its callers have to keep the queue short.
class TaskQueue {
 public:
  /// Adds a task. Ignored after Close.
  void Post(std::function<void()> task) {
    MutexLock lock(mutex_);
    if (closed_) return;
    tasks_.push_back(std::move(task));
    changed_.NotifyOne();
  }

  /// Waits for tasks and takes all of them, in order. Empty if `until` comes first, or if the queue
  /// is closed and empty.
  std::deque<std::function<void()>> TakeAll(std::chrono::steady_clock::time_point until) {
    MutexLock lock(mutex_);
    while (tasks_.empty() && !closed_) {
      const auto left = until - std::chrono::steady_clock::now();
      if (left.count() <= 0) break;
      changed_.WaitFor(mutex_, left);
    }
    return std::exchange(tasks_, {});
  }

  /// Refuses all later tasks. Tasks that were posted before stay in the queue.
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
