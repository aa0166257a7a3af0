// The type of a tensor: its dtype and its extents, as text too.
//
// A tensor has rows (examples, nodes, edges, …). In a dense tensor, all rows have the same fixed
// inner extents. In a ragged one, every row is a sequence of its own length, and the elements of
// these sequences have the fixed inner extents. The values of one row of a dense tensor, or of one
// element of a ragged one, are its unit: everything except ragged axes can be computed unit by
// unit.
//
// Texts are written as in pipelines: `float32`, `float32[80]`, `float32[*, 80]`, `bytes[194]`
// (which is uint8[194]), `bytes[*]` and `str` (both uint8[*]). The rows are not part of the text.
//
// Value types and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/result.h"

namespace millrace {

inline constexpr std::uint32_t kMaxExtent = 0x7fff'ffff;
inline constexpr std::size_t kMaxInnerAxes = 7;  // as many as a tensor that travels may have
inline constexpr std::uint64_t kMaxUnitElements = std::uint64_t{1} << 28;

struct TensorType {
  DType dtype = DType::kUint8;
  std::vector<std::uint32_t> inner;  // the fixed extents, each at least 1
  bool ragged = false;               // a row has any number of elements; this axis comes after rows
  std::string rows = "batch";        // the name of the outer dimension

  /// Values of a unit: the product of the inner extents.
  std::uint64_t UnitElements() const;
  std::uint64_t UnitBytes() const { return UnitElements() * DTypeSize(dtype); }
  /// All axes: rows, the ragged axis if there is one, the inner ones.
  std::size_t rank() const { return 1 + (ragged ? 1 : 0) + inner.size(); }

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// Reads a text. InvalidArgument begins with "column N: ", counted from 1, and says what was
/// expected there.
Result<TensorType> ParseTensorType(std::string_view text);

/// The text from which ParseTensorType reads the type back, apart from its rows.
std::string TensorTypeText(const TensorType& type);

/// With the rows, for messages: "uint8[batch, 1552]", "float32[batch, *, 80]".
std::string DescribeTensorType(const TensorType& type);

/// InvalidArgument if the extents are beyond the limits above.
Status CheckTensorType(const TensorType& type);

}  // namespace millrace
