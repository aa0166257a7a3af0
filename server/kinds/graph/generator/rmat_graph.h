// The content of an R-MAT graph, edge by edge and node by node (rmat_generator.h).
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "common/epoch/permutation.h"
#include "server/kinds/graph/generator/rmat_generator.h"
#include "server/source/random.h"

namespace millrace::generator {

struct RmatEdge {
  std::uint64_t source = 0;
  std::uint64_t target = 0;
};

class RmatGraph {
 public:
  /// REQUIRES: the options are in range.
  explicit RmatGraph(const RmatOptions& options);

  RmatEdge Edge(std::uint64_t number) const;
  /// REQUIRES: there are classes.
  std::uint32_t Class(std::uint64_t node) const { return ClassAt(order_.Inverse(node)); }
  /// The values of node_feature/x: multiples of 2^-23 from -1 to below 1; with classes, each plus
  /// or minus 1/2, by the class that the node shows.
  void Features(std::uint64_t node, std::vector<float>& values) const;
  /// A node that no other row gives. REQUIRES: row < number of nodes.
  std::uint64_t Root(std::uint64_t row) const { return roots_(row); }

 private:
  enum Purpose : std::uint64_t { kOrder, kRoots, kEdge, kTurn, kFeature, kShown, kSigns };

  std::uint64_t Key(Purpose purpose, std::uint64_t number = 0) const {
    return Mix(Mix(options_.seed, purpose), number);
  }
  /// Draws an edge between places of the matrix.
  RmatEdge Draw(Random& random) const;
  /// The rotation of the classes of a run of places.
  std::uint64_t Turn(std::uint64_t run) const { return Key(kTurn, run) % options_.classes; }
  std::uint32_t ClassAt(std::uint64_t place) const;
  /// The place of the class in the run of places that `near` is in; `near` if there is no such
  /// place.
  std::uint64_t PlaceOfClass(std::uint32_t its_class, std::uint64_t near) const;

  const RmatOptions options_;
  const Permutation order_;  // from places of the matrix to numbers of nodes
  const Permutation roots_;
  unsigned levels_ = 0;
  // A draw below 2^16 falls into quadrant a if it is below `a_`, otherwise b below `b_`, otherwise
  // c below `c_`, otherwise d.
  std::uint32_t a_ = 0;
  std::uint32_t b_ = 0;
  std::uint32_t c_ = 0;
};

}  // namespace millrace::generator
