// view: the same bytes as values of another type, little endian. A bool is whether a byte differs
// from 0, because batches have no other bools than 0 and 1.

#include <fmt/core.h>

#include "common/operations/operation.h"
#include "common/parameters/make_parameter.h"

namespace millrace {

OperationType ViewOperation() {
  OperationType operation;
  operation.name = "view";
  operation.help =
      "the same bytes as values of another type, little endian; the last axis has more "
      "or fewer of them";
  operation.parameters = {Required(NonEmptyTextParameter("dtype", "the other type"))};
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    const TensorType& input = context.inputs.front();
    const std::optional<DType> dtype = DTypeFromName(context.params.GetText("dtype"));
    if (!dtype) {
      return InvalidArgument(
          fmt::format("dtype: '{}' is no type", context.params.GetText("dtype")));
    }
    const bool as_bools = *dtype == DType::kBool && input.dtype != DType::kBool;
    LoopStep step{input, ViewStep{}};
    step.output.dtype = as_bools ? DType::kUint8 : *dtype;
    const std::uint32_t from = DTypeSize(input.dtype);
    const std::uint32_t to = DTypeSize(*dtype);
    if (from != to) {
      const std::uint64_t bytes =
          input.inner.empty() ? 0 : std::uint64_t{input.inner.back()} * from;
      if (bytes == 0 || bytes % to != 0 || bytes / to > kMaxExtent) {
        return InvalidArgument(
            fmt::format("dtype: {} needs a fixed last axis of a multiple of {} "
                        "bytes, got {}",
                        DTypeName(*dtype), to, DescribeTensorType(input)));
      }
      step.output.inner.back() = static_cast<std::uint32_t>(bytes / to);
    }
    BoundOperation bound;
    bound.steps.push_back(step);
    if (as_bools) {
      step.output.dtype = DType::kBool;
      step.what = ValueStep{};
      bound.steps.push_back(step);
    }
    return bound;
  };
  return operation;
}

}  // namespace millrace
