#include "common/expr/loads.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "common/tensor/convert.h"

namespace millrace::expr_internal {
namespace {

/// The value that computations begin with: integers and bools as int64, small floats as float32.
template <class To, class From>
To Begin(From value) {
  if constexpr (std::is_floating_point_v<From>) {
    return ConvertValue<To>(value);
  } else if constexpr (std::is_same_v<From, Float16> || std::is_same_v<From, BFloat16>) {
    return ConvertValue<To>(ConvertValue<float>(value));
  } else if constexpr (sizeof(From) < 8) {
    return ConvertValue<To>(value);
  } else {
    return ConvertValue<To>(ConvertValue<std::int64_t>(value));
  }
}

template <class To, class From>
void LoadEach(void* out, const std::byte* column, std::size_t first, std::size_t count) {
  auto* __restrict to = static_cast<To*>(out);
  const auto* __restrict from = reinterpret_cast<const From*>(column) + first;
  for (std::size_t i = 0; i < count; ++i) to[i] = Begin<To>(from[i]);
}

template <class To, class From>
void LoadSame(void* out, const std::byte* column, std::size_t first, std::size_t count) {
  auto* to = static_cast<To*>(out);
  const To value = Begin<To>(reinterpret_cast<const From*>(column)[first]);
  for (std::size_t i = 0; i < count; ++i) to[i] = value;
}

template <class From>
Loads LoadsFrom(Machine to) {
  switch (to) {
    case Machine::kInt64:
      return {LoadEach<std::int64_t, From>, LoadSame<std::int64_t, From>};
    case Machine::kFloat32:
      return {LoadEach<float, From>, LoadSame<float, From>};
    default:
      return {LoadEach<double, From>, LoadSame<double, From>};
  }
}

template <class T>
void StoreFloats(const void* from, std::byte* out, std::size_t count) {
  const auto* __restrict values = static_cast<const T*>(from);
  auto* __restrict to = reinterpret_cast<T*>(out);
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = values[i] == values[i] ? values[i] : std::numeric_limits<T>::quiet_NaN();
  }
}

}  // namespace

Loads FindLoads(DType dtype, Machine to) {
  switch (dtype) {
    case DType::kUint8:
      return LoadsFrom<std::uint8_t>(to);
    case DType::kUint16:
      return LoadsFrom<std::uint16_t>(to);
    case DType::kUint32:
      return LoadsFrom<std::uint32_t>(to);
    case DType::kUint64:
      return LoadsFrom<std::uint64_t>(to);
    case DType::kInt8:
      return LoadsFrom<std::int8_t>(to);
    case DType::kInt16:
      return LoadsFrom<std::int16_t>(to);
    case DType::kInt32:
      return LoadsFrom<std::int32_t>(to);
    case DType::kInt64:
      return LoadsFrom<std::int64_t>(to);
    case DType::kBool:
      return LoadsFrom<Bool8>(to);
    case DType::kFloat16:
      return LoadsFrom<Float16>(to);
    case DType::kBFloat16:
      return LoadsFrom<BFloat16>(to);
    case DType::kFloat32:
      return LoadsFrom<float>(to);
    case DType::kFloat64:
      return LoadsFrom<double>(to);
  }
  return {};
}

bool LiesAsRegister(DType dtype, Machine machine) {
  switch (machine) {
    case Machine::kInt64:
      return dtype == DType::kInt64 || dtype == DType::kUint64;
    case Machine::kFloat32:
      return dtype == DType::kFloat32;
    default:
      return dtype == DType::kFloat64;
  }
}

void Store(DType type, const void* from, std::byte* out, std::size_t count) {
  switch (type) {
    case DType::kBool: {
      const auto* bools = static_cast<const std::int64_t*>(from);
      auto* to = reinterpret_cast<std::uint8_t*>(out);
      for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(bools[i]);
      break;
    }
    case DType::kFloat32:
      StoreFloats<float>(from, out, count);
      break;
    case DType::kFloat64:
      StoreFloats<double>(from, out, count);
      break;
    default:
      std::memcpy(out, from, count * sizeof(std::int64_t));
  }
}

}  // namespace millrace::expr_internal
