#include "common/transport/strand.h"

#include <utility>

namespace millrace {

Executor::Executor(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

Executor::~Executor() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void Executor::Post(std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.NotifyOne();
}

void Executor::Run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (tasks_.empty() && !stopping_) changed_.Wait(mutex_);
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.Unlock();
    task();
    task = nullptr;
    lock.Lock();
  }
}

void Strand::Post(std::function<void()> task) {
  MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  ScheduleIfIdle();
}

void Strand::SetPaused(bool paused) {
  MutexLock lock(mutex_);
  paused_ = paused;
  ScheduleIfIdle();
}

void Strand::ScheduleIfIdle() {
  if (scheduled_ || paused_ || tasks_.empty()) return;
  scheduled_ = true;
  executor_.Post([self = shared_from_this()] { self->RunOne(); });
}

void Strand::RunOne() {
  std::function<void()> task;
  {
    MutexLock lock(mutex_);
    if (!paused_ && !tasks_.empty()) {
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
  }
  if (task) task();
  task = nullptr;
  MutexLock lock(mutex_);
  scheduled_ = false;
  ScheduleIfIdle();
}

}  // namespace millrace
