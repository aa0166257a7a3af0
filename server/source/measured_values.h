// The values of one measured column, in the narrowest type that holds them.
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

/// The type of a column's values. Files and messages use these numbers.
enum class MeasuredType : std::uint8_t {
  kCount = 0,  // a length or the like, below 2^62
  kInt64 = 1,
  kFloat32 = 2,
};

/// Values as they are measured.
struct WideValues {
  MeasuredType type = MeasuredType::kCount;
  std::vector<std::uint64_t> bits;    // of a count below 2^62, an int64 or a float; 0 if absent
  std::vector<std::uint8_t> present;  // for each example 1 if it has a value, otherwise 0

  /// `count` examples without values.
  static WideValues None(MeasuredType type, std::uint64_t count);
  /// Gives an example its value. REQUIRES: the example exists.
  void Set(std::uint64_t id, std::uint64_t value) {
    bits[id] = value;
    present[id] = 1;
  }
};

class MeasuredValues {
 public:
  /// Stands for the count of an example that cannot be built.
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// Counts. REQUIRES: each is kNone or below 2^62.
  explicit MeasuredValues(std::span<const std::uint64_t> values);
  /// REQUIRES: there is a bit for each value, and the rules of WideValues hold.
  explicit MeasuredValues(const WideValues& values);

  MeasuredType type() const { return type_; }
  /// Number of examples.
  std::uint64_t size() const { return size_; }
  /// Whether an example has a value. REQUIRES: id < size().
  bool Has(std::uint64_t id) const {
    return type_ == MeasuredType::kCount ? Stored(id) != 0 : (present_[id / 8] >> id % 8 & 1) != 0;
  }
  /// The value of an example, 0 if it has no value. A float is given as the bits of a float64.
  /// REQUIRES: id < size().
  std::int64_t At(std::uint64_t id) const;
  /// Reads the values of consecutive examples. REQUIRES: the examples exist.
  void Read(std::uint64_t first, std::span<std::int64_t> values) const;
  /// Reads 1 for examples with a value, and 0 for others. REQUIRES: the examples exist.
  void ReadPresence(std::uint64_t first, std::span<std::int64_t> values) const;

  /// Bytes of a value: 1, 2, 4 or 8; 4 for floats.
  unsigned width() const { return width_; }
  /// The values, little endian, without gaps: a count plus 1, or 0 if it is missing; others as they
  /// are, or 0 if missing.
  std::span<const std::uint8_t> bytes() const { return bytes_; }
  /// Empty for counts. Otherwise one bit per example, from the lowest of each byte on: whether it
  /// has a value.
  std::span<const std::uint8_t> present() const { return present_; }
  /// Values from such bytes. InvalidArgument, with the error, if they are not of this form.
  static Result<MeasuredValues> FromBytes(std::vector<std::uint8_t> bytes, unsigned width,
                                          MeasuredType type = MeasuredType::kCount,
                                          std::vector<std::uint8_t> present = {});

 private:
  MeasuredValues() = default;

  /// OK unless an absent example has a nonzero value, or there are bits beyond the last example.
  Status CheckPresence() const;

  std::uint64_t Stored(std::uint64_t id) const {
    std::uint64_t stored = 0;
    for (unsigned byte = 0; byte < width_; ++byte) {
      stored |= std::uint64_t{bytes_[id * width_ + byte]} << (8 * byte);
    }
    return stored;
  }

  MeasuredType type_ = MeasuredType::kCount;
  std::uint64_t size_ = 0;
  unsigned width_ = 1;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint8_t> present_;
};

}  // namespace millrace
