#include "server/pipeline/coq_view.h"

#include <fmt/format.h>

namespace millrace {

CoqView::CoqView(const Dataset& dataset, const NodeLabels& labels,
                 const std::vector<bool>& excluded)
    : dataset_(dataset),
      labels_(labels),
      excluded_(excluded),
      base_labels_(BaseEdgeLabels()),
      prefetches_(dataset.index().nodes() > kCachedNodes),
      files_(dataset.index().files().size()) {
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const FileRecord& record = dataset.index().files()[f];
    files_[f].node_base = record.node_base;
    files_[f].node_count = record.node_count;
  }
}

ClosureEnd CoqView::OpenFile(std::uint32_t file) {
  if (excluded_[file]) return ClosureEnd::kExcluded;
  const FileView* view = dataset_.TryView(FileId(file));
  if (view == nullptr) {
    Result<const FileView*> opened = dataset_.View(FileId(file));
    if (!opened.ok()) {
      status_ = opened.status();
      return ClosureEnd::kFailed;
    }
    view = *opened;
  }
  File& entry = files_[file];
  if (view->node_count != entry.node_count || view->node_base != entry.node_base) {
    status_ =
        DataLoss(fmt::format("file '{}' has {} nodes, but the index says {}: index it again",
                             dataset_.index().file_name(file), view->node_count, entry.node_count));
    return ClosureEnd::kFailed;
  }
  entry.edges = view->edges;
  entry.edge_count = view->edge_count;
  entry.dependency_files = view->dependency_files;
  entry.dependency_count = view->dependency_count;
  entry.nodes = view->nodes;
  return ClosureEnd::kDone;
}

ClosureEnd CoqView::LoadDefinition(NodeRef node, std::uint32_t* label) {
  *label = labels_.Find(node);
  if (*label == kNone) return ClosureEnd::kUnlabelled;
  if (*label == NodeLabels::kNoDefinition) return Fail(node, "it is no indexed definition");
  return ClosureEnd::kDone;
}

ClosureEnd CoqView::Fail(NodeRef node, const char* what) {
  status_ = DataLoss(fmt::format(
      "file '{}', node {}: {}; the file was changed after it was indexed, put it back or index it "
      "again",
      dataset_.index().file_name(node.file), node.node, what));
  return ClosureEnd::kFailed;
}

ClosureEnd CoqView::FailEdge(Edges after, const char* what) {
  status_ = DataLoss(fmt::format(
      "file '{}', edge {}: {}; the file was changed after it was indexed, put it back or index it "
      "again",
      dataset_.index().file_name(after.file_number), after.next - after.file->edges - 1, what));
  return ClosureEnd::kFailed;
}

}  // namespace millrace
