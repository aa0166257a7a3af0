// one_hot: a number becomes a vector that is 1 at its place and 0 elsewhere.

#include <algorithm>

#include <fmt/core.h>

#include "common/operations/operation.h"
#include "common/parameters/make_parameter.h"
#include "common/tensor/dtype_visit.h"

namespace millrace {
namespace {

class OneHot : public Kernel {
 public:
  explicit OneHot(std::int64_t depth) : depth_(depth) {}

  DeviceForm device_form() const override { return OneHotForm{static_cast<std::uint64_t>(depth_)}; }

  Status Run(std::span<const TensorView> inputs, std::span<const std::int64_t>,
             std::span<std::byte>, std::span<std::byte> out) const override {
    const TensorView& input = inputs.front();
    std::fill(out.begin(), out.end(), std::byte{0});
    return VisitValues(input.type->dtype, [&](auto zero) -> Status {
      using T = decltype(zero);
      if constexpr (std::is_integral_v<T>) {
        const std::span<const T> values = {reinterpret_cast<const T*>(input.values.data()),
                                           input.values.size() / sizeof(T)};
        for (std::size_t i = 0; i < values.size(); ++i) {
          const auto place = static_cast<std::int64_t>(values[i]);
          if (place >= 0 && place < depth_) {
            out[i * static_cast<std::size_t>(depth_) + static_cast<std::size_t>(place)] =
                std::byte{1};
          } else if (place != -1 || !std::is_signed_v<T>) {
            return OutOfRange(fmt::format("one_hot: expected numbers from -1 to {}, got {}",
                                          depth_ - 1, values[i]));
          }
        }
        return OkStatus();
      } else {
        return Internal("one_hot: bound to values that are no integers");
      }
    });
  }

 private:
  const std::int64_t depth_;
};

}  // namespace

OperationType OneHotOperation() {
  OperationType operation;
  operation.name = "one_hot";
  operation.help =
      "a new last axis that is 1 at the place that each number gives, and otherwise 0; "
      "all 0 for -1";
  operation.parameters = {
      Required(IntParameter(
          "depth", "extent of the new axis; other numbers than -1 to depth - 1 are an error", 1,
          kMaxExtent)),
  };
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    const TensorType& input = context.inputs.front();
    if (!IsInteger(input.dtype)) {
      return InvalidArgument(
          fmt::format("one_hot: expected integers, got {}", DescribeTensorType(input)));
    }
    const std::int64_t depth = context.params.GetInt("depth");
    BoundOperation bound;
    bound.kernel = std::make_shared<OneHot>(depth);
    bound.kernel_output = input;
    bound.kernel_output.dtype = DType::kUint8;
    bound.kernel_output.inner.push_back(static_cast<std::uint32_t>(depth));
    return bound;
  };
  return operation;
}

}  // namespace millrace
