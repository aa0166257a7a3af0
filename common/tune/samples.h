// Means of samples, and how far they can be trusted.
//
// Thread-compatible value types.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace millrace::tune {

/// The mean of numbers that were seen, and its standard error.
class Mean {
 public:
  void Add(double value) {
    // Welford's algorithm ("Note on a method for calculating corrected sums of squares", 1962).
    ++count_;
    const double apart = value - mean_;
    mean_ += apart / static_cast<double>(count_);
    squares_ += apart * (value - mean_);
  }
  std::size_t count() const { return count_; }
  double value() const { return mean_; }
  /// 0 for fewer than two numbers.
  double error() const {
    if (count_ < 2) return 0;
    const auto n = static_cast<double>(count_);
    return std::sqrt(squares_ / (n - 1) / n);
  }

 private:
  std::size_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of squared distances from the mean
};

/// Whether `after` is above `before` by more than noise explains, and by more than `least`: the
/// distance is over twice its standard error.
inline bool Above(const Mean& after, const Mean& before, double least) {
  const double noise = 2 * std::hypot(after.error(), before.error());
  return after.value() - before.value() > std::max(noise, least);
}

}  // namespace millrace::tune
