// The values by which buckets and balance sort rows.
#pragma once

#include <cstdint>
#include <span>

#include "server/source/order.h"

namespace millrace {

/// A value of each row. Immutable; thread-safe.
class RowValues {
 public:
  virtual ~RowValues() = default;
  /// Reads the values of rows, in any order; each is at most kMaxOrderValue. REQUIRES: both spans
  /// have the same length.
  virtual void Read(std::span<const std::uint64_t> rows, std::span<std::uint64_t> values) const = 0;
};

}  // namespace millrace
