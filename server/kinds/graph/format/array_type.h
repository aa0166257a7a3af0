// The type of an array: the type of its values, and its shape.
//
// Values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/result.h"

namespace millrace {

/// The most dimensions that an array of a dataset may have.
inline constexpr std::size_t kMaxArrayDimensions = 8;
/// The largest extent of a dimension, and so the most nodes, edges and bytes of a row.
inline constexpr std::uint64_t kMaxArrayExtent = (std::uint64_t{1} << 48) - 1;

/// Values are in row-major order and little endian.
struct ArrayType {
  DType dtype = DType::kUint8;
  std::vector<std::uint64_t> shape;

  /// Bytes of all values. nullopt if that is more than 2^63 - 1.
  std::optional<std::uint64_t> Bytes() const;
  /// "float32 [1000, 64]"
  std::string ToString() const;

  friend bool operator==(const ArrayType&, const ArrayType&) = default;
};

/// InvalidArgument if the shape has no dimension or too many, an extent is too large, or there are
/// too many bytes.
Status CheckShape(const ArrayType& type);

/// "[1000, 64]", which is also JSON.
std::string ShapeText(std::span<const std::uint64_t> shape);

/// The bytes of a file as text.
inline std::string_view TextOfBytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace millrace
