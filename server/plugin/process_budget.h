// Limits how many processes of a plugin may run, over all its objects and jobs.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <stop_token>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/system/mutex.h"

namespace millrace {

/// Owns processes that count. Its methods are called without locks of a budget.
class ProcessHolder {
 public:
  virtual ~ProcessHolder() = default;
  /// Ends a process that has had nothing to do for a moment. False if there is no such process.
  virtual bool GiveUpIdle() = 0;
};

class ProcessBudget : public std::enable_shared_from_this<ProcessBudget> {
 public:
  /// A process is idle for this long before others may have its place.
  static constexpr Duration kIdle = std::chrono::milliseconds(20);
  /// A wanted process works at least this long before it makes room, because starting another one
  /// takes time.
  static constexpr Duration kTurn = std::chrono::seconds(1);

  explicit ProcessBudget(std::size_t processes) : most_(processes) {}

  /// From now on, idle processes of the holder make room for others'.
  void Join(std::weak_ptr<ProcessHolder> holder);

  /// Permission to run a process, until the result and its copies are destroyed. Waits until a
  /// place is free. Cancelled.
  Result<std::shared_ptr<void>> Take(const std::stop_token& stop);

  /// Whether somebody waits for permission.
  bool is_wanted() const;

 private:
  class Permit;

  /// Asks each holder, until one gives up a process.
  void AskHolders();
  void Return();

  const std::size_t most_;
  mutable Mutex mutex_;
  CondVar returned_;
  std::size_t taken_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::size_t waiting_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::vector<std::weak_ptr<ProcessHolder>> holders_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
