// Options for building closures.
//
// Value types.
#pragma once

#include <cstdint>

namespace millrace {

enum class ClosureOrder : std::uint8_t { kBreadthFirst, kDepthFirst };

/// Ways to build closures. All of them give the same batches.
enum class ClosureKernel : std::uint8_t {
  kArray,    // one at a time; an array marks visited nodes, with 4 bytes for every node of the data
  kTable,    // one at a time; a table marks visited nodes
  kInTurns,  // several in turns, each with its own table; breadth first only
};
/// Largest number of nodes for kArray. With more nodes its array does not fit into the processor's
/// caches, and a table is faster.
inline constexpr std::uint64_t kMaxArrayNodes = std::uint64_t{1} << 20;

struct ClosureOptions {
  std::uint32_t max_subgraph_size = 1024;  // 1 to kMaxExampleNodes
  ClosureOrder order = ClosureOrder::kBreadthFirst;
  bool stop_at_boundary = true;  // edges of boundary nodes are not followed, unless they are roots
};

}  // namespace millrace
