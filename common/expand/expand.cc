#include "common/expand/expand.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/core.h>

#include "common/batch/layout/integer_visit.h"
#include "common/expand/computation.h"
#include "common/expand/expand_edges.h"
#include "common/expand/graph_padding.h"
#include "common/expand/value_errors.h"

namespace millrace {
namespace {

using internal::SplitsView;
using internal::ValuesAs;
using internal::VisitInteger;

constexpr std::uint64_t RoundUp(std::uint64_t n) {
  return (n + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

/// The rows of one tensor that belong to the chosen examples of the batch.
struct TensorRows {
  std::uint64_t begin;
  std::uint64_t end;
};

TensorRows RowsOf(const PackedBatch& packed, std::size_t tensor, RowRange examples) {
  const TensorSpec& spec = packed.tensors()[tensor].spec;
  const std::optional<std::size_t> cut_by =
      spec.splits.empty() ? std::nullopt : packed.Find(spec.splits);
  const bool of_graphs = cut_by ? packed.tensors()[*cut_by].spec.of_graphs() : spec.of_graphs();
  const RowRange rows = of_graphs ? GraphsOf(packed.info(), examples) : examples;
  const std::uint64_t last = rows.first + rows.count;
  if (spec.kind == TensorKind::kSplits) return {rows.first, last + 1};
  if (!cut_by) return {rows.first, last};
  const SplitsView splits(packed, *cut_by);
  return {splits[rows.first], splits[last]};
}

/// The values of these rows, in bytes.
std::span<const std::byte> BytesOf(const PackedBatch& packed, std::size_t tensor, RowRange rows) {
  const TensorPlace& place = packed.tensors()[tensor];
  const TensorRows range = RowsOf(packed, tensor, rows);
  const std::uint64_t row_bytes = place.spec.row_bytes();
  return packed.tensor_bytes(tensor).subspan(range.begin * row_bytes,
                                             (range.end - range.begin) * row_bytes);
}

/// False if a value does not fit Out, which is int32 or int64.
template <class In, class Out>
bool WidenValues(const In* __restrict in, std::size_t n, Out* __restrict out) {
  if constexpr (sizeof(In) < sizeof(Out) || std::is_same_v<In, Out>) {
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<Out>(in[i]);
    return true;
  } else {
    // Collects the bits in which a value differs from its converted form. One test after the loop
    // keeps the loop vectorisable.
    constexpr auto kLargest = static_cast<In>(std::numeric_limits<Out>::max());
    In wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if constexpr (std::is_signed_v<In>) {
        wrong |= static_cast<In>(in[i] ^ static_cast<In>(static_cast<Out>(in[i])));
      } else {
        wrong |= static_cast<In>(in[i] & ~kLargest);
      }
      out[i] = static_cast<Out>(in[i]);
    }
    return wrong == 0;
  }
}

template <class Out>
Status Widen(const PackedBatch& packed, std::size_t tensor, RowRange rows, Out* out) {
  const auto bytes = BytesOf(packed, tensor, rows);
  return VisitInteger(packed.tensors()[tensor].spec.dtype, [&](auto zero) -> Status {
    using In = decltype(zero);
    const std::span<const In> in = ValuesAs<In>(bytes);
    if (WidenValues(in.data(), in.size(), out)) {
      // Splits of the delivered batch count from its first row.
      if (rows.first > 0 && packed.tensors()[tensor].spec.kind == TensorKind::kSplits) {
        for (std::size_t i = in.size(); i-- > 0;) out[i] -= out[0];
      }
      return OkStatus();
    }
    const auto bad = std::find_if(in.begin(), in.end(), [](In value) {
      return value > In{0} ? static_cast<std::uint64_t>(value) >
                                 static_cast<std::uint64_t>(std::numeric_limits<Out>::max())
                           : static_cast<std::int64_t>(value) <
                                 static_cast<std::int64_t>(std::numeric_limits<Out>::min());
    });
    return internal::ValueDoesNotFit(packed.tensors()[tensor].spec.path,
                                     fmt::format("value {} at element {}", *bad, bad - in.begin()),
                                     sizeof(Out) == 4 ? DType::kInt32 : DType::kInt64);
  });
}

/// Turns node numbers within the example into node numbers within the batch.
template <class Out>
Status OffsetNodes(const PackedBatch& packed, std::size_t tensor, RowRange rows, Out* out) {
  const TensorSpec& spec = packed.tensors()[tensor].spec;
  const SplitsView node_splits(packed, *packed.Find(spec.node_splits));
  const std::optional<std::size_t> cut_by =
      spec.splits.empty() ? std::nullopt : packed.Find(spec.splits);
  const bool merged = packed.info().expand.merged;
  // All values of a merged batch are numbers of the nodes of its one graph, whatever cuts them.
  const RowRange graphs = GraphsOf(packed.info(), rows);
  return VisitInteger(spec.dtype, [&](auto zero) -> Status {
    using In = decltype(zero);
    const std::span<const In> in = ValuesAs<In>(BytesOf(packed, tensor, rows));
    const std::uint64_t first_row = RowsOf(packed, tensor, rows).begin;
    std::size_t i = 0;
    for (std::size_t row = graphs.first; row < graphs.first + graphs.count; ++row) {
      const std::size_t end =
          merged ? in.size()
                 : (cut_by ? SplitsView(packed, *cut_by)[row + 1] : row + 1) - first_row;
      const std::uint64_t first = node_splits[row];
      const std::uint64_t nodes = node_splits[row + 1] - first;
      for (; i < end; ++i) {
        // A negative number becomes a very large one here.
        if (static_cast<std::uint64_t>(in[i]) >= nodes) {
          return internal::BadValue(
              packed, tensor, row,
              fmt::format("node {} of {}{} nodes", in[i], merged ? "" : "an example of ", nodes));
        }
        out[i] =
            static_cast<Out>(first - node_splits[graphs.first] + static_cast<std::uint64_t>(in[i]));
      }
    }
    return OkStatus();
  });
}

Status Keep(const PackedBatch& packed, std::size_t tensor, RowRange rows, std::byte* out) {
  const std::span<const std::byte> values = BytesOf(packed, tensor, rows);
  const TensorSpec& spec = packed.tensors()[tensor].spec;
  if (spec.dtype == DType::kBool) {
    MILLRACE_RETURN_IF_ERROR(internal::CheckBools(spec.path, values));
  }
  if (!values.empty()) std::memcpy(out, values.data(), values.size());
  return OkStatus();
}

template <class Out>
Status ExpandTensor(const PackedBatch& packed, std::size_t tensor, RowRange rows, std::byte* out) {
  const TensorPlace& place = packed.tensors()[tensor];
  auto* const values = reinterpret_cast<Out*>(out);
  switch (place.spec.expansion) {
    case Expansion::kWiden:
      return Widen(packed, tensor, rows, values);
    case Expansion::kNodeOffset:
      return OffsetNodes(packed, tensor, rows, values);
    case Expansion::kKeep:
      return Keep(packed, tensor, rows, out);
    case Expansion::kEdgeSource:
    case Expansion::kEdgeTarget:
    case Expansion::kEdgeLabel:
    case Expansion::kEdgeSplits:
      break;  // ExpandEdges fills the whole group
  }
  return OkStatus();
}

/// Null if graphs are not padded.
const internal::GraphPadding* PaddingOf(const ExpandLayout& layout) {
  if (layout.computation == nullptr || !layout.computation->padding()) return nullptr;
  return &*layout.computation->padding();
}

/// Lays out the tensors that are expanded, and the masks.
Status PlaceTensors(const PackedBatch& packed, ExpandLayout& layout) {
  const std::uint64_t largest = DTypeMax(layout.index_dtype);
  for (std::size_t i = 0; i < packed.tensors().size(); ++i) {
    const TensorPlace& place = packed.tensors()[i];
    const TensorRows range = RowsOf(packed, i, layout.rows);
    std::vector<std::uint64_t>& shape = layout.shapes.emplace_back();
    shape.push_back(range.end - range.begin);
    shape.insert(shape.end(), place.spec.inner.begin(), place.spec.inner.end());
    layout.dtypes.push_back(place.spec.expansion == Expansion::kKeep ? place.spec.dtype
                                                                     : layout.index_dtype);
  }
  for (const EdgeGroup& group : packed.edges()) {
    if (!layout.expanded[group.splits]) continue;
    layout.edges.push_back(group);
    const SplitsView node_splits(packed, group.node_splits);
    const RowRange graphs = layout.graphs;
    const std::uint64_t nodes =
        node_splits[graphs.first + graphs.count] - node_splits[graphs.first];
    const std::uint64_t edges =
        internal::CompleteEdges(packed.info().expand, layout.shapes[group.source][0], nodes);
    group.ForEnds([&](std::size_t tensor) { layout.shapes[tensor][0] = edges; });
  }
  for (std::size_t i = 0; i < layout.shapes.size(); ++i) {
    // Splits hold row numbers of the tensor that they cut, and node numbers are below the rows of
    // their tensor. So it is enough to check the numbers of rows.
    if (layout.expanded[i] && !packed.tensors()[i].spec.splits.empty() &&
        layout.shapes[i][0] > largest) {
      return internal::ValueDoesNotFit(packed.tensors()[i].spec.path,
                                       fmt::format("number of rows {}", layout.shapes[i][0]),
                                       layout.index_dtype);
    }
    layout.own_rows.push_back(layout.shapes[i][0]);
  }
  const internal::GraphPadding* const padding = PaddingOf(layout);
  if (padding != nullptr) MILLRACE_RETURN_IF_ERROR(padding->SetRows(packed, layout));
  for (std::size_t i = 0; i < layout.shapes.size(); ++i) {
    layout.offsets.push_back(layout.bytes);
    layout.bytes += layout.padded_bytes(i);
  }
  if (padding != nullptr) padding->AddFills(packed, layout);
  layout.computed_begin = layout.bytes;
  return OkStatus();
}

/// Lays out the computed tensors after the others.
Status PlaceComputed(const PackedBatch& packed, ExpandLayout& layout) {
  if (layout.computation == nullptr || layout.computation->computed().empty()) return OkStatus();
  layout.batch_computation = layout.computation->Begin();
  MILLRACE_RETURN_IF_ERROR(layout.batch_computation->LayOut(packed, layout.rows, layout.computed));
  for (ComputedPlace& place : layout.computed) {
    place.offset = layout.bytes;
    layout.bytes += RoundUp(place.bytes());
  }
  return OkStatus();
}

}  // namespace

RowRange RowsOfMicroBatch(std::size_t examples, std::size_t index, std::size_t micro) {
  // Rounded up, so that the first micro-batch is empty only if all are.
  const std::size_t first = (examples * index + micro - 1) / micro;
  return {first, (examples * (index + 1) + micro - 1) / micro - first};
}

Result<ExpandLayout> LayOutExpanded(const PackedBatch& packed, const Delivery& delivery,
                                    std::optional<RowRange> rows) {
  const DType index_dtype = delivery.index_dtype();
  if (index_dtype != DType::kInt32 && index_dtype != DType::kInt64) {
    return InvalidArgument(
        fmt::format("index_dtype: expected int32 or int64, got {}", DTypeName(index_dtype)));
  }
  ExpandLayout layout;
  layout.rows = rows.value_or(RowRange{0, packed.examples()});
  if (packed.info().expand.merged && layout.rows.count != packed.examples()) {
    return FailedPrecondition(
        "the batch is one graph, which cannot be cut into parts: open the session with micro=1, or "
        "write `closure: {merge: false}`");
  }
  layout.graphs = GraphsOf(packed.info(), layout.rows);
  layout.index_dtype = index_dtype;
  layout.computation = delivery.computation();
  layout.observer = delivery.observer();
  if (layout.computation != nullptr) {
    MILLRACE_RETURN_IF_ERROR(layout.computation->CheckTensors(packed));
    layout.expanded = layout.computation->expanded();
  } else {
    layout.expanded.assign(packed.tensors().size(), true);
  }
  if (packed.info().expand.merged && PaddingOf(layout) != nullptr) {
    return DataLoss("pad.graph: the batch is one graph, which is not padded");
  }
  MILLRACE_RETURN_IF_ERROR(PlaceTensors(packed, layout));
  MILLRACE_RETURN_IF_ERROR(PlaceComputed(packed, layout));
  return layout;
}

std::uint64_t ComputedPlace::bytes() const {
  std::uint64_t n = DTypeSize(dtype);
  for (const std::uint64_t extent : shape) n *= extent;
  return n;
}

std::uint64_t ExpandLayout::tensor_bytes(std::size_t tensor) const {
  if (!expanded[tensor]) return 0;
  std::uint64_t n = DTypeSize(dtypes[tensor]);
  for (const std::uint64_t extent : shapes[tensor]) n *= extent;
  return n;
}

std::uint64_t ExpandLayout::own_bytes(std::size_t tensor) const {
  const std::uint64_t all_rows = shapes[tensor][0];
  return all_rows == 0 ? 0 : tensor_bytes(tensor) / all_rows * own_rows[tensor];
}

std::uint64_t ExpandLayout::padded_bytes(std::size_t tensor) const {
  return RoundUp(tensor_bytes(tensor));
}

Status ExpandInto(const PackedBatch& packed, const ExpandLayout& layout, std::span<std::byte> out) {
  for (std::size_t i = 0; i < layout.offsets.size(); ++i) {
    if (!layout.expanded[i]) continue;
    std::byte* const begin = out.data() + layout.offsets[i];
    MILLRACE_RETURN_IF_ERROR(layout.index_dtype == DType::kInt32
                                 ? ExpandTensor<std::int32_t>(packed, i, layout.rows, begin)
                                 : ExpandTensor<std::int64_t>(packed, i, layout.rows, begin));
    const std::uint64_t bytes = layout.tensor_bytes(i);
    std::memset(begin + bytes, 0, layout.padded_bytes(i) - bytes);
  }
  for (const EdgeGroup& group : layout.edges) {
    MILLRACE_RETURN_IF_ERROR(internal::ExpandEdges(packed, layout, group, out));
  }
  for (const FillRun& fill : layout.fills) internal::WriteFill(fill, out);
  return ComputeInto(packed, layout, out.subspan(layout.computed_begin));
}

Status ComputeInto(const PackedBatch& packed, const ExpandLayout& layout,
                   std::span<std::byte> out) {
  if (layout.computed.empty()) return OkStatus();
  const auto room = [&](std::size_t tensor) {
    const ComputedPlace& place = layout.computed[tensor];
    const std::uint64_t bytes = place.bytes();
    std::byte* const begin = out.data() + (place.offset - layout.computed_begin);
    std::memset(begin + bytes, 0, RoundUp(bytes) - bytes);
    return std::span(begin, bytes);
  };
  return layout.batch_computation->Run(packed, room, layout.observer);
}

Result<std::shared_ptr<const DeliveredBatch>> ExpandTo(const PackedBatch& packed,
                                                       const ExpandLayout& layout,
                                                       std::span<std::byte> out,
                                                       std::shared_ptr<const void> owner) {
  out = out.first(layout.bytes);
  MILLRACE_RETURN_IF_ERROR(ExpandInto(packed, layout, out));
  return ViewExpanded(packed, layout, out, std::move(owner));
}

Result<std::shared_ptr<const DeliveredBatch>> Expand(const PackedBatch& packed,
                                                     const Delivery& delivery, BufferPool& pool,
                                                     std::optional<RowRange> rows) {
  MILLRACE_ASSIGN_OR_RETURN(const ExpandLayout layout, LayOutExpanded(packed, delivery, rows));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> buffer, pool.Acquire(layout.bytes));
  return ExpandTo(packed, layout, buffer->bytes(), buffer);
}

}  // namespace millrace
