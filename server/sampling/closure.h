// The types of a closure. Views, builders and the code that packs examples share them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/batch/layout/layout.h"
#include "server/sampling/scratch_array.h"

namespace millrace {

/// How the build of a closure ended.
enum class ClosureEnd : std::uint8_t {
  kDone,
  kTooLarge,    // more than kMaxExampleNodes nodes, or kMaxExampleEdges edges
  kUnlabelled,  // the closure reaches a boundary node that has no label
  kExcluded,    // the closure needs a file that the pipeline excludes
  kFailed,      // the view read impossible data; its status has the reason
};

/// Most edges that a closure may have; with more it is too large. The limit is far above any real
/// example. It bounds the memory that a hostile file can ask for.
inline constexpr std::size_t kMaxExampleEdges = std::size_t{1} << 26;

/// Most nodes that a closure may have. As in the reference, a closure is full when its node count
/// equals max_subgraph_size. If there are more roots than that, the only limit is kMaxExampleNodes,
/// and an example beyond it is too large.
struct NodeLimit {
  NodeLimit(std::uint32_t max_subgraph_size, std::uint32_t roots)
      : limited(max_subgraph_size >= roots), full(limited ? max_subgraph_size : kMaxExampleNodes) {}
  bool limited;        // nodes beyond `full` are left out; if false, the example is too large
  std::uint32_t full;  // most nodes
};

/// The data read from a node: its label and the position of its edges.
template <class View>
struct LoadedNode {
  std::uint32_t label;  // View::kBoundary for every boundary node; its own label is looked up later
  std::uint32_t count;  // number of edges
  typename View::EdgeAt edges;
};

/// Number of edges that a view always copies, wanted or not. Most nodes have no more than these.
inline constexpr std::uint32_t kEdgesAtOnce = 4;

/// The numbers of the two nodes that an edge of a closure joins. While the edge waits for its turn,
/// `target` holds the home of its source.
struct EdgeEnds {
  /// The `target` of an edge that does not belong to the closure after all.
  static constexpr std::uint32_t kDropped = 0xFFFFFFFF;

  std::uint32_t source;
  std::uint32_t target;
};

/// A node of a closure.
template <class Node>
struct FoundNode {
  Node node;
  std::uint32_t label;
};

/// A closure: the labels of its nodes in the order of their numbers, and its edges in the order in
/// which they were recorded.
struct Closure {
  ScratchArray<std::uint32_t> node_labels;
  ScratchArray<std::uint64_t> edge_words;  // as stored in the data; the low 16 bits hold the class
  ScratchArray<EdgeEnds> edge_ends;

  std::size_t edges() const { return edge_words.size(); }
  void SetEdges(std::size_t edges) {
    edge_words.SetSize(edges);
    edge_ends.SetSize(edges);
  }
};

}  // namespace millrace
