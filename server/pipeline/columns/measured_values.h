// The values of one measured column, as narrow as they allow.
//
// Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace millrace {

class MeasuredValues {
 public:
  /// What stands for the value of an example that cannot be built.
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// REQUIRES: each value is kNone or below 2^62.
  explicit MeasuredValues(std::span<const std::uint64_t> values);

  /// Number of examples.
  std::uint64_t size() const { return size_; }
  /// Whether an example has a value. REQUIRES: id < size().
  bool Has(std::uint64_t id) const { return Stored(id) != 0; }
  /// The value of an example, 0 if it has none. REQUIRES: id < size().
  std::int64_t At(std::uint64_t id) const {
    const std::uint64_t stored = Stored(id);
    return stored == 0 ? 0 : static_cast<std::int64_t>(stored - 1);
  }
  /// Reads the values of consecutive examples. REQUIRES: there are so many.
  void Read(std::uint64_t first, std::span<std::int64_t> values) const;

  /// Bytes of a value: 1, 2, 4 or 8.
  unsigned width() const { return width_; }
  /// For each example its value plus 1, or 0 if it has none; little endian, without gaps.
  std::span<const std::uint8_t> bytes() const { return bytes_; }
  /// Values from such bytes. InvalidArgument unless the width is possible, the size is a multiple
  /// of it, and each value is below 2^62.
  static Result<MeasuredValues> FromBytes(std::vector<std::uint8_t> bytes, unsigned width);

 private:
  MeasuredValues() = default;

  std::uint64_t Stored(std::uint64_t id) const {
    std::uint64_t stored = 0;
    for (unsigned byte = 0; byte < width_; ++byte) {
      stored |= std::uint64_t{bytes_[id * width_ + byte]} << (8 * byte);
    }
    return stored;
  }

  std::uint64_t size_ = 0;
  unsigned width_ = 1;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace millrace
