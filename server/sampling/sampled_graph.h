// A drawn graph: the neighbourhood of one root, or of all roots of a batch.
//
// A value that keeps its memory; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/sampling/scratch_array.h"

namespace millrace {

/// Most nodes of a graph that is shared by the examples of a batch, and most edges of a graph.
inline constexpr std::uint64_t kMaxSampledNodes = std::uint64_t{1} << 29;
inline constexpr std::uint64_t kMaxSampledEdges = std::uint64_t{1} << 30;

/// Node: the type of the dataset's numbers of nodes.
template <class Node>
struct SampledGraph {
  ScratchArray<Node> nodes;  // the dataset's numbers, by number in the graph
  // The edges, in the order in which they were recorded.
  ScratchArray<std::uint32_t> row;    // the node whose row has the edge, by its number in the graph
  ScratchArray<std::uint32_t> other;  // the node at the other end, likewise
  ScratchArray<std::uint64_t> place;  // in `indices`; undefined if not requested
  std::vector<std::uint32_t> hop_nodes;  // that each hop met first; the roots come first
  std::vector<std::uint32_t> hop_edges;  // that each hop recorded

  std::size_t edges() const { return row.size(); }

  void Clear() {
    nodes.SetSize(0);
    SetEdges(0);
    hop_nodes.clear();
    hop_edges.clear();
  }
  void SetEdges(std::size_t edges) {
    row.SetSize(edges);
    other.SetSize(edges);
    place.SetSize(edges);
  }
  void ReserveEdges(std::size_t edges) {
    row.Reserve(edges);
    other.Reserve(edges);
    place.Reserve(edges);
  }
};

}  // namespace millrace
