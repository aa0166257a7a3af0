#include "server/worker/machine/batch_slices.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

/// Rows for about the time of a slice.
std::size_t RowsOfSlice(double row_seconds) {
  constexpr double kMost = 1u << 30;
  return static_cast<std::size_t>(
      std::clamp(std::ceil(BatchSlices::kSliceSeconds / row_seconds), 1.0, kMost));
}

}  // namespace

std::size_t BatchSlices::CountOf(std::size_t rows, double batch_seconds) {
  if (rows == 0 || batch_seconds < kWorthSharing) return 1;
  const std::size_t each = RowsOfSlice(batch_seconds / static_cast<double>(rows));
  return (rows + each - 1) / each;
}

BatchSlices::BatchSlices(std::size_t rows, double batch_seconds)
    : end_(rows), learns_(batch_seconds == 0) {
  if (learns_ || rows == 0) return;
  row_seconds_ = batch_seconds / static_cast<double>(rows);
  slice_rows_ = RowsOfSlice(row_seconds_);
}

std::optional<RowSlice> BatchSlices::TakeFirst() {
  if (left() == 0) return std::nullopt;
  const RowSlice slice{first_, std::min(slice_rows_, left())};
  first_ += slice.rows;
  ++running_;
  return slice;
}

RowSlice BatchSlices::TakeLast() {
  const std::size_t rows = std::min(slice_rows_, left());
  end_ -= rows;
  ++running_;
  return {end_, rows};
}

void BatchSlices::Ended(const RowSlice& slice, double seconds, bool ok) {
  --running_;
  if (!ok) end_ = std::min(end_, slice.first);
  if (!learns_ || slice.rows == 0) return;
  // A clock that stands still, as a test's may, says that rows are fast.
  row_seconds_ = std::max(seconds, 1e-9) / static_cast<double>(slice.rows);
  slice_rows_ = std::min(RowsOfSlice(row_seconds_), 2 * slice.rows);
}

}  // namespace millrace
