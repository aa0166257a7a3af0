// How closures are built.
//
// Value types.
#pragma once

#include <cstdint>

namespace millrace {

enum class ClosureOrder : std::uint8_t { kBreadthFirst, kDepthFirst };

/// How closures are built. All give the same batches.
enum class ClosureKernel : std::uint8_t {
  kArray,    // one at a time; visited nodes are marked in an array, 4 bytes for every node there is
  kTable,    // one at a time; visited nodes are marked in a table
  kInTurns,  // several in turns, each with a table; breadth first only
};
/// With more nodes than these the array of kArray leaves the processor's caches, and a table is
/// faster.
inline constexpr std::uint64_t kMaxArrayNodes = std::uint64_t{1} << 20;

struct ClosureOptions {
  std::uint32_t max_subgraph_size = 1024;  // 1 to kMaxExampleNodes
  ClosureOrder order = ClosureOrder::kBreadthFirst;
  bool stop_at_definitions = true;
};

}  // namespace millrace
