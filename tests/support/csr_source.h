// A source that has nothing to do with Coq: a graph in two arrays (offsets and targets, known as
// compressed sparse rows) with labels beside them. Its examples are lists of roots. It shows that
// the interface of sources does not depend on Coq, and gives tests graphs of any shape.
//
// CsrGraph is a value; CsrSource is immutable and thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/sampling/closure_builder.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace::test {

/// The label of an edge that closures do not follow.
inline constexpr std::uint32_t kSkippedEdge = 0xFFFFFFFF;

/// Why examples are dropped whose closures reach nodes without a label.
inline constexpr DropReason kCsrUnlabelled{1};

struct CsrGraph {
  std::vector<std::uint32_t> offsets = {0};  // node n's edges: offsets[n] to offsets[n + 1]
  std::vector<std::uint32_t> targets;        // one for each edge
  std::vector<std::uint32_t> edge_labels;    // one for each edge; kSkippedEdge: not followed
  std::vector<std::uint32_t> node_labels;    // one for each node; kUnlabelled: must not be reached
  std::vector<bool> is_definition;           // one for each node
  std::vector<std::vector<std::uint32_t>> roots;  // one list for each example
  std::uint32_t base_edge_labels = 1;

  static constexpr std::uint32_t kUnlabelled = 0xFFFFFFFF;
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(node_labels.size()); }
};

/// The graph as closures see it.
class CsrView {
 public:
  using Node = std::uint32_t;
  using EdgeAt = std::uint32_t;
  static constexpr std::uint32_t kBoundary = 0xFFFFFFFE;
  /// Odd nodes are in one home and even nodes in another, so that closures reach both homes.
  struct Home {
    std::uint32_t number;
  };
  struct Target {
    std::uint64_t slot;
  };

  explicit CsrView(const CsrGraph& graph) : graph_(&graph) {}

  const Home& HomeAt(std::uint32_t number) const { return homes_[number]; }
  std::uint32_t HomeOf(Node node) const { return node % 2; }
  const Home& HomeOf(const Target& target) const { return homes_[target.slot % 2]; }
  Node NodeOf(const Target& target) const { return static_cast<Node>(target.slot); }
  std::uint64_t Slot(Node node) const { return node; }
  bool Skips(std::uint64_t word) const { return (word & 0xFFFF) == 0xFFFF; }
  bool Follow(std::uint64_t word, const Home& /*source*/, Target* target) const {
    target->slot = word >> 32;
    return true;
  }
  bool Peek(std::uint64_t word, const Home& source, Target* target) const {
    return Follow(word, source, target);
  }
  ClosureEnd FollowAny(std::uint64_t word, const Home& source, Target* target) const {
    Follow(word, source, target);
    return ClosureEnd::kDone;
  }
  bool Load(const Target& target, LoadedNode<CsrView>* loaded) const {
    LoadAny(NodeOf(target), loaded);
    return loaded->edges + kEdgesAtOnce <= graph_->targets.size();
  }
  ClosureEnd LoadAny(Node node, LoadedNode<CsrView>* loaded) const {
    const std::uint32_t first = graph_->offsets[node];
    *loaded = {graph_->is_definition[node] ? kBoundary : graph_->node_labels[node],
               graph_->offsets[node + 1] - first, first};
    return ClosureEnd::kDone;
  }
  void CopyAtOnce(EdgeAt edges, std::uint64_t* to) const { Copy(edges, kEdgesAtOnce, to); }
  void Copy(EdgeAt edges, std::uint32_t count, std::uint64_t* to) const {
    for (std::uint32_t i = 0; i < count; ++i) {
      to[i] = std::uint64_t{graph_->targets[edges + i]} << 32 |
              (graph_->edge_labels[edges + i] & 0xFFFF);
    }
  }
  void PrefetchTarget(std::uint64_t /*word*/, const Home& /*source*/) const {}
  void PrefetchNode(Node /*node*/) const {}
  void PrefetchEdges(EdgeAt /*edges*/) const {}
  void PrefetchLabel(Node /*node*/) const {}
  ClosureEnd LabelOf(Node node, std::uint32_t* label) const {
    *label = graph_->node_labels[node];
    return *label == CsrGraph::kUnlabelled ? ClosureEnd::kUnlabelled : ClosureEnd::kDone;
  }

 private:
  const CsrGraph* graph_;
  std::array<Home, 2> homes_{{{0}, {1}}};
};

/// Makes the source of a graph. It has one example for each list of roots.
std::shared_ptr<const Source> MakeCsrSource(CsrGraph graph, const PlanParts& parts);

}  // namespace millrace::test
