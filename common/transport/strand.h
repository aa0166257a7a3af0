// Threads that run small tasks, and strands. The tasks of one strand run one after another, in
// order.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/system/mutex.h"

namespace millrace {

/// A few threads with one queue. Thread-safe. The destructor runs the tasks that are queued, and
/// joins.
class Executor {
 public:
  explicit Executor(int threads);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void Post(std::function<void()> task);

 private:
  void Run();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ MILLRACE_GUARDED_BY(mutex_);
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

/// Runs its tasks one after another on an Executor. Thread-safe. The executor has to outlive it.
class Strand : public std::enable_shared_from_this<Strand> {
 public:
  explicit Strand(Executor& executor) : executor_(executor) {}

  void Post(std::function<void()> task);
  /// While it is paused, tasks are kept and not run.
  void SetPaused(bool paused);

 private:
  void RunOne();
  void ScheduleIfIdle() MILLRACE_REQUIRES(mutex_);

  Executor& executor_;
  Mutex mutex_;
  std::deque<std::function<void()>> tasks_ MILLRACE_GUARDED_BY(mutex_);
  bool scheduled_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool paused_ MILLRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace
