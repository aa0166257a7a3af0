#include "common/base/dtype.h"

#include <array>
#include <limits>

namespace millrace {
namespace {

struct NamedType {
  DType dtype;
  std::string_view name;
  std::uint32_t size;
};

// In the order of their numbers.
constexpr std::array kAllTypes = {
    NamedType{DType::kUint8, "uint8", 1},       NamedType{DType::kUint16, "uint16", 2},
    NamedType{DType::kUint32, "uint32", 4},     NamedType{DType::kUint64, "uint64", 8},
    NamedType{DType::kInt8, "int8", 1},         NamedType{DType::kInt16, "int16", 2},
    NamedType{DType::kInt32, "int32", 4},       NamedType{DType::kInt64, "int64", 8},
    NamedType{DType::kBool, "bool", 1},         NamedType{DType::kFloat16, "float16", 2},
    NamedType{DType::kBFloat16, "bfloat16", 2}, NamedType{DType::kFloat32, "float32", 4},
    NamedType{DType::kFloat64, "float64", 8}};

constexpr bool IsInOrder() {
  for (std::size_t i = 0; i < kAllTypes.size(); ++i) {
    if (static_cast<std::size_t>(kAllTypes[i].dtype) != i) return false;
  }
  return kAllTypes.size() == kDTypes;
}
static_assert(IsInOrder());

constexpr int Bits(DType dtype) {
  return static_cast<int>(8 * kAllTypes[static_cast<std::size_t>(dtype)].size);
}

}  // namespace

std::uint32_t DTypeSize(DType dtype) {
  const auto i = static_cast<std::size_t>(dtype);
  return i < kAllTypes.size() ? kAllTypes[i].size : 0;
}

std::string_view DTypeName(DType dtype) {
  const auto i = static_cast<std::size_t>(dtype);
  return i < kAllTypes.size() ? kAllTypes[i].name : "unknown";
}

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const NamedType& one : kAllTypes) {
    if (one.name == name) return one.dtype;
  }
  return std::nullopt;
}

std::int64_t DTypeMin(DType dtype) {
  if (!IsSigned(dtype)) return 0;
  return std::numeric_limits<std::int64_t>::min() >> (64 - Bits(dtype));
}

std::uint64_t DTypeMax(DType dtype) {
  const std::uint64_t all = std::numeric_limits<std::uint64_t>::max() >> (64 - Bits(dtype));
  return IsSigned(dtype) ? all >> 1 : all;
}

DType NarrowestDType(std::int64_t min, std::uint64_t max) {
  const int first = static_cast<int>(min >= 0 ? DType::kUint8 : DType::kInt8);
  for (int i = first; i < first + 3; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (min >= DTypeMin(dtype) && max <= DTypeMax(dtype)) return dtype;
  }
  return static_cast<DType>(first + 3);
}

}  // namespace millrace
