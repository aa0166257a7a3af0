// Code shared by both sources of a Coq dataset: the plan's tables over the index, the excluded
// files, and the part of a batch that holds graphs.
//
// CoqTables is immutable and thread-safe; GraphBuilder belongs to a thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/batch_writer.h"
#include "common/batch/layout/layout.h"
#include "millrace/v1/common.pb.h"
#include "server/dataset/coq/dataset.h"
#include "server/dataset/coq/source/coq_view.h"
#include "server/dataset/coq/source/edges.h"
#include "server/dataset/coq/source/node_labels.h"
#include "server/dataset/coq/source/tactic_table.h"
#include "server/pipeline/closure/closure_builder.h"
#include "server/pipeline/closure/closure_in_turns.h"
#include "server/pipeline/closure/visited.h"
#include "server/pipeline/graph/plan_draft.h"

namespace millrace {

/// The plan's tables over the index.
struct CoqTables {
  /// InvalidArgument if an excluded file is not in the dataset.
  static Result<CoqTables> Make(std::shared_ptr<const Dataset> dataset, const PlanDraft& draft);

  const DatasetIndex& index() const { return dataset->index(); }
  /// See Source::CheckIntact.
  Status CheckIntact() const;

  std::shared_ptr<const Dataset> dataset;
  NodeLabels labels;
  TacticTable tactics;
  std::vector<bool> excluded;  // one for each file
  ClosureOptions closure;
  ExpandSpec expand;
  ClosureKernel kernel;
};

/// Numbers of the tensors that hold graphs.
struct GraphColumns {
  std::size_t node_label;
  EdgeColumns edges;
};

/// A list of tensors under construction.
class TensorList {
 public:
  /// Adds the tensor, with the narrowest type for [min, max], and returns its number.
  std::size_t Add(std::string path, TensorKind kind, std::string dimension, std::int64_t min,
                  std::uint64_t max, std::string splits = "",
                  Expansion expansion = Expansion::kWiden);
  /// Adds a splits tensor. Its type is uint32, whatever the batch size, so that tools can build
  /// batches of any size.
  std::size_t AddSplits(std::string path, Expansion expansion = Expansion::kWiden);
  /// Adds node and edge tensors with their splits. `nodes`: number of nodes of the largest example.
  GraphColumns AddGraph(std::uint64_t node_labels, std::uint64_t nodes);

  std::vector<TensorSpec> Take() { return std::move(tensors_); }

 private:
  std::vector<TensorSpec> tensors_;
};

/// Upper bound for node numbers of a plan: `max_subgraph_size`, or kMaxExampleNodes if an example
/// has more roots than that.
std::uint64_t NodeBound(const ClosureOptions& closure, std::uint64_t max_roots);

/// The label counts that both sources report.
v1::LabelCounts CountLabels(const CoqTables& tables);

/// Number of closures that a thread builds in turns.
inline constexpr std::uint32_t kClosuresInTurns = 8;

/// Calls `make` with the type of the plan's closure builder, as make.template
/// operator()<Builder>(), and returns its result.
template <class Make>
auto WithClosureBuilder(const CoqTables& tables, Make make) {
  switch (tables.kernel) {
    case ClosureKernel::kArray:
      return make.template operator()<ClosureBuilder<CoqView, StampedArray>>();
    case ClosureKernel::kTable:
      return make.template operator()<ClosureBuilder<CoqView, StampedTable>>();
    case ClosureKernel::kInTurns:
      break;
  }
  return make.template operator()<ClosureInTurns<CoqView>>();
}

/// Builds the graphs of examples, either one after the other or several in turns.
///
/// Builder: ClosureBuilder or ClosureInTurns, over a CoqView.
template <class Builder>
class GraphBuilder {
 public:
  explicit GraphBuilder(const CoqTables& tables)
      : view_(*tables.dataset, tables.labels, tables.excluded),
        groups_(BaseEdgeLabels(), kBaseEdgeLabels) {
    for (std::uint32_t i = 0; i < (Builder::kTakesTurns ? kClosuresInTurns : 1); ++i) {
      graphs_.emplace_back(tables.index().nodes(), tables.closure);
    }
  }

  /// Hints that a graph with this root will be built soon.
  void WillBuild(NodeRef root) const {
    if (view_.IsNode(root)) view_.PrefetchNode(root);
  }

  /// Hints that a graph with this root will be built next. WillBuild should have been
  /// called with it before.
  void WillBuildNext(NodeRef root) const {
    if (view_.IsNode(root)) view_.PrefetchEdgesOf(root);
  }

  /// Builds the graphs of `count` examples. `roots(i, &nodes)` puts the roots of example i into the
  /// empty `nodes`, or returns why the example is dropped. `done(i, dropped)` then uses its graph,
  /// through Find and Append, or learns why it was dropped. Both are called once for each i, in
  /// order, and roots(i) comes before done(i). The first error ends the build, whether it comes
  /// from them or from the data.
  template <class Roots, class Done>
  Status Build(std::size_t count, Roots roots, Done done) {
    std::size_t begun = 0;
    for (std::size_t next = 0; next < count;) {
      for (; begun < count && begun < next + graphs_.size(); ++begun) {
        MILLRACE_RETURN_IF_ERROR(Begin(graphs_[begun % graphs_.size()], begun, roots));
      }
      for (std::size_t i = next; i < begun; ++i) Advance(graphs_[i % graphs_.size()]);
      for (; next < begun && graphs_[next % graphs_.size()].finished; ++next) {
        done_ = &graphs_[next % graphs_.size()];
        MILLRACE_ASSIGN_OR_RETURN(const std::optional<DropReason> dropped, Outcome(*done_));
        MILLRACE_RETURN_IF_ERROR(done(next, dropped));
      }
    }
    return OkStatus();
  }

  /// Gives the number of a node in the graph that `done` was called for. False if the node is not
  /// in it.
  bool Find(NodeRef node, std::uint32_t* number) {
    return view_.IsNode(node) && done_->builder.Find(view_.Slot(node), number);
  }

  /// Appends the graph that `done` was called for.
  void Append(const GraphColumns& columns, BatchWriter& writer) {
    writer.Append(columns.node_label, done_->closure.node_labels.span());
    groups_.Append(done_->closure, columns.edges, writer);
  }

 private:
  /// A graph under construction.
  struct Graph {
    Graph(std::uint64_t nodes, const ClosureOptions& options) : builder(nodes, options) {}
    Builder builder;
    Closure closure;
    std::vector<NodeRef> roots;
    bool finished = false;
    std::optional<DropReason> dropped;  // set if the example is dropped before it is built
    ClosureEnd end = ClosureEnd::kDone;
    Status status;  // set if the end is kFailed
  };

  template <class Roots>
  Status Begin(Graph& graph, std::size_t example, Roots& roots) {
    graph.roots.clear();
    graph.dropped = roots(example, &graph.roots);
    graph.finished = graph.dropped.has_value();
    if (graph.finished) return OkStatus();
    for (const NodeRef root : graph.roots) {
      if (!view_.IsNode(root)) {
        return DataLoss("the index names a node that its file does not have");
      }
    }
    if constexpr (Builder::kTakesTurns) {
      graph.builder.Begin(view_, graph.roots, graph.closure);
    } else {
      graph.end = graph.builder.Build(view_, graph.roots, graph.closure);
      Finish(graph);
    }
    return OkStatus();
  }
  void Advance(Graph& graph) {
    if constexpr (Builder::kTakesTurns) {
      if (graph.finished || !graph.builder.Advance(view_, graph.closure, &graph.end)) return;
      Finish(graph);
    }
  }
  void Finish(Graph& graph) {
    graph.finished = true;
    if (graph.end == ClosureEnd::kFailed) graph.status = view_.status();
  }
  static Result<std::optional<DropReason>> Outcome(const Graph& graph) {
    if (graph.dropped) return graph.dropped;
    switch (graph.end) {
      case ClosureEnd::kDone:
        return std::optional<DropReason>();
      case ClosureEnd::kTooLarge:
        return std::optional(DropReason::kTooLarge);
      case ClosureEnd::kUnlabelled:
        return std::optional(DropReason::kUnlabelledDefinition);
      case ClosureEnd::kExcluded:
        return std::optional(DropReason::kExcluded);
      case ClosureEnd::kFailed:
        break;
    }
    return graph.status;
  }

  CoqView view_;
  EdgeGroups groups_;
  std::vector<Graph> graphs_;  // example i is in graph i modulo their number
  Graph* done_ = nullptr;
};

}  // namespace millrace
