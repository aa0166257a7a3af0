// What both sources of a Coq dataset share: the plan's tables over the index, what is excluded, and
// the part of a batch that holds graphs.
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
#include "common/batch/layout.h"
#include "millrace/v1/common.pb.h"
#include "server/dataset/dataset.h"
#include "server/pipeline/closure_builder.h"
#include "server/pipeline/coq_view.h"
#include "server/pipeline/edges.h"
#include "server/pipeline/node_labels.h"
#include "server/pipeline/plan_draft.h"
#include "server/pipeline/tactic_table.h"
#include "server/pipeline/visited.h"

namespace millrace {

/// The plan's tables over the index.
struct CoqTables {
  /// InvalidArgument for an excluded file that the dataset does not have.
  static Result<CoqTables> Make(std::shared_ptr<const Dataset> dataset, const PlanDraft& draft);

  const DatasetIndex& index() const { return dataset->index(); }
  /// See Source::CheckIntact.
  Status CheckIntact() const;

  std::shared_ptr<const Dataset> dataset;
  NodeLabels labels;
  TacticTable tactics;
  std::vector<bool> excluded;  // by file
  ClosureOptions closure;
  ExpandSpec expand;
  std::uint64_t max_array_bytes;  // of a thread's visited array
};

/// Numbers of the tensors that hold graphs.
struct GraphColumns {
  std::size_t node_label;
  EdgeColumns edges;
};

/// A list of tensors under construction.
class TensorList {
 public:
  /// Adds the tensor, with the narrowest type for [min, max]; returns its number.
  std::size_t Add(std::string path, TensorKind kind, std::string dimension, std::int64_t min,
                  std::uint64_t max, std::string splits = "",
                  Expansion expansion = Expansion::kWiden);
  /// Adds splits: uint32, whatever the batch size, so that tools may build batches of any size.
  std::size_t AddSplits(std::string path, Expansion expansion = Expansion::kWiden);
  /// Adds node and edge tensors with their splits. `nodes`: of the largest example.
  GraphColumns AddGraph(std::uint64_t node_labels, std::uint64_t nodes);

  std::vector<TensorSpec> Take() { return std::move(tensors_); }

 private:
  std::vector<TensorSpec> tensors_;
};

/// Bound of node numbers of a plan: `max_subgraph_size`, or kMaxExampleNodes where an example has
/// more roots than that.
std::uint64_t NodeBound(const ClosureOptions& closure, std::uint64_t max_roots);

/// Whether a thread's visited set is an array.
bool FitsVisitedArray(const CoqTables& tables);

/// Label counts that both sources have.
v1::LabelCounts CountLabels(const CoqTables& tables);

/// Fills the parts of the static tables that both sources have.
void FillVocabulary(const CoqTables& tables, v1::Vocabulary* vocabulary);

/// Builds the graphs of examples and appends them.
template <class Visited>
class GraphBuilder {
 public:
  explicit GraphBuilder(const CoqTables& tables)
      : view_(*tables.dataset, tables.labels, tables.excluded),
        closure_builder_(tables.index().nodes(), tables.closure),
        groups_(BaseEdgeLabels(), kBaseEdgeLabels) {}

  /// Hint: a graph with this root will be built soon.
  void WillBuild(NodeRef root) const {
    if (view_.IsNode(root)) view_.PrefetchNode(root);
  }

  /// Nothing, or why the example is dropped.
  Result<std::optional<DropReason>> Build(std::span<const NodeRef> roots) {
    for (const NodeRef root : roots) {
      if (!view_.IsNode(root))
        return DataLoss("the index names a node that its file does not have");
    }
    switch (closure_builder_.Build(view_, roots, closure_)) {
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
    return view_.status();
  }

  /// Number of a node in the graph built last; false where it is not in it.
  bool Find(NodeRef node, std::uint32_t* number) {
    return view_.IsNode(node) && closure_builder_.Find(view_.Slot(node), number);
  }

  /// Appends the graph built last.
  void Append(const GraphColumns& columns, BatchWriter& writer) {
    writer.Append(columns.node_label, closure_.node_labels.span());
    groups_.Append(closure_, columns.edges, writer);
  }

 private:
  CoqView view_;
  ClosureBuilder<CoqView, Visited> closure_builder_;
  Closure closure_;
  EdgeGroups groups_;
};

}  // namespace millrace
