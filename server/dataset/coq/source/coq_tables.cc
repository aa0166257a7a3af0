#include "server/dataset/coq/source/coq_tables.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "server/dataset/damaged_files.h"

namespace millrace {

namespace {

ClosureKernel ChooseKernel(std::uint64_t nodes, const PlanDraft& draft) {
  if (draft.closure_kernel) return *draft.closure_kernel;
  if (nodes <= kMaxArrayNodes) return ClosureKernel::kArray;
  return draft.closure.order == ClosureOrder::kBreadthFirst ? ClosureKernel::kInTurns
                                                            : ClosureKernel::kTable;
}

}  // namespace

Result<CoqTables> CoqTables::Make(std::shared_ptr<const Dataset> dataset, const PlanDraft& draft) {
  const DatasetIndex& index = dataset->index();
  MILLRACE_RETURN_IF_ERROR(index.CheckRecords().WithContext(dataset->dir().string()));
  std::vector<bool> excluded(index.files().size(), false);
  for (const std::string& name : draft.excluded_files) {
    std::uint32_t file = 0;
    while (file < excluded.size() && index.file_name(file) != name) ++file;
    if (file == excluded.size()) {
      return InvalidArgument(fmt::format(
          "exclude.files: the dataset has no file '{}': check it against the names that `millrace "
          "inspect` prints",
          name));
    }
    excluded[file] = true;
  }
  NodeLabels labels(index, draft.filter.restrict_to_spine);
  TacticTable tactics(index, labels, draft.filter.required_tactic_occurrence);
  return CoqTables{
      std::move(dataset),
      std::move(labels),
      std::move(tactics),
      std::move(excluded),
      draft.closure,
      ExpandSpec{kBaseEdgeLabels, draft.edges.symmetrization, draft.edges.add_self_edges},
      ChooseKernel(index.nodes(), draft)};
}

Status CoqTables::CheckIntact() const {
  std::vector<std::string> needed;
  std::string what;
  for (const DamagedFile& damage : dataset->Damages()) {
    if (damage.file == DamagedFile::kIndex)
      return DamagedIndexStatus(dataset->dir().string(), damage);
    if (excluded[damage.file]) continue;
    needed.push_back(damage.name);
    what += fmt::format("{}{}: {}", what.empty() ? "" : "; ", damage.name, damage.what);
  }
  if (needed.empty()) return OkStatus();
  std::vector<std::string> excluded_names;
  for (std::uint32_t f = 0; f < excluded.size(); ++f) {
    if (excluded[f]) excluded_names.emplace_back(index().file_name(f));
  }
  return DamagedFilesStatus(dataset->dir().string(), what, excluded_names, needed);
}

std::size_t TensorList::Add(std::string path, TensorKind kind, std::string dimension,
                            std::int64_t min, std::uint64_t max, std::string splits,
                            Expansion expansion) {
  TensorSpec spec;
  spec.path = std::move(path);
  spec.kind = kind;
  spec.dtype = NarrowestDType(min, max);
  spec.dimensions = {std::move(dimension)};
  spec.splits = std::move(splits);
  spec.min = min;
  spec.max = max;
  spec.expansion = expansion;
  if (expansion == Expansion::kNodeOffset || expansion == Expansion::kEdgeSource ||
      expansion == Expansion::kEdgeTarget) {
    spec.node_splits = "node_splits";
  }
  tensors_.push_back(std::move(spec));
  return tensors_.size() - 1;
}

std::size_t TensorList::AddSplits(std::string path, Expansion expansion) {
  return Add(std::move(path), TensorKind::kSplits, "batch+1", 0,
             std::numeric_limits<std::uint32_t>::max(), "", expansion);
}

GraphColumns TensorList::AddGraph(std::uint64_t node_labels, std::uint64_t nodes) {
  GraphColumns columns;
  columns.node_label =
      Add("node_label", TensorKind::kRaggedValues, "nodes", 0, node_labels - 1, "node_splits");
  const auto add_edges = [this](const char* path, std::uint64_t max, Expansion expansion) {
    return Add(path, TensorKind::kRaggedValues, "edges", 0, max, "edge_splits", expansion);
  };
  columns.edges.source = add_edges("edge_source", nodes - 1, Expansion::kEdgeSource);
  columns.edges.target = add_edges("edge_target", nodes - 1, Expansion::kEdgeTarget);
  columns.edges.label = add_edges("edge_label", kBaseEdgeLabels - 1, Expansion::kEdgeLabel);
  AddSplits("node_splits");
  AddSplits("edge_splits", Expansion::kEdgeSplits);
  return columns;
}

std::uint64_t NodeBound(const ClosureOptions& closure, std::uint64_t max_roots) {
  return max_roots > closure.max_subgraph_size ? kMaxExampleNodes : closure.max_subgraph_size;
}

v1::LabelCounts CountLabels(const CoqTables& tables) {
  v1::LabelCounts counts;
  counts.set_node_labels(tables.labels.size());
  counts.set_base_node_labels(kNodeClasses);
  counts.set_edge_labels(tables.expand.edge_labels());
  counts.set_tactics(tables.tactics.tactics().size());
  return counts;
}

}  // namespace millrace
