// The words of nodes and edges as they are in a mapped file (docs/formats/coq-dataset.md, "Words").
//
// A mapped file can change under the reader. So load a word only once, decode the copy, and check
// the decoded values.
#pragma once

#include <cstdint>

namespace millrace {

/// Number of words (of 8 bytes) from one node to the next.
inline constexpr std::uint32_t kNodeWords = 3;
/// Number of node classes. Every tag is below it.
inline constexpr std::uint32_t kNodeClasses = 26;
/// The tag of a definition.
inline constexpr std::uint32_t kDefinitionTag = 3;
/// Number of edge classes. Every label is below it.
inline constexpr std::uint32_t kEdgeClasses = 44;
/// The label of edges that closures do not follow.
inline constexpr std::uint32_t kConstOpaqueDef = 7;

/// Reads a word of a mapped file exactly once: the compiler may neither repeat nor split the load.
inline std::uint64_t LoadWord(const std::uint64_t* word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/// A node's first word. The second word is the node's identity.
struct NodeWord {
  std::uint32_t tag;             // the node's class
  std::uint32_t children_count;  // up to 65535
  std::uint32_t children_index;  // position of the first child in the edges

  static NodeWord Decode(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word & 0xFFFF),
            static_cast<std::uint32_t>((word >> 16) & 0xFFFF),
            static_cast<std::uint32_t>(word >> 32)};
  }
};

/// An edge.
struct EdgeWord {
  std::uint32_t label;       // the edge's class
  std::uint32_t dependency;  // position in the file's dependencies
  std::uint32_t node;        // node number in that file

  static EdgeWord Decode(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word & 0xFFFF),
            static_cast<std::uint32_t>((word >> 16) & 0xFFFF),
            static_cast<std::uint32_t>(word >> 32)};
  }
};

}  // namespace millrace
