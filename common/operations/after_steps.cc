#include "common/operations/after_steps.h"

#include <algorithm>
#include <limits>

#include <fmt/core.h>

#include "common/operations/axes.h"
#include "common/parameters/make_parameter.h"

namespace millrace {
namespace {

DType AsComputed(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
}

std::vector<std::string> DTypeNames() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kDTypes; ++i) names.emplace_back(DTypeName(static_cast<DType>(i)));
  return names;
}

Status AppendSqueeze(const TensorType& type, std::vector<LoopStep>& steps) {
  if (type.inner.empty() || type.inner.back() != 1) {
    return InvalidArgument(fmt::format("squeeze: expected a last fixed axis of extent 1, got {}",
                                       DescribeTensorType(type)));
  }
  LoopStep step{type, MapStep{}};
  step.output.inner.pop_back();
  steps.push_back(std::move(step));
  return OkStatus();
}

/// Whether an integer type has the number.
bool Has(DType dtype, std::int64_t number) {
  return number < 0 ? number >= DTypeMin(dtype)
                    : static_cast<std::uint64_t>(number) <= DTypeMax(dtype);
}

/// The numbers of `scale` or `offset`, one or as many as a unit has values.
Status ReadNumbers(const Params& params, std::string_view name, const TensorType& type,
                   DType compute, std::vector<ParamNumber>& out) {
  if (!params.is_set(name)) return OkStatus();
  const std::vector<ParamNumber> numbers = params.GetNumbers(name);
  for (const ParamNumber& number : numbers) {
    if (IsFloat(compute)) continue;
    const auto* const integer = std::get_if<std::int64_t>(&number);
    if (integer == nullptr || !Has(compute, *integer)) {
      return InvalidArgument(
          fmt::format("{}: the values are computed as {}, which has no {}; write another dtype",
                      name, DTypeName(compute),
                      integer != nullptr ? fmt::format("{}", *integer)
                                         : fmt::format("{}", std::get<double>(number))));
    }
  }
  if (!params.Is<std::vector<std::int64_t>>(name) && !params.Is<std::vector<ParamNumber>>(name)) {
    out = numbers;
    return OkStatus();
  }
  const std::uint64_t last = type.inner.empty() ? 0 : type.inner.back();
  if (numbers.size() != last) {
    return InvalidArgument(
        fmt::format("{}: expected one number, or one for each element of the last "
                    "axis of {}, got {}",
                    name, DescribeTensorType(type), numbers.size()));
  }
  const std::uint64_t unit = type.UnitElements();
  out.reserve(unit);
  for (std::uint64_t i = 0; i < unit; ++i) out.push_back(numbers[i % last]);
  return OkStatus();
}

Status AppendValues(const Params& params, const TensorType& type, std::vector<LoopStep>& steps) {
  LoopStep step{type, ValueStep{}};
  if (params.is_set("dtype")) step.output.dtype = *DTypeFromName(params.GetText("dtype"));
  ValueStep values;
  values.compute = CommonType(type.dtype, step.output.dtype);
  const bool computes = params.is_set("scale") || params.is_set("offset");
  if (computes && values.compute == DType::kBool) {
    return InvalidArgument(fmt::format("{}: a bool has no products and sums; write a dtype",
                                       params.is_set("scale") ? "scale" : "offset"));
  }
  MILLRACE_RETURN_IF_ERROR(ReadNumbers(params, "scale", type, values.compute, values.scale));
  MILLRACE_RETURN_IF_ERROR(ReadNumbers(params, "offset", type, values.compute, values.offset));
  if (!computes && step.output.dtype == type.dtype) return OkStatus();
  step.what = std::move(values);
  steps.push_back(std::move(step));
  return OkStatus();
}

}  // namespace

DType CommonType(DType a, DType b) {
  a = AsComputed(a);
  b = AsComputed(b);
  if (a == b || b == DType::kBool) return a;
  if (a == DType::kBool) return b;
  if (IsFloat(a) && IsFloat(b)) return std::max(a, b);
  if (IsFloat(a) || IsFloat(b)) {
    const DType real = IsFloat(a) ? a : b;
    const DType integer = IsFloat(a) ? b : a;
    return DTypeSize(integer) <= 2 ? real : DType::kFloat64;
  }
  if (IsSigned(a) == IsSigned(b)) return std::max(a, b);
  const DType with_sign = IsSigned(a) ? a : b;
  const DType without = IsSigned(a) ? b : a;
  for (const DType dtype : {DType::kInt16, DType::kInt32}) {
    if (DTypeSize(dtype) >= DTypeSize(with_sign) && DTypeSize(dtype) > DTypeSize(without)) {
      return dtype;
    }
  }
  return DType::kInt64;
}

const std::vector<Parameter>& AfterParameters() {
  static const std::vector<Parameter> parameters = {
      BoolParameter("squeeze", false, "then removes the last fixed axis, whose extent is 1"),
      MayBeEmpty(IntsParameter("shape",
                               "then gives other fixed extents to as many values; one may be -1",
                               -1, kMaxExtent)),
      ParameterOf({ParamType::kNumber, ParamType::kNumbers}, "scale",
                  "then multiplies by a number, or by one for each element of the last axis"),
      ParameterOf({ParamType::kNumber, ParamType::kNumbers}, "offset",
                  "then adds a number, or one for each element of the last axis"),
      WordParameter("dtype", "then converts the values", DTypeNames()),
  };
  return parameters;
}

Status AppendAfterSteps(const Params& params, BoundOperation& bound) {
  TensorType type = bound.output;
  if (params.is_set("squeeze") && params.GetBool("squeeze")) {
    MILLRACE_RETURN_IF_ERROR(AppendSqueeze(type, bound.steps));
    type = bound.steps.back().output;
  }
  if (params.is_set("shape")) {
    MILLRACE_ASSIGN_OR_RETURN(type, Reshaped(type, params.GetInts("shape")));
    bound.steps.push_back({type, MapStep{}});
  }
  MILLRACE_RETURN_IF_ERROR(AppendValues(params, type, bound.steps));
  bound.output = bound.steps.empty() ? bound.output : bound.steps.back().output;
  return OkStatus();
}

}  // namespace millrace
