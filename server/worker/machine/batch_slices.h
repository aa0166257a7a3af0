// How the rows of one batch are cut into slices, of about 10 ms each, for threads that build it
// together. The thread that began the batch takes rows from the first on, helpers take them from
// the last on. So the rows of each side follow one another.
//
// If the worker has not built a batch of the plan yet, the time of a row comes from the last slice.
// The first slice is one row then, and no slice has more than twice as many rows as the one before.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>

namespace millrace {

/// Rows of a batch that one thread builds at a time.
struct RowSlice {
  std::size_t first = 0;
  std::size_t rows = 0;
  friend bool operator==(const RowSlice&, const RowSlice&) = default;
};

class BatchSlices {
 public:
  static constexpr double kSliceSeconds = 0.010;
  /// Batches that take less than this are built by one thread. Another thread delays a batch of its
  /// own only if this much work is left.
  static constexpr double kWorthSharing = 0.020;

  /// Whether a batch is to be built in slices. `batch_seconds`: the time of one thread for a batch
  /// of the plan; 0: not known yet.
  static bool MayShare(double batch_seconds) {
    return batch_seconds == 0 || batch_seconds >= kWorthSharing;
  }
  /// Number of slices of such a batch; 1 if its time is not known yet.
  static std::size_t CountOf(std::size_t rows, double batch_seconds);

  BatchSlices(std::size_t rows, double batch_seconds);

  /// The first rows not begun; nullopt if all are begun.
  std::optional<RowSlice> TakeFirst();
  /// The last rows not begun. REQUIRES: may_be_helped().
  RowSlice TakeLast();
  /// A slice has ended. After a failure only the rows below it are built: the error of the lowest
  /// row counts.
  void Ended(const RowSlice& slice, double seconds, bool ok);

  bool has_left() const { return left() > 0; }
  /// Rows are left to begin, and it is known how long they take.
  bool may_be_helped() const { return left() > 0 && row_seconds_ > 0; }
  /// The time of one thread for the rows not begun.
  double seconds_left() const { return static_cast<double>(left()) * row_seconds_; }
  int running() const { return running_; }
  /// Whether all rows that are to be built are built.
  bool ended() const { return running_ == 0 && left() == 0; }

 private:
  std::size_t left() const { return first_ < end_ ? end_ - first_ : 0; }

  std::size_t first_ = 0;  // of the rows not begun
  std::size_t end_;
  std::size_t slice_rows_ = 1;
  double row_seconds_ = 0;  // 0: not known yet
  bool learns_;             // from each slice
  int running_ = 0;
};

}  // namespace millrace
