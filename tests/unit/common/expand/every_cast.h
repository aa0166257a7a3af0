// A batch with values of every type, and a program that converts and scales them to every other.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "common/batch/batch_writer.h"
#include "common/operations/after_steps.h"
#include "common/tensor/dtype_visit.h"
#include "tests/unit/common/expand/random_program.h"

namespace millrace::test {

/// `rows` values of each type: any bits, so that there are NaNs, infinities and bounds.
inline RandomProgram EveryCast(std::uint64_t seed, std::size_t rows, BufferPool& pool) {
  RandomProgram made;
  const auto name = [](DType dtype) { return std::string(DTypeName(dtype)); };
  for (std::size_t i = 0; i < kDTypes; ++i) {
    TensorSpec spec;
    spec.path = name(static_cast<DType>(i));
    spec.dtype = static_cast<DType>(i);
    spec.dimension = "batch";
    spec.expansion = Expansion::kKeep;
    if (IsInteger(spec.dtype)) {
      spec.min = DTypeMin(spec.dtype);
      spec.max = DTypeMax(spec.dtype);
    }
    made.tensors.push_back(spec);
  }
  made.text.outputs.emplace();
  const auto add = [&](DType from, DType to, const char* how, Params params) {
    const std::string defined = name(from) + "_" + name(to) + how;
    made.text.definitions.push_back({defined, "cast", {name(from)}, std::move(params)});
    made.text.outputs->push_back(defined);
  };
  for (const TensorSpec& from : made.tensors) {
    for (const TensorSpec& to : made.tensors) {
      add(from.dtype, to.dtype, "", Params({{"dtype", to.path}}));
      const DType compute = CommonType(from.dtype, to.dtype);
      if (compute == DType::kBool) continue;
      std::map<std::string, ParamValue> params = {{"dtype", to.path},
                                                      {"offset", std::int64_t{1}}};
      if (IsFloat(compute)) {
        params["scale"] = 1.0 / 3;
      } else {
        params["scale"] = std::int64_t{3};
      }
      add(from.dtype, to.dtype, "_scaled", Params(std::move(params)));
    }
  }
  auto writer = BatchWriter::Create(made.tensors, {}, pool).value();
  writer.Begin({}, 0, 0, static_cast<std::uint32_t>(rows));
  std::mt19937_64 random(seed);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < kDTypes; ++i) {
      std::uint64_t bits = random();
      if (made.tensors[i].dtype == DType::kBool) bits %= 2;
      // Floats of the sizes that integers have are rare among all bits.
      if (IsFloat(made.tensors[i].dtype) && row % 2 == 1) {
        const double value = std::ldexp(static_cast<double>(static_cast<std::int64_t>(bits)),
                                        -static_cast<int>(random() % 64));
        VisitValues(made.tensors[i].dtype, [&](auto zero) {
          const auto number = ConvertValue<decltype(zero)>(value);
          std::memcpy(&bits, &number, sizeof number);
        });
      }
      writer.AppendBytes(
          i, std::as_bytes(std::span(&bits, 1)).first(DTypeSize(made.tensors[i].dtype)));
    }
    writer.EndExample(ExampleId(row));
  }
  made.packed = writer.Seal().value();
  return made;
}

}  // namespace millrace::test
