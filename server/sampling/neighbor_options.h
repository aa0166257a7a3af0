// Which neighbours are drawn.
//
// Value types.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace millrace {

/// How many entries of a row are drawn at each hop: all of them if kAllEntries.
inline constexpr std::int64_t kAllEntries = -1;
/// The most entries that may be drawn from a row.
inline constexpr std::int64_t kMaxFanout = std::int64_t{1} << 20;
using Fanout = std::vector<std::int64_t>;

/// Fan-outs of the edges of one label.
struct LabelFanout {
  std::uint32_t label = 0;
  Fanout fanout;
};

struct NeighborOptions {
  /// By hop, for rows as a whole. Empty if `by_label` is not.
  Fanout fanout;
  /// By hop, for the edges of each label by themselves; labels ascend, and edges of other labels
  /// are not followed. All have equally many hops.
  std::vector<LabelFanout> by_label = {};
  bool replace = false;
  /// Once a graph has this many nodes, entries that lead to other nodes are left out. Absent: a
  /// graph with more than most_nodes is too large.
  std::optional<std::uint32_t> max_subgraph_size = {};
  std::uint32_t most_nodes = 0;
  /// Whether the graph says where in `indices` its edges are.
  bool places = true;

  std::uint32_t hops() const {
    return static_cast<std::uint32_t>((by_label.empty() ? fanout : by_label[0].fanout).size());
  }
};

}  // namespace millrace
