// bits: every byte becomes eight values 0 or 1 along the last axis.

#include <fmt/core.h>

#include "common/operations/operation.h"
#include "common/parameters/make_parameter.h"

namespace millrace {

OperationType BitsOperation() {
  OperationType operation;
  operation.name = "bits";
  operation.help = "the bits of bytes, eight values of uint8 for each, along the last axis";
  operation.parameters = {
      WordParameter("order", "msb",
                    "which bit of a byte comes first: the most or the least significant one",
                    {"msb", "lsb"}),
  };
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    const TensorType& input = context.inputs.front();
    if (input.dtype != DType::kUint8 || input.rank() == 1) {
      return InvalidArgument(fmt::format(
          "bits: expected uint8 with an axis besides the rows, got {}", DescribeTensorType(input)));
    }
    BoundOperation bound;
    LoopStep step{input, BitsStep{context.params.GetText("order") == "lsb"}};
    if (!input.inner.empty()) {
      if (input.UnitElements() > kMaxUnitElements / 8) {
        return InvalidArgument(fmt::format("bits: expected at most {} bytes in a row or element",
                                           kMaxUnitElements / 8));
      }
      step.output.inner.back() *= 8;
    }
    bound.steps.push_back(std::move(step));
    return bound;
  };
  return operation;
}

}  // namespace millrace
