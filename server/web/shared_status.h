// One status for all viewers of the page: it is built at most once a second. Requests during a
// build share its answer.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"

namespace millrace {

class SharedStatus {
 public:
  using Text = std::shared_ptr<const std::string>;

  /// `build` may block; it is called from one thread at a time.
  SharedStatus(std::function<Result<Text>()> build, std::shared_ptr<const Clock> clock);

  /// The newest answer, if its build began less than a second ago; otherwise a new one. An error is
  /// an answer too. ResourceExhausted if many wait already: each of them holds a thread of the
  /// server.
  Result<Text> Get();

  /// The most that wait for an answer that is being built.
  static constexpr int kMostWaiting = 8;

 private:
  const std::function<Result<Text>()> build_;
  const std::shared_ptr<const Clock> clock_;
  Mutex mutex_;
  CondVar built_;
  Result<Text> answer_ MILLRACE_GUARDED_BY(mutex_);
  bool building_ MILLRACE_GUARDED_BY(mutex_) = false;
  int waiting_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t answers_ MILLRACE_GUARDED_BY(mutex_) = 0;
  Time begun_ MILLRACE_GUARDED_BY(mutex_);  // of the build of `answer_`
};

}  // namespace millrace
