// Code shared by both sources of a Coq dataset: the plan's tables over the index, the excluded
// files, and the builder of their graphs.
//
// CoqTables is immutable and thread-safe; CoqGraphBuilder belongs to a thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "server/kinds/coq/coq_dataset.h"
#include "server/kinds/coq/coq_drop_reasons.h"
#include "server/kinds/coq/coq_view.h"
#include "server/kinds/coq/edges.h"
#include "server/kinds/coq/node_labels.h"
#include "server/kinds/coq/tactic_table.h"
#include "server/sampling/graph_builder.h"
#include "server/sampling/tensor_list.h"
#include "server/source/plan_parts.h"

namespace millrace {

/// The plan's tables over the index.
struct CoqTables {
  /// InvalidArgument if an excluded file is not in the dataset.
  static Result<CoqTables> Make(std::shared_ptr<const CoqDataset> dataset, const PlanParts& parts);

  const DatasetIndex& index() const { return dataset->index(); }
  /// See Source::CheckIntact.
  Status CheckIntact() const;

  std::shared_ptr<const CoqDataset> dataset;
  NodeLabels labels;
  TacticTable tactics;
  std::vector<bool> excluded;  // one for each file
  ClosureOptions closure;
  ExpandSpec expand;
  ClosureKernel kernel;
};

/// Builds the graphs of examples.
template <class Builder>
class CoqGraphBuilder : public GraphBuilder<CoqView, Builder> {
 public:
  explicit CoqGraphBuilder(const CoqTables& tables)
      : GraphBuilder<CoqView, Builder>(
            [&tables] { return CoqView(*tables.dataset, tables.labels, tables.excluded); },
            tables.index().nodes(), tables.closure, BaseEdgeLabels(), kBaseEdgeLabels) {}
};

}  // namespace millrace
