#include "common/expand/graph_padding.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "common/expand/expand_edges.h"
#include "common/operands/graph_of_tensors.h"

namespace millrace::internal {
namespace {

/// No tensor of a batch is larger. Foreign numbers of nodes could ask for any size.
constexpr std::uint64_t kMaxPaddedBytes = std::uint64_t{1} << 38;

std::uint64_t Aligned(std::uint64_t n) {
  return (n + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

/// The rows that splits give to the graphs in `rows`.
std::uint64_t RowsIn(const PackedBatch& packed, std::size_t splits, RowRange rows) {
  const SplitsView view(packed, splits);
  return view[rows.first + rows.count] - view[rows.first];
}

Status GraphsDoNotFit(const PackedBatch& packed, const ExpandLayout& layout, const GraphPad& pad) {
  const RowRange& rows = layout.rows;
  const GraphCounts& own = layout.own;
  const std::string which =
      rows.count == packed.examples()
          ? std::string()
          : fmt::format(" (rows {} to {} of it)", rows.first, rows.first + rows.count - 1);
  return DataLoss(fmt::format(
      "pad.graph: the batch of epoch {} from place {} on{} does not fit: it has {} nodes, {} edges "
      "and {} graphs, and there is room for {} nodes, {} edges and {} graphs beside the padding; "
      "it needs at least {{nodes: {}, edges: {}, graphs: {}}}. Change pad.graph, make batches "
      "smaller, or leave large examples out with `filter`",
      packed.info().epoch, packed.info().first_example, which, own.nodes, own.edges, own.graphs,
      pad.nodes - 1, pad.edges, pad.graphs - 1, own.nodes + 1, own.edges, own.graphs + 1));
}

template <class T>
void FillWith(const FillRun& fill, std::byte* out) {
  std::fill_n(reinterpret_cast<T*>(out), fill.count, static_cast<T>(fill.value));
}

}  // namespace

GraphPadding::GraphPadding(std::span<const TensorSpec> tensors, const GraphPad& pad,
                           const EdgeGroup& graph)
    : pad_(pad),
      graph_(graph),
      node_splits_(tensors[graph.node_splits].path),
      edge_splits_(tensors[graph.splits].path) {
  for (const std::string_view name : GraphPad::kMasks) {
    TensorSpec& mask = masks_.emplace_back();
    mask.path = name;
    mask.dtype = DType::kBool;
    mask.dimension = "batch";
    mask.expansion = Expansion::kKeep;
    if (name == "graph_mask") continue;
    mask.kind = TensorKind::kRaggedValues;
    mask.splits = name == "node_mask" ? node_splits_ : edge_splits_;
    const auto same = std::find_if(tensors.begin(), tensors.end(), [&](const TensorSpec& tensor) {
      return tensor.splits == mask.splits;
    });
    mask.dimension = same == tensors.end() ? "nodes" : same->dimension;
  }
}

Result<GraphPadding> GraphPadding::Make(std::span<const TensorSpec> tensors, const GraphPad& pad) {
  MILLRACE_ASSIGN_OR_RETURN(const EdgeGroup graph, GraphOfTensors(tensors));
  for (const TensorSpec& tensor : tensors) {
    if (!GraphPad::IsMask(tensor.path)) continue;
    return InvalidArgument(fmt::format(
        "graph: a tensor {0} travels, and pad.graph delivers another {0}; expected no tensor of "
        "this name",
        tensor.path));
  }
  return GraphPadding(tensors, pad, graph);
}

std::optional<std::uint64_t> GraphPadding::RowsOf(const TensorSpec& tensor) const {
  if (tensor.kind == TensorKind::kSplits) return std::uint64_t{pad_.graphs} + 1;
  if (tensor.splits.empty()) return pad_.graphs;
  if (tensor.splits == node_splits_) return pad_.nodes;
  if (tensor.splits == edge_splits_) return pad_.edges;
  return std::nullopt;
}

Status GraphPadding::SetRows(const PackedBatch& packed, ExpandLayout& layout) const {
  GraphCounts& own = layout.own;
  own.nodes = RowsIn(packed, graph_.node_splits, layout.rows);
  own.edges = layout.own_rows[graph_.source];
  own.graphs = layout.rows.count;
  if (own.nodes >= pad_.nodes || own.edges > pad_.edges || own.graphs >= pad_.graphs) {
    return GraphsDoNotFit(packed, layout, pad_);
  }
  for (std::size_t i = 0; i < layout.shapes.size(); ++i) {
    const TensorSpec& spec = packed.tensors()[i].spec;
    const std::optional<std::uint64_t> rows = RowsOf(spec);
    if (!layout.expanded[i] || !rows) continue;
    layout.shapes[i][0] = *rows;
    MILLRACE_RETURN_IF_ERROR(
        CheckPaddedBytes(spec.path, *rows, spec.row_values() * DTypeSize(layout.dtypes[i])));
  }
  return OkStatus();
}

std::uint64_t GraphPadding::ValueOf(const PackedBatch& packed, const ExpandLayout& layout,
                                    std::size_t tensor) const {
  const TensorSpec& spec = packed.tensors()[tensor].spec;
  if (!spec.node_splits.empty()) return layout.own.nodes;
  if (tensor == graph_.splits) return layout.own.edges;  // complete ones
  return spec.kind == TensorKind::kSplits ? RowsIn(packed, tensor, layout.rows) : 0;
}

void GraphPadding::AddFills(const PackedBatch& packed, ExpandLayout& layout) const {
  const auto add = [&](const FillRun& fill) {
    if (fill.count > 0) layout.fills.push_back(fill);
  };
  for (std::size_t i = 0; i < layout.shapes.size(); ++i) {
    if (!layout.expanded[i]) continue;
    const TensorSpec& spec = packed.tensors()[i].spec;
    const std::uint64_t padding = layout.shapes[i][0] - layout.own_rows[i];
    FillRun fill;
    fill.offset = layout.offsets[i] + layout.own_bytes(i);
    fill.count = padding * spec.row_values();
    fill.width = static_cast<std::uint32_t>(DTypeSize(layout.dtypes[i]));
    fill.value = ValueOf(packed, layout, i);
    if (i == graph_.node_splits || i == graph_.splits) {
      // The last graph ends with the last row.
      FillRun last = fill;
      last.offset += (--fill.count) * fill.width;
      last.count = 1;
      last.value = i == graph_.splits ? pad_.edges : pad_.nodes;
      add(last);
    }
    add(fill);
  }
  const GraphCounts& own = layout.own;
  const std::array<std::uint64_t, 3> own_rows = {own.edges, own.graphs, own.nodes};
  for (std::size_t i = 0; i < masks_.size(); ++i) {
    const std::uint64_t rows = *RowsOf(masks_[i]);
    const std::uint64_t ones = own_rows[i];
    layout.masks.push_back({DType::kBool, {rows}, layout.bytes});
    add({layout.bytes, ones, 1, 1});
    add({layout.bytes + ones, Aligned(rows) - ones, 1, 0});
    layout.bytes += Aligned(rows);
  }
}

Status CheckPaddedBytes(std::string_view path, std::uint64_t rows, std::uint64_t row_bytes) {
  if (row_bytes == 0 || rows <= kMaxPaddedBytes / row_bytes) return OkStatus();
  return ResourceExhausted(
      fmt::format("tensor {}: {} rows of {} bytes are larger than {} GiB: make pad.graph smaller",
                  path, rows, row_bytes, kMaxPaddedBytes >> 30));
}

void WriteFill(const FillRun& fill, std::span<std::byte> out) {
  std::byte* const begin = out.data() + fill.offset;
  switch (fill.width) {
    case 8:
      return FillWith<std::uint64_t>(fill, begin);
    case 4:
      return FillWith<std::uint32_t>(fill, begin);
    case 2:
      return FillWith<std::uint16_t>(fill, begin);
    default:
      std::memset(begin, static_cast<int>(fill.value), fill.count);
  }
}

}  // namespace millrace::internal
