// Writes graph datasets of the R-MAT model (D. Chakrabarti, Y. Zhan, C. Faloutsos, "R-MAT: A
// Recursive Model for Graph Mining", SDM 2004): an edge falls into one of the four quadrants of the
// matrix of nodes, then into a quadrant of that quadrant, and so on. A few nodes get very many
// edges, and many get no edges. As in Graph500, there may be double edges and self-loops, and nodes
// are renumbered at random.
//
// With classes, half of the edges lead to a node of the class from which they come. The features of
// a node show a class, which is its own for half of the nodes and any for the others: so a model
// that sees only the node itself is right in about half of the cases, and a model that sees
// neighbours more often.
//
// Each edge follows from (options, its number), and a node's values from (options, its number). So
// edges are drawn again for every pass over them. Memory is 8 bytes per node and 4 bytes per edge,
// at most 4 GiB for the edges; features need no memory. Equal options give equal bytes on any
// machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "common/base/result.h"
#include "server/kinds/graph/format/graph_description.h"
#include "server/kinds/graph/generator/graph_generator.h"

namespace millrace {

struct RmatOptions {
  std::uint64_t seed = 0;
  std::uint64_t nodes = 1'000'000;   // 4 to 2^31 - 1; any number, not only powers of two
  std::uint64_t edges = 16'000'000;  // 1 to 2^32 - 1
  GraphRows rows = GraphRows::kSource;
  /// Chances of the quadrants in percent: a (both ends in the lower half of the numbers, at least
  /// 25), b (the source in the lower, the target in the upper half) and c (the reverse). The rest,
  /// d, is for both ends in the upper half. The defaults are the values of Graph500.
  std::uint32_t a = 57;
  std::uint32_t b = 19;
  std::uint32_t c = 19;
  /// Values of node_feature/x of a node. 0: no such array.
  std::uint32_t features = 32;
  /// Classes of nodes, in node_feature/y. 0: no such array; edges and features then ignore classes.
  std::uint32_t classes = 0;
  /// Length of roots/train; 0: a tenth of the nodes, at least 1. At most half of the nodes.
  /// roots/valid and roots/test have half of that, at least 1. No node is in two lists.
  std::uint64_t roots = 0;
  /// Entries of rows that are in memory at once; for tests.
  std::uint64_t entries_at_once = std::uint64_t{1} << 30;
  /// Called now and then with how many nodes were done since the last call, of `total`. May be
  /// empty.
  std::function<void(std::uint64_t nodes, std::uint64_t total)> progress;
};

/// Writes the dataset into `dir`, which is created if it does not exist. Errors as GenerateGraph.
Status GenerateRmat(const std::filesystem::path& dir, const RmatOptions& options,
                    GraphGeneratorReport* report);

}  // namespace millrace
