// Axes of tensors, counted as in numpy, and maps from a unit's values to another unit's.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/parameters/parameter.h"
#include "common/tensor/tensor_type.h"

namespace millrace {

/// An axis of a tensor that is neither the rows nor ragged: its place among the inner ones, and how
/// the values of a unit are grouped by it.
struct InnerAxis {
  std::size_t index = 0;     // type.inner[index]
  std::uint64_t before = 1;  // product of the extents before it
  std::uint64_t extent = 1;
  std::uint64_t after = 1;  // product of the extents after it
};

/// The parameter `axis`, which ResolveAxis reads; usually 1.
Parameter AxisParameter();

/// From an axis as a user writes it, from the end if negative, to [0, rank). Axis 0, the rows, is
/// an error. Messages begin with "axis: ".
Result<std::size_t> ResolveAxis(const TensorType& type, std::int64_t axis);

/// Also an error if the axis is the ragged one.
Result<InnerAxis> ResolveInnerAxis(const TensorType& type, std::int64_t axis);

/// The type with other inner extents for as many values; one of `shape` may be -1. Messages begin
/// with "shape: ".
Result<TensorType> Reshaped(const TensorType& type, std::span<const std::int64_t> shape);

/// The map that takes places `index` of an axis.
std::vector<std::uint32_t> TakeMap(const InnerAxis& axis, std::span<const std::uint32_t> index);

}  // namespace millrace
