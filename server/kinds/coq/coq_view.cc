#include "server/kinds/coq/coq_view.h"

#include <fmt/core.h>

namespace millrace {

CoqView::CoqView(const CoqDataset& dataset, const NodeLabels& labels,
                 const std::vector<bool>& excluded)
    : dataset_(dataset),
      labels_(labels),
      excluded_(excluded),
      files_(dataset.index().files().size()) {
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const FileRecord& record = dataset.index().files()[f];
    files_[f].node_base = record.node_base;
    files_[f].node_count = record.node_count;
    files_[f].number = static_cast<std::uint32_t>(f);
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
  Home& entry = files_[file];
  if (view->node_count != entry.node_count || view->node_base != entry.node_base) {
    status_ =
        DataLoss(fmt::format("file '{}' has {} nodes, but the index says {}: index it again",
                             dataset_.index().file_name(file), view->node_count, entry.node_count));
    return ClosureEnd::kFailed;
  }
  entry.nodes = view->nodes;
  entry.edges = view->edges;
  entry.dependency_files = view->dependency_files;
  entry.dependency_count = view->dependency_count;
  entry.edge_count = view->edge_count;
  entry.copied_at_once =
      entry.edge_count < kEdgesAtOnce ? 0 : entry.edge_count - (kEdgesAtOnce - 1);
  entry.open_nodes = entry.node_count;
  return ClosureEnd::kDone;
}

ClosureEnd CoqView::FollowAny(std::uint64_t word, const Home& source, Target* target) {
  const EdgeWord edge = EdgeWord::Decode(word);
  if (edge.label >= kEdgeClasses) return FailEdge(source, "its class is unknown");
  if (edge.dependency >= source.dependency_count) {
    return FailEdge(source, "its target's file is not one of the dependencies");
  }
  if (!Peek(word, source, target)) {
    return FailEdge(source, "its target lies beyond the nodes of its file");
  }
  return target->home->nodes != nullptr ? ClosureEnd::kDone : OpenFile(target->home->number);
}

ClosureEnd CoqView::LoadAny(NodeRef node, LoadedNode<CoqView>* loaded) {
  if (files_[node.file].nodes == nullptr) {
    if (const ClosureEnd end = OpenFile(node.file); end != ClosureEnd::kDone) return end;
  }
  const Home& file = files_[node.file];
  const NodeWord word = ReadNode(file, node.node);
  if (std::uint64_t{word.children_index} + word.children_count > file.edge_count) {
    return Fail(node, "its children lie beyond the file's edges");
  }
  if (word.tag >= kNodeClasses) return Fail(node, "its class is unknown");
  loaded->label = word.tag;
  loaded->count = word.children_count;
  loaded->edges = file.edges + word.children_index;
  return ClosureEnd::kDone;
}

ClosureEnd CoqView::NoLabel(NodeRef node, std::uint32_t label) {
  if (label == kNoRef) return ClosureEnd::kUnlabelled;
  return Fail(node, "it is no indexed definition");
}

ClosureEnd CoqView::Fail(NodeRef node, const char* what) {
  status_ = DataLoss(fmt::format(
      "file '{}', node {}: {}; the file was changed after it was indexed, put it back or index it "
      "again",
      dataset_.index().file_name(node.file), node.node, what));
  return ClosureEnd::kFailed;
}

ClosureEnd CoqView::FailEdge(const Home& source, const char* what) {
  status_ = DataLoss(
      fmt::format("file '{}', an edge: {}; the file was changed after it was indexed, put it back "
                  "or index it again",
                  dataset_.index().file_name(source.number), what));
  return ClosureEnd::kFailed;
}

}  // namespace millrace
