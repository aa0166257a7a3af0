#include "server/kinds/graph/generator/made_up_graph.h"

#include <algorithm>

namespace millrace::generator {
namespace {

// A prime above every number of nodes, so it has no divisor in common with them. A product with a
// number of nodes has fewer than 64 bits.
constexpr std::uint64_t kFarApart = 2'654'435'761;
constexpr std::uint32_t kMaxDegree = 1u << 20;

/// A multiple of 2^-23 from -1 to below 1.
float SmallNumber(Random& random) {
  const auto number = static_cast<std::int32_t>(random.Next() >> 40) - (1 << 23);
  return static_cast<float>(number) * 0x1p-23f;
}

/// A number below n. The chance of number r falls as 1 / sqrt(r), so that the numbers of times
/// follow a power law too.
std::uint32_t Rank(Random& random, std::uint32_t n) {
  while (n > 1 && random.Below(256) < 181) n /= 2;  // 181 / 256 is 1 / sqrt(2)
  return random.Below(n);
}

}  // namespace

std::uint64_t MadeUpGraph::Spread(std::uint64_t number, std::uint64_t n) {
  return number * kFarApart % n;
}

GraphRange MadeUpGraph::Reach(std::uint64_t node) const {
  if (options_.graphs == 0) return {0, options_.nodes};
  std::uint64_t graph = node * options_.graphs / options_.nodes;
  // Begins are rounded down, so the next graph may begin here already.
  while (GraphBegin(graph + 1) <= node) ++graph;
  return {GraphBegin(graph), GraphBegin(graph + 1)};
}

std::uint64_t MadeUpGraph::GraphBegin(std::uint64_t number) const {
  return number * options_.nodes / options_.graphs;
}

std::uint32_t MadeUpGraph::Degree(std::uint64_t node) const {
  Random random = Key(node, kDegree);
  if (random.OneIn(16)) return 0;
  // Each octave has 96 / 256 of the nodes of the one before, so the mean is 3.75 times the base.
  const std::uint32_t base = std::max(1u, options_.degree * 4 / 15);
  const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(kMaxDegree, options_.nodes));
  return random.HeavyTail(base, 96, most);
}

void MadeUpGraph::Row(std::uint64_t node, std::vector<std::int32_t>& row) const {
  const GraphRange reach = Reach(node);
  const auto nodes = static_cast<std::uint32_t>(reach.size());
  Random random = Key(node, kRow);
  const std::uint32_t own_class = Class(node);
  row.resize(Degree(node));
  for (std::int32_t& target : row) {
    // Ranks are spread, so that popular nodes lie everywhere.
    std::uint64_t found = reach.begin + Spread(Rank(random, nodes), nodes);
    const bool stays = random.OneIn(2);
    for (int tries = 0; stays && tries < 8 && Class(found) != own_class; ++tries) {
      found = reach.begin + Spread(Rank(random, nodes), nodes);
    }
    target = static_cast<std::int32_t>(found);
  }
}

std::uint32_t MadeUpGraph::EdgeLabel(std::uint32_t number, std::uint32_t degree) const {
  return static_cast<std::uint32_t>(std::uint64_t{number} * options_.edge_labels / degree);
}

std::uint32_t MadeUpGraph::NodeLabel(std::uint64_t node) const {
  return Key(node, kNodeLabel).LowBelow(options_.node_labels);
}

void MadeUpGraph::NodeFeatures(std::uint64_t node, std::vector<float>& values) const {
  Random random = Key(node, kNodeFeature);
  const std::uint32_t own_class = Class(node);
  values.resize(options_.features);
  for (std::uint32_t f = 0; f < options_.features; ++f) {
    values[f] = SmallNumber(random) + (f % options_.classes == own_class ? 1.0f : 0.0f);
  }
}

void MadeUpGraph::EdgeFeatures(std::uint64_t edge, std::vector<float>& values) const {
  Random random = Key(edge, kEdgeFeature);
  values.resize(options_.edge_features);
  for (float& value : values) value = SmallNumber(random);
}

}  // namespace millrace::generator
