// What a closure is made of: the words that views, builders and those who pack examples share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/batch/layout/layout.h"
#include "server/pipeline/closure/scratch_array.h"

namespace millrace {

/// How the build of a closure ends.
enum class ClosureEnd : std::uint8_t {
  kDone,
  kTooLarge,    // more than kMaxExampleNodes nodes, or kMaxExampleEdges edges
  kUnlabelled,  // reaches a definition without label
  kExcluded,    // reads a file that the pipeline excludes
  kFailed,      // the view read something that cannot be; it knows what
};

/// Edges a closure may have before it counts as too large: far above any real example, and what
/// bounds the memory that a hostile file can ask for.
inline constexpr std::size_t kMaxExampleEdges = std::size_t{1} << 26;

/// Nodes that a closure takes. Equality with the limit, as the reference tests: more roots than the
/// limit mean no limit but kMaxExampleNodes, beyond which an example is too large.
struct NodeLimit {
  NodeLimit(std::uint32_t max_subgraph_size, std::uint32_t roots)
      : limited(max_subgraph_size >= roots), full(limited ? max_subgraph_size : kMaxExampleNodes) {}
  bool limited;        // at `full`, further nodes are left out; else the example is too large
  std::uint32_t full;  // nodes
};

/// What is read of a node: its label, and which edges are its own.
template <class View>
struct LoadedNode {
  std::uint32_t label;  // View::kDefinition of every definition, whose own label is looked up later
  std::uint32_t count;  // of edges
  typename View::EdgeAt edges;
};

/// Edges that a view copies at once, wanted or not: most nodes have no more.
inline constexpr std::uint32_t kEdgesAtOnce = 4;

/// Numbers of the nodes that an edge of a closure joins. While the edge waits for its turn,
/// `target` is the home of its source.
struct EdgeEnds {
  /// The target of an edge that turned out to be none of the closure's.
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

/// A closure: labels of the nodes in the order of their numbers, edges in the order of recording.
struct Closure {
  ScratchArray<std::uint32_t> node_labels;
  ScratchArray<std::uint64_t> edge_words;  // as they lie in the data: the class in the low 16 bits
  ScratchArray<EdgeEnds> edge_ends;

  std::size_t edges() const { return edge_words.size(); }
  void SetEdges(std::size_t edges) {
    edge_words.SetSize(edges);
    edge_ends.SetSize(edges);
  }
};

}  // namespace millrace
