// stack: tensors of one type one after another along a new axis, as numpy.stack.

#include <fmt/core.h>

#include "common/operations/join_kernels.h"
#include "common/operations/operation.h"
#include "common/parameters/make_parameter.h"

namespace millrace {

OperationType StackOperation() {
  OperationType operation;
  operation.name = "stack";
  operation.help = "tensors of one type one after another along a new axis";
  operation.max_inputs = 1024;
  operation.parameters = {
      IntParameter(
          "axis", 1,
          "place of the new axis; axis 0 is the rows, and negative ones count from the end",
          std::nullopt),
  };
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    const TensorType& first = context.inputs.front();
    for (const TensorType& input : context.inputs) {
      if (input != first) {
        return InvalidArgument(fmt::format("stack: expected inputs of one type, got {} and {}",
                                           DescribeTensorType(first), DescribeTensorType(input)));
      }
    }
    const std::int64_t axis = context.params.GetInt("axis");
    const auto rank = static_cast<std::int64_t>(first.rank()) + 1;
    const std::int64_t resolved = axis < 0 ? axis + rank : axis;
    const std::int64_t least = first.ragged ? 2 : 1;
    if (resolved < least || resolved >= rank) {
      return InvalidArgument(
          fmt::format("axis: expected an axis from {} to {}, got {}", least, rank - 1, axis));
    }
    const auto index = static_cast<std::size_t>(resolved - least);
    std::uint64_t before = 1;
    for (std::size_t i = 0; i < index; ++i) before *= first.inner[i];
    BoundOperation bound;
    bound.kernel_output = first;
    bound.kernel_output.inner.insert(
        bound.kernel_output.inner.begin() + static_cast<std::ptrdiff_t>(index),
        static_cast<std::uint32_t>(context.inputs.size()));
    bound.kernel = std::make_shared<JoinUnits>(
        "stack", std::vector<std::uint64_t>(context.inputs.size(), first.UnitBytes() / before),
        before);
    return bound;
  };
  return operation;
}

}  // namespace millrace
