// Which ranges of examples are measured, given to a worker, or open.
//
// Plain data. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/base/ids.h"

namespace millrace {

/// Ranges are numbered from 0; range r begins at example r * kMeasuredRange.
class RangeTable {
 public:
  explicit RangeTable(std::uint64_t examples = 0);

  std::uint64_t examples() const { return examples_; }
  std::uint64_t ranges() const { return done_.size(); }
  /// Number of examples of a range.
  std::uint64_t SizeOf(std::uint64_t range) const;

  bool IsDone(std::uint64_t range) const { return done_[range]; }
  /// Number of measured examples.
  std::uint64_t measured() const { return measured_; }
  bool complete() const { return measured_ == examples_; }
  /// The next open ranges, lowest first, at most `most`.
  std::vector<std::uint64_t> Open(std::uint64_t most) const;
  /// The ranges that each worker has been given and that are not measured yet. No set is empty.
  const std::map<WorkerId, std::set<std::uint64_t>>& given() const { return given_; }

  /// REQUIRES: it is the lowest open range.
  void Give(std::uint64_t range, WorkerId worker);
  /// Opens a worker's ranges again.
  void TakeBack(WorkerId worker);
  /// Marks a range as measured, by any worker. REQUIRES: it is not measured yet.
  void Done(std::uint64_t range);

 private:
  std::uint64_t examples_;
  std::uint64_t measured_ = 0;
  std::uint64_t next_ = 0;            // ranges from here on were never given
  std::set<std::uint64_t> returned_;  // open ranges before it
  std::vector<bool> done_;
  std::map<WorkerId, std::set<std::uint64_t>> given_;
};

}  // namespace millrace
