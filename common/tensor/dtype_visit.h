// From a DType, which is known at run time, to a C++ type, which is known at compile time.
//
// C++17, because devices use it too.
#pragma once

#include <cstdint>

#include "common/base/dtype.h"
#include "common/base/host_device.h"
#include "common/tensor/convert.h"

namespace millrace {

/// Calls f with a zero of the C++ type whose values have the dtype's form in memory.
template <class F>
MILLRACE_HOST_DEVICE decltype(auto) VisitValues(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kUint8:
      return f(std::uint8_t{});
    case DType::kUint16:
      return f(std::uint16_t{});
    case DType::kUint32:
      return f(std::uint32_t{});
    case DType::kUint64:
      return f(std::uint64_t{});
    case DType::kInt8:
      return f(std::int8_t{});
    case DType::kInt16:
      return f(std::int16_t{});
    case DType::kInt32:
      return f(std::int32_t{});
    case DType::kInt64:
      return f(std::int64_t{});
    case DType::kBool:
      return f(Bool8{});
    case DType::kFloat16:
      return f(Float16{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      break;
  }
  return f(double{});
}

}  // namespace millrace
