// The progress of work over the bytes of a dataset.
#pragma once

#include <cstdint>
#include <functional>

#include "common/system/mutex.h"

namespace millrace {

/// Progress of the building of an index, or of other work over a dataset's files.
struct IndexProgress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
};

/// Counts bytes done and reports the progress. Thread-safe.
class ProgressCount {
 public:
  using Report = std::function<void(const IndexProgress&)>;

  /// `report` may be empty. It must outlive the object, together with everything that it refers to.
  ProgressCount(const Report& report, std::uint64_t bytes_total)
      : report_(report), now_{.bytes_done = 0, .bytes_total = bytes_total} {}

  void Add(std::uint64_t bytes) {
    MutexLock lock(mutex_);
    now_.bytes_done += bytes;
    if (report_) report_(now_);
  }

 private:
  const Report& report_;
  Mutex mutex_;
  IndexProgress now_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
