// A mutex and condition variable that clang's thread-safety analysis understands
// (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html). Under GCC the annotations are empty.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define MILLRACE_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define MILLRACE_THREAD_ANNOTATION(x)
#endif

#define MILLRACE_GUARDED_BY(x) MILLRACE_THREAD_ANNOTATION(guarded_by(x))
#define MILLRACE_PT_GUARDED_BY(x) MILLRACE_THREAD_ANNOTATION(pt_guarded_by(x))
#define MILLRACE_REQUIRES(...) MILLRACE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define MILLRACE_EXCLUDES(...) MILLRACE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace millrace {

class MILLRACE_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() MILLRACE_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() MILLRACE_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a Mutex until the end of a scope. Unlock releases it earlier, and Lock takes it again.
class MILLRACE_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) MILLRACE_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() MILLRACE_THREAD_ANNOTATION(release_capability()) {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() MILLRACE_THREAD_ANNOTATION(release_capability()) {
    held_ = false;
    mutex_.unlock();
  }
  void Lock() MILLRACE_THREAD_ANNOTATION(acquire_capability()) {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

/// Condition variable for Mutex. Wait in a loop that tests the condition:
/// `while (!ready_) changed_.Wait(mutex_);`
class CondVar {
 public:
  void Wait(Mutex& mutex) MILLRACE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }

  /// False if `timeout` passed first. Spurious wake-ups are possible in both cases.
  template <class Rep, class Period>
  bool WaitFor(Mutex& mutex, std::chrono::duration<Rep, Period> timeout) MILLRACE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool woken = cv_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }

  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace millrace
