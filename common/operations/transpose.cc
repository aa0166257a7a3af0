// transpose: the fixed axes in another order.

#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include "common/operations/axes.h"
#include "common/operations/operation.h"
#include "common/parameters/make_parameter.h"

namespace millrace {
namespace {

/// Where each value of the output comes from. `axes` are places among the inner axes.
std::vector<std::uint32_t> TransposeMap(const TensorType& input,
                                        const std::vector<std::size_t>& axes) {
  std::vector<std::uint64_t> strides(input.inner.size(), 1);
  for (std::size_t i = input.inner.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * input.inner[i];
  }
  std::vector<std::uint32_t> map = {0};
  for (const std::size_t axis : axes) {
    std::vector<std::uint32_t> next;
    next.reserve(map.size() * input.inner[axis]);
    for (const std::uint32_t first : map) {
      for (std::uint64_t i = 0; i < input.inner[axis]; ++i) {
        next.push_back(static_cast<std::uint32_t>(first + i * strides[axis]));
      }
    }
    map = std::move(next);
  }
  return map;
}

}  // namespace

OperationType TransposeOperation() {
  OperationType operation;
  operation.name = "transpose";
  operation.help = "the axes in another order";
  operation.parameters = {
      Required(MayBeEmpty(
          IntsParameter("axes", "all axes in their new order; it begins with 0, the rows"))),
  };
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    const TensorType& input = context.inputs.front();
    const std::vector<std::int64_t>& axes = context.params.GetInts("axes");
    const std::size_t rank = input.rank();
    std::vector<std::size_t> resolved;
    for (const std::int64_t axis : axes) {
      const std::int64_t place = axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
      resolved.push_back(static_cast<std::size_t>(place));
    }
    std::vector<std::size_t> sorted = resolved;
    std::sort(sorted.begin(), sorted.end());
    std::vector<std::size_t> all(rank);
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (sorted != all) {
      return InvalidArgument(fmt::format("axes: expected each of the {} axes of {} once", rank,
                                         DescribeTensorType(input)));
    }
    const std::size_t first = input.ragged ? 2 : 1;
    for (std::size_t i = 0; i < first; ++i) {
      if (resolved[i] == i) continue;
      return InvalidArgument(i == 0 ? "axes: axis 0 is the rows, which come first"
                                    : "axes: axis 1 is ragged, so it stays after the rows");
    }
    resolved.erase(resolved.begin(), resolved.begin() + static_cast<std::ptrdiff_t>(first));
    LoopStep step{input, MapStep{}};
    for (std::size_t i = 0; i < resolved.size(); ++i) {
      resolved[i] -= first;
      step.output.inner[i] = input.inner[resolved[i]];
    }
    step.what = MapStep{TransposeMap(input, resolved)};
    BoundOperation bound;
    bound.steps.push_back(std::move(step));
    return bound;
  };
  return operation;
}

}  // namespace millrace
