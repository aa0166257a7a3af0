// Threads that run small tasks, and strands: tasks of one strand run one after another, in order.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/system/mutex.h"

namespace millrace {

/// A few threads and one queue. Thread-safe. The destructor runs what is queued and joins.
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

/// Thread-safe. The executor has to outlive it.
class Strand : public std::enable_shared_from_this<Strand> {
 public:
  explicit Strand(Executor& executor) : executor_(executor) {}

  void Post(std::function<void()> task);
  /// While paused, tasks are kept and not run.
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
