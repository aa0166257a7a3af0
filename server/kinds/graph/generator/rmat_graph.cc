#include "server/kinds/graph/generator/rmat_graph.h"

#include <bit>

namespace millrace::generator {
namespace {

/// A multiple of 2^-23 from -1 to below 1, of 24 bits.
float SignedFraction(std::uint64_t bits) {
  return static_cast<float>(static_cast<std::int32_t>(bits & 0xFFFFFF) - (1 << 23)) * 0x1p-23f;
}

std::uint32_t Of16Bits(std::uint32_t percent) { return percent * 65536 / 100; }

}  // namespace

RmatGraph::RmatGraph(const RmatOptions& options)
    : options_(options),
      order_(Key(kOrder), 0, options.nodes),
      roots_(Key(kRoots), 0, options.nodes),
      levels_(static_cast<unsigned>(std::bit_width(options.nodes - 1))),
      a_(Of16Bits(options.a)),
      b_(Of16Bits(options.a + options.b)),
      c_(Of16Bits(options.a + options.b + options.c)) {}

RmatEdge RmatGraph::Draw(Random& random) const {
  RmatEdge edge;
  std::uint64_t word = 0;
  for (unsigned level = 0; level < levels_; ++level, word >>= 16) {
    if (level % 4 == 0) word = random.Next();
    const std::uint32_t draw = word & 0xFFFF;
    edge.source = edge.source << 1 | static_cast<std::uint64_t>(draw >= b_);
    edge.target =
        edge.target << 1 | static_cast<std::uint64_t>(((draw >= a_) & (draw < b_)) | (draw >= c_));
  }
  return edge;
}

RmatEdge RmatGraph::Edge(std::uint64_t number) const {
  Random random(Key(kEdge, number));
  RmatEdge edge = Draw(random);
  // The matrix is as large as the next power of two. Chances are at least `a` that both are nodes.
  while (edge.source >= options_.nodes || edge.target >= options_.nodes) edge = Draw(random);
  if (options_.classes > 0 && random.OneIn(2)) {
    edge.target = PlaceOfClass(ClassAt(edge.source), edge.target);
  }
  return {order_(edge.source), order_(edge.target)};
}

// Every run of as many places as there are classes has each class once, in an order turned at
// random. So an edge finds a node of a class beside any node, and no class has more edges than
// another one.
std::uint32_t RmatGraph::ClassAt(std::uint64_t place) const {
  const std::uint64_t run = place / options_.classes;
  return static_cast<std::uint32_t>((place + Turn(run)) % options_.classes);
}

std::uint64_t RmatGraph::PlaceOfClass(std::uint32_t its_class, std::uint64_t near) const {
  const std::uint64_t run = near / options_.classes;
  const std::uint64_t place =
      run * options_.classes + (its_class + options_.classes - Turn(run)) % options_.classes;
  return place < options_.nodes ? place : near;
}

void RmatGraph::Features(std::uint64_t node, std::vector<float>& values) const {
  values.resize(options_.features);
  Random random(Key(kFeature, node));
  for (std::uint32_t f = 0; f < options_.features; f += 2) {
    const std::uint64_t word = random.Next();
    values[f] = SignedFraction(word);
    if (f + 1 < options_.features) values[f + 1] = SignedFraction(word >> 32);
  }
  if (options_.classes == 0) return;
  Random shown(Key(kShown, node));
  const std::uint32_t own = Class(node);
  Random signs(Key(kSigns, shown.OneIn(2) ? own : shown.Below(options_.classes)));
  std::uint64_t word = 0;
  for (std::uint32_t f = 0; f < options_.features; ++f, word >>= 1) {
    if (f % 64 == 0) word = signs.Next();
    values[f] += (word & 1) != 0 ? 0.5f : -0.5f;
  }
}

}  // namespace millrace::generator
