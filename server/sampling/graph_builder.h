// Builds the graphs of a batch's examples from their roots, and appends them to the batch.
//
// Not thread-safe: a builder belongs to a thread. It allocates nothing once it has seen the largest
// examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/batch/batch_writer.h"
#include "common/batch/layout/layout.h"
#include "server/sampling/closure_builder.h"
#include "server/sampling/closure_in_turns.h"
#include "server/sampling/closure_options.h"
#include "server/sampling/edge_groups.h"
#include "server/sampling/tensor_list.h"
#include "server/sampling/visited.h"

namespace millrace {

/// Number of closures that a thread builds in turns.
inline constexpr std::uint32_t kClosuresInTurns = 8;

/// Calls `make` with the type of the closure builder that `kernel` asks for, as make.template
/// operator()<Builder>(), and returns its result.
template <class View, class Make>
auto WithClosureBuilder(ClosureKernel kernel, Make make) {
  switch (kernel) {
    case ClosureKernel::kArray:
      return make.template operator()<ClosureBuilder<View, StampedArray>>();
    case ClosureKernel::kTable:
      return make.template operator()<ClosureBuilder<View, StampedTable>>();
    case ClosureKernel::kInTurns:
      break;
  }
  return make.template operator()<ClosureInTurns<View>>();
}

/// Builds the graphs of examples, either one after the other or several in turns.
///
/// Builder: ClosureBuilder or ClosureInTurns, over a View. Beyond their functions, the view
/// provides
///   bool IsNode(Node)            whether the dataset has such a node; other functions need it
///   void PrefetchEdgesOf(Node)   a hint that its edges will be read soon
///   Status status()              returns why a closure ended with kFailed
template <class View, class Builder>
class GraphBuilder {
 public:
  using Node = typename View::Node;

  /// `make_view()` makes the view. `nodes`: its number of slots. `label_of_class`: as for
  /// EdgeGroups.
  template <class MakeView>
  GraphBuilder(MakeView make_view, std::uint64_t nodes, const ClosureOptions& closure,
               std::span<const std::uint16_t> label_of_class, std::uint32_t edge_labels)
      : view_(make_view()), groups_(label_of_class, edge_labels) {
    for (std::uint32_t i = 0; i < (Builder::kTakesTurns ? kClosuresInTurns : 1); ++i) {
      graphs_.emplace_back(nodes, closure);
    }
  }

  /// Hints that a graph with this root will be built soon.
  void WillBuild(Node root) const {
    if (view_.IsNode(root)) view_.PrefetchNode(root);
  }

  /// Hints that a graph with this root will be built next. WillBuild should have been
  /// called with it before.
  void WillBuildNext(Node root) const {
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

  /// Gives the number of a node in the graph for which `done` was called. False if the node is not
  /// in it.
  bool Find(Node node, std::uint32_t* number) {
    return view_.IsNode(node) && done_->builder.Find(view_.Slot(node), number);
  }

  /// Appends the graph for which `done` was called.
  void Append(const GraphTensors& tensors, BatchWriter& writer) {
    writer.Append(tensors.node_label, done_->closure.node_labels.span());
    groups_.Append(done_->closure, tensors.edges, writer);
  }

 private:
  /// A graph under construction.
  struct Graph {
    Graph(std::uint64_t nodes, const ClosureOptions& options) : builder(nodes, options) {}
    Builder builder;
    Closure closure;
    std::vector<Node> roots;
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
    for (const Node root : graph.roots) {
      if (!view_.IsNode(root)) {
        return DataLoss("the dataset names a root that is none of its nodes");
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
        return std::optional<DropReason>(View::kUnlabelledReason);
      case ClosureEnd::kExcluded:
        return std::optional(DropReason::kExcluded);
      case ClosureEnd::kFailed:
        break;
    }
    return graph.status;
  }

  View view_;
  EdgeGroups groups_;
  std::vector<Graph> graphs_;  // example i is in graph i modulo their number
  Graph* done_ = nullptr;
};

}  // namespace millrace
