// A source that has nothing to do with Coq: a graph in two arrays (offsets and targets, compressed
// sparse rows) with labels beside them, whose examples are lists of roots. It shows that the
// interface of sources is real, and gives tests graphs of any shape.
//
// CsrGraph is a value; CsrSource is immutable and thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/pipeline/closure_builder.h"
#include "server/pipeline/plan_draft.h"
#include "server/pipeline/source.h"

namespace millrace::test {

struct CsrGraph {
  std::vector<std::uint32_t> offsets = {0};  // of a node's edges; one more than nodes
  std::vector<std::uint32_t> targets;        // by edge
  std::vector<std::uint32_t> edge_labels;    // by edge; kSkippedEdge: not followed
  std::vector<std::uint32_t> node_labels;    // by node; kUnlabelled: closures must not reach it
  std::vector<bool> is_definition;           // by node
  std::vector<std::vector<std::uint32_t>> roots;  // by example
  std::uint32_t base_edge_labels = 1;

  static constexpr std::uint32_t kUnlabelled = 0xFFFFFFFF;
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(node_labels.size()); }
};

/// The graph as closures see it.
class CsrView {
 public:
  using Node = std::uint32_t;
  struct Children {
    std::uint32_t first;
    std::uint32_t count;
  };
  struct Edges {
    std::uint32_t next;
    std::uint32_t end;
  };

  explicit CsrView(const CsrGraph& graph) : graph_(&graph) {}

  std::uint64_t Slot(Node node) const { return node; }
  ClosureEnd Load(Node node, LoadedNode<Children>* loaded) const {
    const std::uint32_t first = graph_->offsets[node];
    *loaded = {graph_->node_labels[node],
               graph_->is_definition[node],
               {first, graph_->offsets[node + 1] - first}};
    return loaded->label == CsrGraph::kUnlabelled ? ClosureEnd::kUnlabelled : ClosureEnd::kDone;
  }
  Edges EdgesOf(Children children) const {
    return {children.first, children.first + children.count};
  }
  std::size_t Left(Edges edges) const { return edges.end - edges.next; }
  ClosureEnd Next(Edges* edges, FoundEdge<Node>* found) const {
    const std::uint32_t edge = edges->next++;
    *found = {graph_->edge_labels[edge], graph_->targets[edge], graph_->targets[edge]};
    return ClosureEnd::kDone;
  }
  bool prefetches() const { return false; }
  void PrefetchEdges(Children /*children*/) const {}
  template <class Entered>
  void PrefetchTargets(Children /*children*/, const Entered& /*visited*/) const {}

 private:
  const CsrGraph* graph_;
};

/// `source: csr`: one example for each list of roots.
std::shared_ptr<const Source> MakeCsrSource(CsrGraph graph, const PlanDraft& draft);

}  // namespace millrace::test
