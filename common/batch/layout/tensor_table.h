// The rules for a list of tensors. They hold for every source of a list: a plan, or the header of a
// batch that came over the network.
//
//  - A tensor without `splits` has one row per example, or, if its dimension is `graphs`, per
//    graph. A tensor with `splits` has as many rows as the last number of the splits tensor that it
//    names: node_label names node_splits, and edge_source names edge_splits.
//  - A row is a value, or an array whose extents are fixed: at most kMaxInner of them, each at
//    least 1, and at most kMaxRowValues values together.
//  - Integers have bounds, which are in the range of their type. Bools and floats have none (0),
//    and expand as kKeep, as do string bytes, which are uint8.
//  - A splits tensor has the kind kSplits, an unsigned dtype, and one row more than there are
//    examples, or, if its dimension is `graphs+1`, graphs. It cuts at least one tensor. Table
//    references are integers.
//  - A tensor with the expansion kNodeOffset, kEdgeSource or kEdgeTarget names in `node_splits` the
//    splits tensor that numbers the nodes. In merged batches these splits, and the splits of edges,
//    belong to graphs.
//  - A splits tensor with the expansion kEdgeSplits cuts a group of edges: exactly one kEdgeSource,
//    one kEdgeTarget and at most one kEdgeLabel. Source and target have the same dtype and the same
//    node_splits. There may be several groups. A group without kEdgeLabel has edges of one label
//    only, 0, when it is delivered too. If the expansion adds reversed edges or self-loops, no
//    other tensor may name the splits of a group.
//  - Paths and names of dimensions are 1 to 255 printable ASCII characters without blanks.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"

namespace millrace {

inline constexpr std::size_t kMaxTensors = 1024;
/// Dimensions of a tensor: its rows and the inner extents of a row.
inline constexpr std::size_t kMaxDimensions = 8;
inline constexpr std::size_t kMaxInner = kMaxDimensions - 1;
/// No row has more values.
inline constexpr std::uint64_t kMaxRowValues = std::uint64_t{1} << 30;
inline constexpr std::uint32_t kMaxBaseEdgeLabels = 1u << 16;

/// The numbers of the tensors that describe one group of edges.
struct EdgeGroup {
  std::size_t splits = 0;
  std::size_t source = 0;
  std::size_t target = 0;
  std::optional<std::size_t> label = {};  // empty: all edges have label 0
  std::size_t node_splits = 0;

  /// Calls `use` with the number of each tensor that has a row for every edge of the group.
  template <class Use>
  void ForEnds(const Use& use) const {
    use(source);
    use(target);
    if (label) use(*label);
  }
};

/// The number of the tensor with this path; empty if there is none.
std::optional<std::size_t> FindTensor(std::span<const TensorSpec> tensors, std::string_view path);

/// The groups of edges, in the order of their splits. InvalidArgument names the tensor that breaks
/// one of the rules above, and the rule.
Result<std::vector<EdgeGroup>> CheckTensors(std::span<const TensorSpec> tensors,
                                            const ExpandSpec& expand);

}  // namespace millrace
