// concat: tensors one after another along an axis, as numpy.concatenate. Along a ragged axis, each
// row has the elements of the first input, then those of the second one, and so on.

#include <fmt/core.h>

#include "common/operations/axes.h"
#include "common/operations/join_kernels.h"
#include "common/operations/operation.h"

namespace millrace {
namespace {

Status Mismatch(const TensorType& first, const TensorType& other) {
  return InvalidArgument(fmt::format("concat: {} and {} differ in more than the extent of the axis",
                                     DescribeTensorType(first), DescribeTensorType(other)));
}

}  // namespace

OperationType ConcatOperation() {
  OperationType operation;
  operation.name = "concat";
  operation.help = "tensors of one dtype one after another along an axis";
  operation.max_inputs = 1024;
  operation.parameters = {AxisParameter()};
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    const TensorType& first = context.inputs.front();
    MILLRACE_ASSIGN_OR_RETURN(const std::size_t resolved,
                              ResolveAxis(first, context.params.GetInt("axis")));
    BoundOperation bound;
    bound.kernel_output = first;
    if (first.ragged && resolved == 1) {
      for (const TensorType& input : context.inputs) {
        if (input != first) return Mismatch(first, input);
      }
      bound.kernel = std::make_shared<JoinRows>();
      return bound;
    }
    MILLRACE_ASSIGN_OR_RETURN(const InnerAxis axis,
                              ResolveInnerAxis(first, static_cast<std::int64_t>(resolved)));
    std::uint64_t extent = 0;
    std::vector<std::uint64_t> piece_bytes;
    for (const TensorType& input : context.inputs) {
      TensorType same = input;
      if (same.inner.size() == first.inner.size()) same.inner[axis.index] = first.inner[axis.index];
      if (same != first) return Mismatch(first, input);
      extent += input.inner[axis.index];
      piece_bytes.push_back(input.inner[axis.index] * axis.after * DTypeSize(input.dtype));
    }
    if (extent > kMaxExtent) {
      return InvalidArgument(fmt::format("concat: an axis of {} is too long", extent));
    }
    bound.kernel_output.inner[axis.index] = static_cast<std::uint32_t>(extent);
    bound.kernel = std::make_shared<JoinUnits>("concat", std::move(piece_bytes), axis.before);
    return bound;
  };
  return operation;
}

}  // namespace millrace
