#include "common/base/dtype.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>

namespace millrace {
namespace {

TEST_CASE("the narrowest dtype holds its bounds and no narrower one does", "[dtype]") {
  CHECK(NarrowestDType(0, 0) == DType::kUint8);
  CHECK(NarrowestDType(0, 255) == DType::kUint8);
  CHECK(NarrowestDType(0, 256) == DType::kUint16);
  CHECK(NarrowestDType(0, 65'535) == DType::kUint16);
  CHECK(NarrowestDType(0, 65'536) == DType::kUint32);
  CHECK(NarrowestDType(0, 0xffff'ffffu) == DType::kUint32);
  CHECK(NarrowestDType(0, std::uint64_t{1} << 32) == DType::kUint64);
  CHECK(NarrowestDType(-1, 127) == DType::kInt8);
  CHECK(NarrowestDType(-1, 128) == DType::kInt16);
  CHECK(NarrowestDType(-129, 0) == DType::kInt16);
  CHECK(NarrowestDType(-1, 32'768) == DType::kInt32);
  CHECK(NarrowestDType(-1, std::uint64_t{1} << 31) == DType::kInt64);
  CHECK(NarrowestDType(std::numeric_limits<std::int64_t>::min(), 0) == DType::kInt64);
}

TEST_CASE("the range of a dtype is that of its C++ type", "[dtype]") {
  CHECK(DTypeMin(DType::kUint64) == 0);
  CHECK(DTypeMax(DType::kUint64) == std::numeric_limits<std::uint64_t>::max());
  CHECK(DTypeMin(DType::kInt8) == -128);
  CHECK(DTypeMax(DType::kInt8) == 127);
  CHECK(DTypeMin(DType::kInt64) == std::numeric_limits<std::int64_t>::min());
  CHECK(DTypeMax(DType::kInt64) == std::uint64_t{std::numeric_limits<std::int64_t>::max()});
  CHECK(DTypeMax(DType::kUint16) == 65'535);
}

TEST_CASE("types are found by their names, and by no others", "[dtype]") {
  for (std::size_t i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK(DTypeFromName(DTypeName(dtype)) == dtype);
  }
  CHECK(DTypeName(DType::kBFloat16) == "bfloat16");
  CHECK(DTypeName(static_cast<DType>(kDTypes)) == "unknown");
  CHECK_FALSE(DTypeFromName("unknown"));
  CHECK_FALSE(DTypeFromName("float"));
}

TEST_CASE("a type's size is in its name", "[dtype]") {
  for (std::size_t i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::kBool) continue;
    const std::string name(DTypeName(dtype));
    const std::string digits = name.substr(name.find_first_of("123456789"));
    CHECK(std::to_string(8 * DTypeSize(dtype)) == digits);
  }
  CHECK(DTypeSize(DType::kBool) == 1);
}

TEST_CASE("a type is an integer, a float or bool", "[dtype]") {
  for (std::size_t i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string name(DTypeName(dtype));
    CHECK(IsInteger(dtype) == (name.find("int") != std::string::npos));
    CHECK(IsSigned(dtype) == (name.rfind("int", 0) == 0));
    CHECK(IsFloat(dtype) == (name.find("float") != std::string::npos));
  }
}

}  // namespace
}  // namespace millrace
