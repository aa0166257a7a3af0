// The tensors of packed rows that are computed from the lengths of a row's pieces (pack_names.h):
// pack.position, pack.segment, pack.label and pack.cu_seqlens. Plans make their uses.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include <fmt/core.h>

#include "common/operations/operation.h"
#include "common/operations/pack_names.h"
#include "common/operations/pack_pieces.h"
#include "common/parameters/make_parameter.h"
#include "common/tensor/dtype_visit.h"

namespace millrace {
namespace {

using What = PieceForm::What;

/// Calls `take(piece, number, elements)` for each piece: which of the batch it is, which of its
/// row, and where its elements lie in `out`. Never leaves `out`, whatever the lengths are.
template <class T, class Take>
void ForPieces(const TensorView& lengths, std::span<T> out, const Take& take) {
  std::vector<std::int64_t> all;
  AppendIntegers(lengths, all);
  for (std::uint64_t row = 0; row < lengths.rows; ++row) {
    const auto first = static_cast<std::size_t>(lengths.splits[row]);
    const auto end = static_cast<std::size_t>(lengths.splits[row + 1]);
    for (std::size_t piece = first; piece < end; ++piece) {
      const std::size_t length = std::min(static_cast<std::size_t>(all[piece]), out.size());
      take(piece, piece - first + 1, out.first(length));
      out = out.subspan(length);
    }
  }
}

template <class T>
std::span<T> As(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// The common base of kernels whose output is cut as rows.
template <class Out>
class OfElements : public Kernel {
 public:
  explicit OfElements(PieceForm form) : form_(form) {}
  DeviceForm device_form() const final { return form_; }
  bool keeps_lengths() const final { return false; }
  Status Splits(std::span<const TensorView> inputs,
                std::vector<std::int64_t>& splits) const override {
    return RowSplitsOf(inputs[form_.lengths], splits);
  }

 private:
  const PieceForm form_;
};

template <class Out>
class Position : public OfElements<Out> {
 public:
  Position() : OfElements<Out>({What::kPosition}) {}
  Status Run(std::span<const TensorView> inputs, std::span<const std::int64_t>,
             std::span<std::byte>, std::span<std::byte> out) const override {
    ForPieces(inputs[0], As<Out>(out), [](std::size_t, std::size_t, std::span<Out> elements) {
      std::iota(elements.begin(), elements.end(), Out{0});
    });
    return OkStatus();
  }
};

template <class Out>
class Segment : public OfElements<Out> {
 public:
  Segment() : OfElements<Out>({What::kSegment}) {}
  Status Run(std::span<const TensorView> inputs, std::span<const std::int64_t>,
             std::span<std::byte>, std::span<std::byte> out) const override {
    ForPieces(inputs[0], As<Out>(out),
              [](std::size_t, std::size_t number, std::span<Out> elements) {
                std::fill(elements.begin(), elements.end(), static_cast<Out>(number));
              });
    return OkStatus();
  }
};

/// Inputs: the elements, the lengths of pieces, the element behind each piece.
template <class Out>
class Label : public OfElements<Out> {
 public:
  Label() : OfElements<Out>({What::kNext, 1}) {}

  Status Splits(std::span<const TensorView> inputs,
                std::vector<std::int64_t>& splits) const override {
    MILLRACE_RETURN_IF_ERROR(RowSplitsOf(inputs[1], splits));
    if (!std::equal(splits.begin(), splits.end(), inputs[0].splits.begin(),
                    inputs[0].splits.end())) {
      return InvalidArgument("the rows of the batch have other lengths than their pieces together");
    }
    if (std::equal(inputs[1].splits.begin(), inputs[1].splits.end(), inputs[2].splits.begin(),
                   inputs[2].splits.end())) {
      return OkStatus();
    }
    return InvalidArgument(fmt::format("{} has not one number for each piece", kPackNext));
  }

  Status Run(std::span<const TensorView> inputs, std::span<const std::int64_t>,
             std::span<std::byte>, std::span<std::byte> out) const override {
    std::vector<std::int64_t> next;
    AppendIntegers(inputs[2], next);
    return VisitValues(inputs[0].type->dtype, [&](auto zero) -> Status {
      using In = decltype(zero);
      if constexpr (std::is_integral_v<In>) {
        const auto* in = reinterpret_cast<const In*>(inputs[0].values.data());
        ForPieces(inputs[1], As<Out>(out),
                  [&](std::size_t piece, std::size_t, std::span<Out> elements) {
                    if (elements.empty()) return;
                    std::transform(in + 1, in + elements.size(), elements.begin(),
                                   [](In value) { return static_cast<Out>(value); });
                    elements.back() = static_cast<Out>(next[piece]);
                    in += elements.size();
                  });
        return OkStatus();
      } else {
        return Internal("pack.label: bound to elements that are no integers");
      }
    });
  }
};

class Seqlens : public Kernel {
 public:
  explicit Seqlens(std::uint32_t padded_to) : padded_to_(padded_to) {}
  DeviceForm device_form() const override { return PieceForm{What::kEnds, 0, padded_to_}; }

  Result<std::uint64_t> Rows(std::span<const TensorView> inputs) const override {
    std::vector<std::int64_t> ends;
    MILLRACE_RETURN_IF_ERROR(PaddedEndsOf(inputs[0], padded_to_, ends));
    return ends.size();
  }

  Status Run(std::span<const TensorView> inputs, std::span<const std::int64_t>,
             std::span<std::byte>, std::span<std::byte> out) const override {
    std::vector<std::int64_t> ends;
    MILLRACE_RETURN_IF_ERROR(PaddedEndsOf(inputs[0], padded_to_, ends));
    const std::span<std::int32_t> numbers = As<std::int32_t>(out);
    if (ends.size() != numbers.size()) return Internal("the lengths of pieces have changed");
    std::transform(ends.begin(), ends.end(), numbers.begin(),
                   [](std::int64_t end) { return static_cast<std::int32_t>(end); });
    return OkStatus();
  }

 private:
  const std::uint32_t padded_to_;
};

Status CheckRaggedIntegers(std::string_view operation, const TensorType& type,
                           std::string_view what) {
  if (type.ragged && type.inner.empty() && IsInteger(type.dtype)) return OkStatus();
  return InvalidArgument(
      fmt::format("{}: expected {}, a row of integers without inner extents, "
                  "got {}",
                  operation, what, DescribeTensorType(type)));
}

constexpr std::string_view kLengthsOfPieces = "the lengths of pieces";

Parameter IndexDType() {
  return WordParameter("dtype", "int64", "the type of the values", {"int32", "int64"});
}

/// The kernel for the type that the use asks for.
template <template <class> class Of>
BoundOperation BindElements(const BindContext& context) {
  BoundOperation bound;
  bound.kernel_output = {*DTypeFromName(context.params.GetText("dtype")), {}, true};
  if (bound.kernel_output.dtype == DType::kInt32) {
    bound.kernel = std::make_shared<Of<std::int32_t>>();
  } else {
    bound.kernel = std::make_shared<Of<std::int64_t>>();
  }
  return bound;
}

template <template <class> class Of>
OperationType OfLengths(std::string_view name, std::string help) {
  OperationType operation;
  operation.name = name;
  operation.help = std::move(help);
  operation.of_rows = true;
  operation.parameters = {IndexDType()};
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    MILLRACE_RETURN_IF_ERROR(
        CheckRaggedIntegers(kPackLengths, context.inputs[0], kLengthsOfPieces));
    return BindElements<Of>(context);
  };
  return operation;
}

}  // namespace

OperationType PackPositionOperation() {
  return OfLengths<Position>(kPackPosition, "where each element is in its piece, from 0");
}

OperationType PackSegmentOperation() {
  return OfLengths<Segment>(kPackSegment, "which piece of its row each element is in, from 1");
}

OperationType PackLabelOperation() {
  OperationType operation;
  operation.name = kPackLabel;
  operation.help = "the document's element behind each element, or -100";
  operation.of_rows = true;
  operation.min_inputs = operation.max_inputs = 3;
  operation.parameters = {IndexDType()};
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    MILLRACE_RETURN_IF_ERROR(
        CheckRaggedIntegers(kPackLabel, context.inputs[0], "elements that can be labels"));
    MILLRACE_RETURN_IF_ERROR(
        CheckRaggedIntegers(kPackLengths, context.inputs[1], kLengthsOfPieces));
    MILLRACE_RETURN_IF_ERROR(
        CheckRaggedIntegers(kPackNext, context.inputs[2], "the elements behind pieces"));
    return BindElements<Label>(context);
  };
  return operation;
}

OperationType PackSeqlensOperation() {
  OperationType operation;
  operation.name = kPackSeqlens;
  operation.help = "0, and where each piece of the batch ends";
  operation.of_rows = true;
  operation.parameters = {
      IntParameter("to", 0, "elements of every padded row; 0: rows are not padded", 0, kMaxExtent)};
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    MILLRACE_RETURN_IF_ERROR(
        CheckRaggedIntegers(kPackLengths, context.inputs[0], kLengthsOfPieces));
    BoundOperation bound;
    bound.kernel =
        std::make_shared<Seqlens>(static_cast<std::uint32_t>(context.params.GetInt("to")));
    bound.kernel_output = {DType::kInt32, {}, false, std::string(kPackSeqlensRows)};
    return bound;
  };
  return operation;
}

}  // namespace millrace
