// Stamps that need not be cleared. A set that numbers nodes stores base + number for each of them,
// and `base` grows from graph to graph: stamps of earlier graphs are below it, and count as absent.
#pragma once

#include <cstdint>
#include <limits>

namespace millrace {

/// The base of the stamps. A graph with n numbers has the stamps base … base + n - 1.
class MovingBase {
 public:
  /// Most numbers that one example can have by default.
  static constexpr std::uint32_t kMaxNumbers = 1u << 21;

  /// `max_numbers`: of a graph; at most 2^30.
  explicit MovingBase(std::uint32_t max_numbers = kMaxNumbers) : max_numbers_(max_numbers) {}

  /// Moves the base past a graph whose numbers are below `used`. Returns true if the stamps have
  /// to be cleared now, which happens once in about 2^32 nodes.
  bool Advance(std::uint32_t used) {
    if (std::numeric_limits<std::uint32_t>::max() - base_ < 2 * max_numbers_) {
      base_ = 1;
      return true;
    }
    base_ += used;
    return false;
  }
  std::uint32_t base() const { return base_; }

 private:
  std::uint32_t max_numbers_;
  std::uint32_t base_ = 1;
};

}  // namespace millrace
