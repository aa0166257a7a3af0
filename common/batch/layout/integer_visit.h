// From a DType of integers, which is known at run time, to a C++ type, which is known at compile
// time. common/tensor/dtype_visit.h does the same for all types.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/batch/layout/layout.h"

namespace millrace::internal {

/// Calls f with a zero of the C++ type for `dtype`. REQUIRES: IsInteger(dtype).
template <class F>
decltype(auto) VisitInteger(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kUint8:
      return f(std::uint8_t{0});
    case DType::kUint16:
      return f(std::uint16_t{0});
    case DType::kUint32:
      return f(std::uint32_t{0});
    case DType::kUint64:
      return f(std::uint64_t{0});
    case DType::kInt8:
      return f(std::int8_t{0});
    case DType::kInt16:
      return f(std::int16_t{0});
    case DType::kInt32:
      return f(std::int32_t{0});
    default:
      break;
  }
  return f(std::int64_t{0});
}

/// One value of an array of integers, sign-extended. A uint64 value beyond int64 wraps.
inline std::int64_t LoadValue(const std::byte* data, DType dtype, std::size_t element) {
  return VisitInteger(dtype, [&](auto zero) {
    std::memcpy(&zero, data + element * sizeof(zero), sizeof(zero));
    return static_cast<std::int64_t>(zero);
  });
}

/// REQUIRES: data is aligned for T and holds values of T.
template <class T>
std::span<const T> ValuesAs(std::span<const std::byte> data) {
  return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
}

}  // namespace millrace::internal
