// A tensor in memory: its type, its values and its splits.
//
// A view owns nothing; type and memory have to outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/tensor/tensor_type.h"

namespace millrace {

struct TensorView {
  const TensorType* type = nullptr;
  std::uint64_t rows = 0;
  /// The units one after another, row-major. They begin at a multiple of 8 bytes.
  std::span<const std::byte> values;
  /// For a ragged tensor, rows + 1 numbers from 0, never falling: row r has the elements
  /// [splits[r], splits[r + 1]).
  std::span<const std::int64_t> splits = {};

  /// Rows, or the elements of all rows together if the tensor is ragged.
  std::uint64_t units() const {
    return type->ragged ? static_cast<std::uint64_t>(splits.back()) : rows;
  }
};

}  // namespace millrace
