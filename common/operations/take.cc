// take: some places of an axis, in any order, as numpy.take.

#include <fmt/core.h>

#include "common/operations/axes.h"
#include "common/operations/operation.h"
#include "common/parameters/make_parameter.h"

namespace millrace {

OperationType TakeOperation() {
  OperationType operation;
  operation.name = "take";
  operation.help = "some places of an axis, in any order";
  operation.parameters = {
      AxisParameter(),
      Required(MayBeEmpty(
          ParameterOf({ParamType::kInts, ParamType::kInt}, "index",
                      "the places, negative ones from the end; a single one removes the axis"))),
  };
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    const TensorType& input = context.inputs.front();
    MILLRACE_ASSIGN_OR_RETURN(const InnerAxis axis,
                              ResolveInnerAxis(input, context.params.GetInt("axis")));
    const bool single = context.params.Is<std::int64_t>("index");
    const std::vector<std::int64_t> places =
        single ? std::vector<std::int64_t>{context.params.GetInt("index")}
               : context.params.GetInts("index");
    if (places.empty()) return InvalidArgument("index: expected at least one place");
    const auto extent = static_cast<std::int64_t>(axis.extent);
    std::vector<std::uint32_t> index;
    for (const std::int64_t place : places) {
      if (place < -extent || place >= extent) {
        return InvalidArgument(fmt::format("index: {} is outside an axis of {}", place, extent));
      }
      index.push_back(static_cast<std::uint32_t>(place < 0 ? place + extent : place));
    }
    LoopStep step{input, MapStep{}};
    if (single) {
      step.output.inner.erase(step.output.inner.begin() + static_cast<std::ptrdiff_t>(axis.index));
    } else {
      step.output.inner[axis.index] = static_cast<std::uint32_t>(index.size());
    }
    if (Status status = CheckTensorType(step.output); !status.ok()) {
      return status.WithContext("index");
    }
    step.what = MapStep{TakeMap(axis, index)};
    BoundOperation bound;
    bound.steps.push_back(std::move(step));
    return bound;
  };
  return operation;
}

}  // namespace millrace
