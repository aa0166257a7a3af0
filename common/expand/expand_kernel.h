// Expansion as a kernel. It writes the same bytes as expand.h, in tiles that may run in any order,
// so that thousands of threads of a GPU can share the work. A CPU can run the same code.
//
// The work is a table of tasks (expand_task.h). A task has elements: values of the packed form, or
// edges, nodes, rows or bytes. Every element finds by binary search the example that it belongs to,
// and from that the place of its values. So no element waits for another.
//
// If a value is wrong, the error word is set, and nothing is written outside the tensors. To make
// the error message, the host expands the same batch again (expand_program.h).
//
// C++17, because nvcc compiles it too.
#pragma once

#include <cstdint>

#include "common/expand/expand_task.h"
#include "common/expand/tile.h"

namespace millrace::kernel {

template <class T>
MILLRACE_HOST_DEVICE const T* ColumnAs(const Launch& launch, const Column& column) {
  return reinterpret_cast<const T*>(launch.payload + column.offset);
}

/// A view of a splits tensor of any unsigned type.
struct Splits {
  const unsigned char* data;
  Type type;

  MILLRACE_HOST_DEVICE Splits(const Launch& launch, const Column& column)
      : data(launch.payload + column.offset), type(column.type) {}

  MILLRACE_HOST_DEVICE std::uint64_t operator[](std::uint64_t i) const {
    switch (type) {
      case Type::kUint8:
        return Load(data + i);
      case Type::kUint16:
        return Load(reinterpret_cast<const std::uint16_t*>(data) + i);
      case Type::kUint32:
        return Load(reinterpret_cast<const std::uint32_t*>(data) + i);
      default:
        return Load(reinterpret_cast<const std::uint64_t*>(data) + i);
    }
  }

  /// The row in [low, high] to which element `i` belongs; `high` if no other row has it.
  MILLRACE_HOST_DEVICE std::uint64_t RowOf(std::uint64_t i, std::uint64_t low,
                                           std::uint64_t high) const {
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if ((*this)[middle + 1] > i) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
};

struct RowSpan {
  std::uint64_t low;
  std::uint64_t high;
};

/// The first and the last row of a share's elements. Later searches need only go between them.
/// `first` is the first element of the task.
MILLRACE_HOST_DEVICE inline RowSpan RowsOf(const Launch& launch, const Splits& splits,
                                           std::uint64_t first, const Share& share) {
  const std::uint64_t last = launch.first_row + launch.rows - 1;
  const std::uint64_t low = splits.RowOf(first + share.begin, launch.first_row, last);
  return {low, splits.RowOf(first + share.end - 1, low, last)};
}

template <class In, class Out>
MILLRACE_HOST_DEVICE void WidenTile(const Launch& launch, const Task& task, const Share& share) {
  const In* const in = ColumnAs<In>(launch, task.in) + task.first;
  Out* const out = reinterpret_cast<Out*>(launch.out + task.out);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    const In value = Load(in + i);
    if (!Fits<Out>(value)) *launch.error = 1;
    out[i] = static_cast<Out>(value);
  }
}

/// Splits are unsigned. LayOutExpanded has checked that the row numbers fit.
template <class Out>
MILLRACE_HOST_DEVICE void SplitsTile(const Launch& launch, const Task& task, const Share& share) {
  const Splits in(launch, task.in);
  Out* const out = reinterpret_cast<Out*>(launch.out + task.out);
  const std::uint64_t base = in[task.first];
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    out[i] = static_cast<Out>(in[task.first + i] - base);
  }
}

template <class In, class Out>
MILLRACE_HOST_DEVICE void NodeTile(const Launch& launch, const Task& task, const Share& share) {
  const In* const in = ColumnAs<In>(launch, task.in) + task.first;
  Out* const out = reinterpret_cast<Out*>(launch.out + task.out);
  const Splits nodes(launch, task.node_splits);
  const Splits splits(launch, task.cut ? task.splits : task.node_splits);
  const std::uint64_t base = nodes[launch.first_row];
  const bool cut = task.cut && !task.merged;
  const RowSpan span = cut ? RowsOf(launch, splits, task.first, share) : RowSpan{0, 0};
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    const std::uint64_t own = task.merged ? 0 : launch.first_row + i;
    const std::uint64_t row = cut ? splits.RowOf(task.first + i, span.low, span.high) : own;
    const std::uint64_t first = nodes[row];
    // A negative number becomes a very large one here.
    const auto value = static_cast<std::uint64_t>(Load(in + i));
    if (value >= nodes[row + 1] - first) *launch.error = 1;
    out[i] = static_cast<Out>(first - base + value);
  }
}

MILLRACE_HOST_DEVICE inline std::uint64_t Copies(const Task& task) {
  return task.mirror == Mirror::kNone ? 1 : 2;
}

template <class Out>
struct EdgeOut {
  Out* source;
  Out* target;
  Out* label;  // nullptr if edges are not labelled

  MILLRACE_HOST_DEVICE EdgeOut(const Launch& launch, const Task& task)
      : source(reinterpret_cast<Out*>(launch.out + task.out)),
        target(reinterpret_cast<Out*>(launch.out + task.out_target)),
        label(task.labelled ? reinterpret_cast<Out*>(launch.out + task.out_label) : nullptr) {}

  MILLRACE_HOST_DEVICE void Put(std::uint64_t at, Out a, Out b, Out with) const {
    source[at] = a;
    target[at] = b;
    if (label != nullptr) label[at] = with;
  }
};

/// Among the ascending labels of edges [begin, end), finds where labels equal to the label of edge
/// `at` begin (`after` is false) or end. The result is in [begin, end] even if the labels do not
/// ascend.
template <class Label>
MILLRACE_HOST_DEVICE std::uint64_t GroupBound(const Label* label, std::uint64_t begin,
                                              std::uint64_t end, std::uint64_t at, bool after) {
  const Label value = Load(label + at);
  std::uint64_t low = after ? at + 1 : begin;
  std::uint64_t high = after ? end : at;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const Label there = Load(label + middle);
    if (after ? there <= value : there < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class End, class Label, class Out>
MILLRACE_HOST_DEVICE void EdgeTile(const Launch& launch, const Task& task, const Share& share) {
  const End* const sources = ColumnAs<End>(launch, task.in);
  const End* const targets = ColumnAs<End>(launch, task.target);
  const Label* const labels = ColumnAs<Label>(launch, task.label);
  const EdgeOut<Out> out(launch, task);
  const Splits splits(launch, task.splits);
  const Splits nodes(launch, task.node_splits);
  const RowSpan span = RowsOf(launch, splits, task.first, share);
  const std::uint64_t first_edge = splits[launch.first_row];
  const std::uint64_t first_node = nodes[launch.first_row];
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    const std::uint64_t edge = task.first + i;
    const std::uint64_t row = splits.RowOf(edge, span.low, span.high);
    const std::uint64_t begin = splits[row];
    const std::uint64_t end = splits[row + 1];
    const std::uint64_t node = nodes[row];
    const std::uint64_t count = nodes[row + 1] - node;
    const End source = Load(sources + edge);
    const End target = Load(targets + edge);
    const Label label = task.labelled ? Load(labels + edge) : Label{0};
    if (source >= count || target >= count || label >= task.base_labels ||
        (task.labelled && edge > begin && Load(labels + edge - 1) > label)) {
      *launch.error = 1;
    }
    const auto a = static_cast<Out>(node - first_node + source);
    const auto b = static_cast<Out>(node - first_node + target);
    // The place at which the edges of the example begin in the delivered batch.
    const std::uint64_t start =
        Copies(task) * (begin - first_edge) + (task.self_edges ? node - first_node : 0);
    const std::uint64_t place = edge - begin;
    switch (task.mirror) {
      case Mirror::kNone:
        out.Put(start + place, a, b, static_cast<Out>(label));
        break;
      case Mirror::kBidirectional:
        out.Put(start + place, a, b, static_cast<Out>(label));
        out.Put(start + (end - begin) + place, b, a,
                static_cast<Out>(std::uint64_t{task.base_labels} + label));
        break;
      case Mirror::kUndirected: {
        // A group of n edges that begins at place g becomes 2 n edges that begin at place 2 g.
        std::uint64_t from = 0;
        std::uint64_t to = end - begin;
        if (task.labelled) {
          from = GroupBound(labels, begin, end, edge, false) - begin;
          to = GroupBound(labels, begin, end, edge, true) - begin;
        }
        out.Put(start + from + place, a, b, static_cast<Out>(label));
        out.Put(start + to + place, b, a, static_cast<Out>(label));
        break;
      }
    }
  }
}

/// The self-loops of an example come after all its other edges.
template <class Out>
MILLRACE_HOST_DEVICE void SelfEdgeTile(const Launch& launch, const Task& task, const Share& share) {
  const EdgeOut<Out> out(launch, task);
  const Splits splits(launch, task.splits);
  const Splits nodes(launch, task.node_splits);
  const RowSpan span = RowsOf(launch, nodes, task.first, share);
  const std::uint64_t first_edge = splits[launch.first_row];
  const auto label = static_cast<Out>(std::uint64_t{task.base_labels} *
                                      (task.mirror == Mirror::kBidirectional ? 2 : 1));
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    const std::uint64_t row = nodes.RowOf(task.first + i, span.low, span.high);
    const auto node = static_cast<Out>(i);
    out.Put(Copies(task) * (splits[row + 1] - first_edge) + i, node, node, label);
  }
}

template <class Out>
MILLRACE_HOST_DEVICE void EdgeSplitsTile(const Launch& launch, const Task& task,
                                         const Share& share) {
  const Splits splits(launch, task.splits);
  const Splits nodes(launch, task.node_splits);
  Out* const out = reinterpret_cast<Out*>(launch.out + task.out);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    const std::uint64_t row = launch.first_row + i;
    const std::uint64_t self = task.self_edges ? nodes[row] - nodes[launch.first_row] : 0;
    out[i] = static_cast<Out>(Copies(task) * (splits[row] - splits[launch.first_row]) + self);
  }
}

/// Calls Tile::Run with a value of the C++ type for `type`.
template <class Tile>
MILLRACE_HOST_DEVICE void ForType(Type type, const Launch& launch, const Task& task,
                                  const Share& share) {
  switch (type) {
    case Type::kUint8:
      return Tile::template Run<std::uint8_t>(launch, task, share);
    case Type::kUint16:
      return Tile::template Run<std::uint16_t>(launch, task, share);
    case Type::kUint32:
      return Tile::template Run<std::uint32_t>(launch, task, share);
    case Type::kUint64:
      return Tile::template Run<std::uint64_t>(launch, task, share);
    case Type::kInt8:
      return Tile::template Run<std::int8_t>(launch, task, share);
    case Type::kInt16:
      return Tile::template Run<std::int16_t>(launch, task, share);
    case Type::kInt32:
      return Tile::template Run<std::int32_t>(launch, task, share);
    case Type::kInt64:
      return Tile::template Run<std::int64_t>(launch, task, share);
  }
}

template <class Out>
struct WidenAny {
  template <class In>
  MILLRACE_HOST_DEVICE static void Run(const Launch& launch, const Task& task, const Share& share) {
    WidenTile<In, Out>(launch, task, share);
  }
};

template <class Out>
struct NodeAny {
  template <class In>
  MILLRACE_HOST_DEVICE static void Run(const Launch& launch, const Task& task, const Share& share) {
    NodeTile<In, Out>(launch, task, share);
  }
};

/// Edge ends and labels are unsigned and at most 32 bits wide (tensor_table.h).
template <class End, class Out>
MILLRACE_HOST_DEVICE void EdgeTileOf(const Launch& launch, const Task& task, const Share& share) {
  switch (task.label.type) {
    case Type::kUint8:
      return EdgeTile<End, std::uint8_t, Out>(launch, task, share);
    case Type::kUint16:
      return EdgeTile<End, std::uint16_t, Out>(launch, task, share);
    default:
      return EdgeTile<End, std::uint32_t, Out>(launch, task, share);
  }
}

template <class Out>
MILLRACE_HOST_DEVICE void EdgeAnyTile(const Launch& launch, const Task& task, const Share& share) {
  switch (task.in.type) {
    case Type::kUint8:
      return EdgeTileOf<std::uint8_t, Out>(launch, task, share);
    case Type::kUint16:
      return EdgeTileOf<std::uint16_t, Out>(launch, task, share);
    default:
      return EdgeTileOf<std::uint32_t, Out>(launch, task, share);
  }
}

template <class Word>
MILLRACE_HOST_DEVICE void CopyTile(const Launch& launch, const Task& task, const Share& share) {
  const Word* const in = ColumnAs<Word>(launch, task.in) + task.first;
  Word* const out = reinterpret_cast<Word*>(launch.out + task.out);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    out[i] = Load(in + i);
  }
}

MILLRACE_HOST_DEVICE inline void CopyAnyTile(const Launch& launch, const Task& task,
                                             const Share& share) {
  switch (task.in.type) {
    case Type::kUint16:
      return CopyTile<std::uint16_t>(launch, task, share);
    case Type::kUint32:
      return CopyTile<std::uint32_t>(launch, task, share);
    case Type::kUint64:
      return CopyTile<std::uint64_t>(launch, task, share);
    default:
      return CopyTile<std::uint8_t>(launch, task, share);
  }
}

MILLRACE_HOST_DEVICE inline void BoolTile(const Launch& launch, const Task& task,
                                          const Share& share) {
  const unsigned char* const in = launch.payload + task.in.offset + task.first;
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    const unsigned char value = Load(in + i);
    if (value > 1) *launch.error = 1;
    launch.out[task.out + i] = value;
  }
}

MILLRACE_HOST_DEVICE inline void PaddingTile(const Launch& launch, const Task& task,
                                             const Share& share) {
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    launch.out[task.out + i] = 0;
  }
}

template <class Word>
MILLRACE_HOST_DEVICE void FillTile(const Launch& launch, const Task& task, const Share& share) {
  Word* const out = reinterpret_cast<Word*>(launch.out + task.out);
  const Word value = static_cast<Word>(task.value);
  for (std::uint64_t i = share.begin + share.thread; i < share.end; i += share.threads) {
    out[i] = value;
  }
}

MILLRACE_HOST_DEVICE inline void FillAnyTile(const Launch& launch, const Task& task,
                                             const Share& share) {
  switch (task.in.type) {
    case Type::kUint16:
      return FillTile<std::uint16_t>(launch, task, share);
    case Type::kUint32:
      return FillTile<std::uint32_t>(launch, task, share);
    case Type::kUint64:
      return FillTile<std::uint64_t>(launch, task, share);
    default:
      return FillTile<std::uint8_t>(launch, task, share);
  }
}

template <class Out>
MILLRACE_HOST_DEVICE void RunTask(const Launch& launch, const Task& task, const Share& share) {
  switch (task.op) {
    case Op::kWiden:
      return ForType<WidenAny<Out>>(task.in.type, launch, task, share);
    case Op::kSplits:
      return SplitsTile<Out>(launch, task, share);
    case Op::kNodeOffset:
      return ForType<NodeAny<Out>>(task.in.type, launch, task, share);
    case Op::kEdges:
      return EdgeAnyTile<Out>(launch, task, share);
    case Op::kSelfEdges:
      return SelfEdgeTile<Out>(launch, task, share);
    case Op::kEdgeSplits:
      return EdgeSplitsTile<Out>(launch, task, share);
    case Op::kCopy:
      return CopyAnyTile(launch, task, share);
    case Op::kBools:
      return BoolTile(launch, task, share);
    case Op::kPadding:
      return PaddingTile(launch, task, share);
    case Op::kFill:
      return FillAnyTile(launch, task, share);
  }
}

/// Does the part of a tile that belongs to thread `thread` of `threads`. REQUIRES: tile <
/// launch.tiles.
MILLRACE_HOST_DEVICE inline void RunTile(const Launch& launch, std::uint64_t tile,
                                         std::uint32_t thread, std::uint32_t threads) {
  const Task& task = TaskOfTile(launch.tasks, launch.task_count, tile);
  const Share share = ShareOfTile(task, tile, thread, threads);
  if (launch.wide) {
    RunTask<std::int64_t>(launch, task, share);
  } else {
    RunTask<std::int32_t>(launch, task, share);
  }
}

}  // namespace millrace::kernel
