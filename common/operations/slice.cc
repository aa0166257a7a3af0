// slice: the places [a, b) of an axis. On a ragged axis each row is sliced as Python slices a list.

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "common/operations/axes.h"
#include "common/operations/operation.h"
#include "common/parameters/make_parameter.h"

namespace millrace {
namespace {

/// Python's bounds of x[a:b] for a sequence of `length`.
struct Range {
  std::int64_t begin;
  std::int64_t end;
};

Range Clipped(std::int64_t a, std::int64_t b, std::int64_t length) {
  const auto bound = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + length : at, 0, length);
  };
  const std::int64_t begin = bound(a);
  return {begin, std::max(begin, bound(b))};
}

class RaggedSlice : public Kernel {
 public:
  RaggedSlice(std::int64_t a, std::int64_t b) : a_(a), b_(b) {}

  DeviceForm device_form() const override {
    return RunForm{[a = a_, b = b_](std::int64_t length) { return Clipped(a, b, length).begin; }};
  }

  bool keeps_lengths() const override { return false; }
  Status Splits(std::span<const TensorView> inputs,
                std::vector<std::int64_t>& splits) const override {
    const TensorView& input = inputs.front();
    splits.assign(1, 0);
    for (std::uint64_t row = 0; row < input.rows; ++row) {
      const Range range = RangeOf(input, row);
      splits.push_back(splits.back() + range.end - range.begin);
    }
    return OkStatus();
  }

  Status Run(std::span<const TensorView> inputs, std::span<const std::int64_t>,
             std::span<std::byte>, std::span<std::byte> out) const override {
    const TensorView& input = inputs.front();
    const auto unit = static_cast<std::int64_t>(input.type->UnitBytes());
    std::byte* to = out.data();
    for (std::uint64_t row = 0; row < input.rows; ++row) {
      const Range range = RangeOf(input, row);
      const auto bytes = static_cast<std::size_t>((range.end - range.begin) * unit);
      if (bytes == 0) continue;
      std::memcpy(to, input.values.data() + (input.splits[row] + range.begin) * unit, bytes);
      to += bytes;
    }
    return OkStatus();
  }

 private:
  Range RangeOf(const TensorView& input, std::uint64_t row) const {
    return Clipped(a_, b_, input.splits[row + 1] - input.splits[row]);
  }

  const std::int64_t a_;
  const std::int64_t b_;
};

}  // namespace

OperationType SliceOperation() {
  OperationType operation;
  operation.name = "slice";
  operation.help = "a part of an axis";
  Parameter range = Required(
      IntsParameter("range",
                    "[a, b]: places a to b - 1, negative ones from the end; nothing is clipped, "
                    "except for each row of a ragged axis"));
  range.count = 2;
  operation.parameters = {std::move(range), AxisParameter()};
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    const TensorType& input = context.inputs.front();
    const std::int64_t a = context.params.GetInts("range")[0];
    const std::int64_t b = context.params.GetInts("range")[1];
    MILLRACE_ASSIGN_OR_RETURN(const std::size_t resolved,
                              ResolveAxis(input, context.params.GetInt("axis")));
    BoundOperation bound;
    if (input.ragged && resolved == 1) {
      bound.kernel = std::make_shared<RaggedSlice>(a, b);
      bound.kernel_output = input;
      return bound;
    }
    MILLRACE_ASSIGN_OR_RETURN(const InnerAxis axis,
                              ResolveInnerAxis(input, static_cast<std::int64_t>(resolved)));
    const auto extent = static_cast<std::int64_t>(axis.extent);
    const std::int64_t begin = a < 0 ? a + extent : a;
    const std::int64_t end = b < 0 ? b + extent : b;
    if (begin < 0 || end > extent) {
      return InvalidArgument(fmt::format("range: [{}, {}] is outside an axis of {}", a, b, extent));
    }
    if (begin >= end) return InvalidArgument(fmt::format("range: [{}, {}] is empty", a, b));
    std::vector<std::uint32_t> index;
    for (std::int64_t i = begin; i < end; ++i) index.push_back(static_cast<std::uint32_t>(i));
    LoopStep step{input, MapStep{TakeMap(axis, index)}};
    step.output.inner[axis.index] = static_cast<std::uint32_t>(index.size());
    bound.steps.push_back(std::move(step));
    return bound;
  };
  return operation;
}

}  // namespace millrace
