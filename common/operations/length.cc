// length: how many elements each row of a ragged tensor has.

#include <cstring>

#include <fmt/core.h>

#include "common/operations/operation.h"

namespace millrace {
namespace {

class Length : public Kernel {
 public:
  DeviceForm device_form() const override { return LengthForm{}; }

  Status Run(std::span<const TensorView> inputs, std::span<const std::int64_t>,
             std::span<std::byte>, std::span<std::byte> out) const override {
    const TensorView& input = inputs.front();
    for (std::uint64_t row = 0; row < input.rows; ++row) {
      const std::int64_t length = input.splits[row + 1] - input.splits[row];
      std::memcpy(out.data() + row * sizeof length, &length, sizeof length);
    }
    return OkStatus();
  }
};

}  // namespace

OperationType LengthOperation() {
  OperationType operation;
  operation.name = "length";
  operation.help = "how many elements each row of a ragged tensor has, int64";
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    const TensorType& input = context.inputs.front();
    if (!input.ragged) {
      return InvalidArgument(
          fmt::format("length: expected a ragged tensor, got {}", DescribeTensorType(input)));
    }
    BoundOperation bound;
    bound.kernel = std::make_shared<Length>();
    bound.kernel_output.dtype = DType::kInt64;
    bound.kernel_output.rows = input.rows;
    return bound;
  };
  return operation;
}

}  // namespace millrace
