// What a closure is made of: the words that views, builders and those who pack examples share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/batch/layout.h"
#include "server/pipeline/scratch_array.h"

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

/// The label of an edge that closures do not follow.
inline constexpr std::uint32_t kSkippedEdge = 0xFFFFFFFF;

/// What Next reads. Of a skipped edge only the label is set.
template <class Node>
struct FoundEdge {
  std::uint32_t label;  // base label, or kSkippedEdge
  Node target;
  std::uint64_t slot;  // of the target
};

/// What Load reads.
template <class Children>
struct LoadedNode {
  std::uint32_t label;  // node label
  bool is_definition;
  Children children;
};

/// A recorded edge: numbers of nodes in the example take 24 bits each, the base label 16.
class RecordedEdge {
 public:
  RecordedEdge() = default;
  RecordedEdge(std::uint32_t source, std::uint32_t target, std::uint32_t label)
      : bits_(std::uint64_t{source} | std::uint64_t{target} << 24 | std::uint64_t{label} << 48) {}
  std::uint32_t source() const { return bits_ & 0xFFFFFF; }
  std::uint32_t target() const { return bits_ >> 24 & 0xFFFFFF; }
  std::uint32_t label() const { return static_cast<std::uint32_t>(bits_ >> 48); }

 private:
  std::uint64_t bits_;
};
static_assert(kMaxExampleNodes < 1u << 24);

/// A closure: labels of the nodes in the order of their numbers, edges in the order of recording.
struct Closure {
  explicit Closure(std::uint32_t edge_labels) : edges_of_label(edge_labels, 0) {}

  ScratchArray<std::uint32_t> node_labels;
  ScratchArray<RecordedEdge> edges;
  std::vector<std::uint32_t> edges_of_label;  // how many, by base label
};

}  // namespace millrace
