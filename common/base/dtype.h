// The types of a tensor's values.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace {

/// The numbers are written in batches (docs/formats/batch.md), so they never change.
enum class DType : std::uint8_t {
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kBool,      // a byte: 0 or 1
  kFloat16,   // IEEE 754 binary16
  kBFloat16,  // the upper half of a float32
  kFloat32,
  kFloat64
};
inline constexpr std::size_t kDTypes = 13;

/// Bytes of one value.
std::uint32_t DTypeSize(DType dtype);
/// "uint8", "bool", "bfloat16", and so on, as numpy names them.
std::string_view DTypeName(DType dtype);
/// Empty if no type has that name.
std::optional<DType> DTypeFromName(std::string_view name);

/// Whether the type is one of the eight integers; bool is not.
constexpr bool IsInteger(DType dtype) { return dtype <= DType::kInt64; }
/// Whether the type is an integer with a sign.
constexpr bool IsSigned(DType dtype) { return dtype >= DType::kInt8 && dtype <= DType::kInt64; }
constexpr bool IsFloat(DType dtype) { return dtype >= DType::kFloat16; }

/// The least and the greatest value. REQUIRES: IsInteger(dtype).
std::int64_t DTypeMin(DType dtype);
std::uint64_t DTypeMax(DType dtype);
/// The narrowest integer that holds [min, max]; an unsigned one if min >= 0.
DType NarrowestDType(std::int64_t min, std::uint64_t max);

}  // namespace millrace
