// The recorded expressions of shared/golden-tensors.
#pragma once

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/skip.h"
#include "tests/unit/common/expr/columns.h"

namespace millrace::test {

using GoldenJson = nlohmann::json;

inline GoldenJson ReadGoldenExpressions() {
  const std::string path = SharedDirOrSkip() + "/golden-tensors/expr.json";
  std::ifstream file(path);
  if (!file) SkipTest("no file " + path);
  return GoldenJson::parse(file);
}

inline double Float(const GoldenJson& value) {
  return std::strtod(value.get<std::string>().c_str(), nullptr);
}

template <class T>
std::vector<T> Floats(const GoldenJson& values) {
  std::vector<T> floats;
  for (const GoldenJson& value : values) floats.push_back(static_cast<T>(Float(value)));
  return floats;
}

inline std::vector<Column> GoldenColumns(const GoldenJson& golden) {
  std::vector<Column> columns;
  for (const auto& [name, column] : golden["columns"].items()) {
    const DType dtype = DTypeFromName(column["dtype"].get<std::string>()).value();
    const GoldenJson& values = column["values"];
    switch (dtype) {
      case DType::kInt64:
        columns.push_back(MakeColumn(name, dtype, values.get<std::vector<std::int64_t>>()));
        break;
      case DType::kInt16:
        columns.push_back(MakeColumn(name, dtype, values.get<std::vector<std::int16_t>>()));
        break;
      case DType::kFloat32:
        columns.push_back(MakeColumn(name, dtype, Floats<float>(values)));
        break;
      case DType::kFloat64:
        columns.push_back(MakeColumn(name, dtype, Floats<double>(values)));
        break;
      default:
        columns.push_back(MakeColumn(name, dtype, values.get<std::vector<std::uint8_t>>()));
    }
  }
  return columns;
}

inline ExpressionConstants GoldenConstants(const GoldenJson& golden) {
  ExpressionConstants constants;
  for (const auto& [name, value] : golden["with"].items()) {
    if (value.is_number_float()) {
      constants[name] = value.get<double>();
    } else {
      constants[name] = value.get<std::int64_t>();
    }
  }
  return constants;
}

/// How many representable values lie between two floats. Zeros of different signs are 1 apart, so
/// that they differ.
template <class T, class Bits>
std::uint64_t Distance(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : ~0u;
  const auto place = [](T x) {
    const auto bits = std::bit_cast<Bits>(x);
    constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
    return (bits & kSign) != 0 ? static_cast<Bits>(kSign - 1 - (bits & ~kSign))
                               : static_cast<Bits>(bits + kSign);
  };
  return place(a) > place(b) ? place(a) - place(b) : place(b) - place(a);
}

/// Checks the bytes of a result against the recorded values of a case.
inline void CheckValues(const GoldenJson& one, DType type, const std::vector<std::byte>& bytes) {
  const auto ulp = one["ulp"].get<std::uint64_t>();
  const GoldenJson& values = one["values"];
  const auto check = [&](const auto& got, const auto& expected, auto distance) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i, got[i], expected[i]);
      CHECK(distance(got[i], expected[i]) <= ulp);
    }
  };
  switch (type) {
    case DType::kBool:
      CHECK(ValuesOf<std::uint8_t>(bytes) == values.get<std::vector<std::uint8_t>>());
      break;
    case DType::kInt64:
      CHECK(ValuesOf<std::int64_t>(bytes) == values.get<std::vector<std::int64_t>>());
      break;
    case DType::kFloat32:
      check(ValuesOf<float>(bytes), Floats<float>(values), Distance<float, std::uint32_t>);
      break;
    default:
      check(ValuesOf<double>(bytes), Floats<double>(values), Distance<double, std::uint64_t>);
  }
}

}  // namespace millrace::test
