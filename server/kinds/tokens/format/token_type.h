// The integers that files of tokens hold, and those as which tokens travel.
//
// Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/dtype.h"

namespace millrace {

/// A token is 0 or more, and at most this, so that it fits into an int32.
inline constexpr std::uint64_t kLargestToken = (std::uint64_t{1} << 31) - 1;

/// Whether a file of tokens may hold such values.
constexpr bool IsTokenType(DType dtype) { return IsInteger(dtype) && dtype != DType::kUint64; }
/// The names of these types, for messages.
inline constexpr const char* kTokenTypes = "uint8, uint16, uint32, int8, int16, int32 or int64";

/// The type as which tokens of a file travel: unsigned and as wide as the file's; int64: uint32.
constexpr DType TravelType(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
      return DType::kUint8;
    case DType::kUint16:
    case DType::kInt16:
      return DType::kUint16;
    default:
      return DType::kUint32;
  }
}

/// The largest token that a file may have. REQUIRES: IsTokenType(dtype).
inline std::uint64_t LargestTokenOf(DType dtype) {
  return std::min(DTypeMax(dtype), kLargestToken);
}

}  // namespace millrace
