// The content of a made-up graph, node by node.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "server/source/random.h"

namespace millrace::generator {

class MadeUpGraph {
 public:
  /// REQUIRES: the options are in range.
  explicit MadeUpGraph(const GraphGeneratorOptions& options) : options_(options) {}

  std::uint32_t Degree(std::uint64_t node) const;
  /// The nodes at the other ends of a node's edges, in the order of its row.
  void Row(std::uint64_t node, std::vector<std::int32_t>& row) const;
  /// The label of edge `number` of a node with `degree` edges. Labels ascend in a row.
  std::uint32_t EdgeLabel(std::uint32_t number, std::uint32_t degree) const;
  std::uint32_t NodeLabel(std::uint64_t node) const;
  std::uint32_t Class(std::uint64_t node) const {
    return Key(node, kClass).Below(options_.classes);
  }
  /// The values of node_feature/x or edge_feature/w: multiples of 2^-23 from -1 to below 1, plus 1
  /// in places that belong to the node's class.
  void NodeFeatures(std::uint64_t node, std::vector<float>& values) const;
  void EdgeFeatures(std::uint64_t edge, std::vector<float>& values) const;
  /// The node that is number `row` of roots/train. No node occurs twice.
  std::uint64_t Root(std::uint64_t row) const { return Spread(row, options_.nodes); }
  /// Where small graph `number` begins; the number of graphs gives the end of the last one.
  std::uint64_t GraphBegin(std::uint64_t number) const;

 private:
  enum Purpose : std::uint64_t { kDegree, kRow, kNodeLabel, kClass, kNodeFeature, kEdgeFeature };

  Random Key(std::uint64_t number, Purpose purpose) const {
    return Random(Mix(Mix(options_.seed, purpose), number));
  }
  /// A bijection of [0, n) that moves neighbours apart.
  static std::uint64_t Spread(std::uint64_t number, std::uint64_t n);
  /// The nodes to which edges of a node may lead.
  GraphRange Reach(std::uint64_t node) const;

  const GraphGeneratorOptions options_;
};

}  // namespace millrace::generator
