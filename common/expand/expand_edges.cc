#include "common/expand/expand_edges.h"

#include <algorithm>
#include <type_traits>

#include <fmt/core.h>

namespace millrace::internal {
namespace {

/// The packed edges of one example, and the numbers that they may refer to.
template <class End, class Label>
struct Edges {
  const End* source;
  const End* target;
  const Label* label;  // nullptr: all edges have label 0, which is not delivered
  std::size_t size;
  std::uint64_t first_node;  // number of the example's first node in the delivered batch
  std::uint64_t nodes;
};

/// The place at which the next delivered edge is written.
template <class Out>
struct Cursor {
  Out* source;
  Out* target;
  Out* label;  // nullptr if labels are not delivered

  void Advance(std::size_t n) {
    source += n;
    target += n;
    if (label != nullptr) label += n;
  }
};

/// a + b for any bytes: a sum beyond Out wraps, and a later check finds that it is wrong.
template <class Out, class In>
Out Add(Out a, In b) {
  using Unsigned = std::make_unsigned_t<Out>;
  return static_cast<Out>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
}

/// Writes the node numbers of edge ends, counted across the batch. Returns the largest number
/// within the example.
template <class In, class Out>
In Renumber(const In* __restrict in, std::size_t n, Out offset, Out* __restrict out) {
  In largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    largest = std::max(largest, in[i]);
    out[i] = Add(offset, in[i]);
  }
  return largest;
}

template <class In, class Out>
void AddLabels(const In* __restrict in, std::size_t n, Out add, Out* __restrict out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = Add(add, in[i]);
}

template <class Label>
bool Ascends(const Label* label, std::size_t n) {
  bool ascends = true;
  for (std::size_t i = 1; i < n; ++i) ascends &= label[i - 1] <= label[i];
  return ascends;
}

/// Copies edges [begin, end) of an example, reversed or not. False if an end is not a node of the
/// example.
template <class End, class Label, class Out>
bool Copy(const Edges<End, Label>& in, std::size_t begin, std::size_t end, bool reversed, Out add,
          Cursor<Out>& out) {
  const std::size_t n = end - begin;
  const auto offset = static_cast<Out>(in.first_node);
  const End a = Renumber((reversed ? in.target : in.source) + begin, n, offset, out.source);
  const End b = Renumber((reversed ? in.source : in.target) + begin, n, offset, out.target);
  if (in.label != nullptr) AddLabels(in.label + begin, n, add, out.label);
  out.Advance(n);
  return n == 0 || std::max(a, b) < in.nodes;
}

/// Writes every group of equal labels, followed by the same edges reversed. False if an end is not
/// a node of the example. Groups are short, so one loop writes both directions. REQUIRES: edges
/// have labels.
template <class End, class Label, class Out>
bool CopyUndirected(const Edges<End, Label>& in, Cursor<Out>& out) {
  const auto offset = static_cast<Out>(in.first_node);
  End largest = 0;
  for (std::size_t begin = 0; begin < in.size;) {
    const Label label = in.label[begin];
    std::size_t end = begin + 1;
    while (end < in.size && in.label[end] == label) ++end;
    const std::size_t n = end - begin;
    for (std::size_t i = 0; i < n; ++i) {
      const End source = in.source[begin + i];
      const End target = in.target[begin + i];
      largest = std::max({largest, source, target});
      out.source[i] = out.target[n + i] = Add(offset, source);
      out.target[i] = out.source[n + i] = Add(offset, target);
      out.label[i] = out.label[n + i] = static_cast<Out>(label);
    }
    out.Advance(2 * n);
    begin = end;
  }
  return in.size == 0 || largest < in.nodes;
}

template <class Out>
void AddSelfEdges(std::uint64_t first_node, std::uint64_t nodes, Out label, Cursor<Out>& out) {
  for (std::uint64_t i = 0; i < nodes; ++i) {
    out.source[i] = static_cast<Out>(first_node + i);
    out.target[i] = static_cast<Out>(first_node + i);
    out.label[i] = label;
  }
  out.Advance(nodes);
}

/// Finds the wrong edge of an example, for the message. Only called if there is one.
template <class End, class Label>
Status FindBad(const PackedBatch& packed, const EdgeGroup& group, std::size_t row,
               const Edges<End, Label>& in) {
  const std::uint32_t labels = packed.info().expand.base_edge_labels;
  for (std::size_t i = 0; i < in.size; ++i) {
    for (const std::size_t tensor : {group.source, group.target}) {
      const End end = (tensor == group.source ? in.source : in.target)[i];
      if (end < in.nodes) continue;
      const bool merged = packed.info().expand.merged;
      return BadValue(packed, tensor, row,
                      fmt::format("edge {} has node {}, but {} {} nodes", i, end,
                                  merged ? "there are" : "the example has", in.nodes));
    }
    if (in.label == nullptr) continue;
    if (in.label[i] >= labels) {
      return BadValue(
          packed, *group.label, row,
          fmt::format("edge {} has label {}, but there are {}", i, in.label[i], labels));
    }
    if (i > 0 && in.label[i] < in.label[i - 1]) {
      return BadValue(
          packed, *group.label, row,
          fmt::format("edge {} has label {} after label {}; edges have to be grouped by "
                      "ascending label",
                      i, in.label[i], in.label[i - 1]));
    }
  }
  return BadValue(packed, group.splits, row, "its edges changed while they were read");
}

template <class End, class Label, class Out>
Status ExpandAll(const PackedBatch& packed, const ExpandLayout& layout, const EdgeGroup& group,
                 std::span<std::byte> out_bytes) {
  const ExpandSpec& expand = packed.info().expand;
  const auto base_labels = static_cast<Out>(expand.base_edge_labels);
  const auto out_of = [&](std::size_t tensor) {
    return reinterpret_cast<Out*>(out_bytes.data() + layout.offsets[tensor]);
  };
  const End* const source = ValuesAs<End>(packed.tensor_bytes(group.source)).data();
  const End* const target = ValuesAs<End>(packed.tensor_bytes(group.target)).data();
  const Label* const label =
      group.label ? ValuesAs<Label>(packed.tensor_bytes(*group.label)).data() : nullptr;
  const SplitsView edge_splits(packed, group.splits);
  const SplitsView node_splits(packed, group.node_splits);
  Cursor<Out> out{out_of(group.source), out_of(group.target),
                  group.label ? out_of(*group.label) : nullptr};
  Out* const out_splits = out_of(group.splits);
  const RowRange rows = layout.graphs;
  const std::uint64_t base = node_splits[rows.first];
  std::uint64_t written = 0;
  std::uint64_t edge = edge_splits[rows.first];
  std::uint64_t node = base;
  out_splits[0] = 0;
  for (std::size_t row = rows.first; row < rows.first + rows.count; ++row) {
    const std::uint64_t edge_end = edge_splits[row + 1];
    const std::uint64_t node_end = node_splits[row + 1];
    const Edges<End, Label> in{
        source + edge,   target + edge, label == nullptr ? nullptr : label + edge,
        edge_end - edge, node - base,   node_end - node};
    bool ok = true;
    if (in.label != nullptr) {
      ok = Ascends(in.label, in.size) &&
           (in.size == 0 || in.label[in.size - 1] < expand.base_edge_labels);
    }
    if (expand.symmetrization == Symmetrization::kUndirected && in.label != nullptr) {
      ok &= CopyUndirected(in, out);
    } else {
      ok &= Copy(in, 0, in.size, false, Out{0}, out);
      // Without labels, all edges are one group.
      if (expand.symmetrization != Symmetrization::kDirected) {
        ok &= Copy(in, 0, in.size, true, base_labels, out);
      }
    }
    if (!ok) return FindBad(packed, group, row, in);
    if (expand.add_self_edges) {
      AddSelfEdges(in.first_node, in.nodes, static_cast<Out>(expand.edge_labels() - 1), out);
    }
    written += CompleteEdges(expand, in.size, in.nodes);
    out_splits[row - rows.first + 1] = static_cast<Out>(written);
    edge = edge_end;
    node = node_end;
  }
  return OkStatus();
}

/// Calls f with a zero of the C++ type. Edges are unsigned and at most 32 bits wide
/// (tensor_table.h).
template <class F>
Status VisitEdgeDType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kUint8:
      return f(std::uint8_t{0});
    case DType::kUint16:
      return f(std::uint16_t{0});
    default:
      return f(std::uint32_t{0});
  }
}

}  // namespace

Status BadValue(const PackedBatch& packed, std::size_t tensor, std::size_t row,
                std::string_view what) {
  const std::string& path = packed.tensors()[tensor].spec.path;
  if (packed.info().expand.merged) {
    return DataLoss(fmt::format("tensor {}, in the batch's graph: {}", path, what));
  }
  return DataLoss(fmt::format("tensor {}, row {} (example {}): {}", path, row,
                              packed.info().example_ids[row].value(), what));
}

std::uint64_t CompleteEdges(const ExpandSpec& expand, std::uint64_t edges, std::uint64_t nodes) {
  return edges * (expand.symmetrization == Symmetrization::kDirected ? 1 : 2) +
         (expand.add_self_edges ? nodes : 0);
}

Status ExpandEdges(const PackedBatch& packed, const ExpandLayout& layout, const EdgeGroup& group,
                   std::span<std::byte> out) {
  const auto dtype_of = [&](std::size_t tensor) { return packed.tensors()[tensor].spec.dtype; };
  return VisitEdgeDType(dtype_of(group.source), [&](auto end) {
    const DType labels = group.label ? dtype_of(*group.label) : DType::kUint8;
    return VisitEdgeDType(labels, [&](auto label) {
      using End = decltype(end);
      using Label = decltype(label);
      return layout.index_dtype == DType::kInt32
                 ? ExpandAll<End, Label, std::int32_t>(packed, layout, group, out)
                 : ExpandAll<End, Label, std::int64_t>(packed, layout, group, out);
    });
  });
}

}  // namespace millrace::internal
