// The Coq dataset as a graph view for closures (see closure_builder.h): straight from the words of the
// mapped files.
//
// A file can change under the map: every word is loaded once, and what is decoded from it is checked
// before it is used. Not thread-safe; one a thread. Refers to dataset and labels, which have to
// outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/dataset/dataset.h"
#include "server/dataset/node_words.h"
#include "server/pipeline/closure_builder.h"
#include "server/pipeline/edges.h"
#include "server/pipeline/node_labels.h"

namespace millrace {

class CoqView {
 public:
  using Node = NodeRef;
  struct Children {
    std::uint32_t file;
    std::uint32_t first;
    std::uint32_t count;
  };

  /// `excluded`: by file, whether its nodes must not be read.
  CoqView(const Dataset& dataset, const NodeLabels& labels, const std::vector<bool>& excluded);

  /// Whether the dataset has the node: to be asked of references that come from the index.
  bool IsNode(NodeRef node) const {
    return node.file < files_.size() && node.node < files_[node.file].node_count;
  }

  std::uint64_t Slot(NodeRef node) const { return files_[node.file].node_base + node.node; }

  ClosureEnd Load(NodeRef node, LoadedNode<Children>* loaded) {
    const File& file = files_[node.file];
    if (file.nodes == nullptr) {
      if (const ClosureEnd end = OpenFile(node.file); end != ClosureEnd::kDone) return end;
    }
    const NodeWord word =
        NodeWord::Decode(LoadWord(file.nodes + std::uint64_t{kNodeWords} * node.node));
    if (std::uint64_t{word.children_index} + word.children_count > file.edge_count) {
      return Fail(node, "its children lie beyond the file's edges");
    }
    loaded->children = {node.file, word.children_index, word.children_count};
    loaded->is_definition = word.tag == kDefinitionTag;
    loaded->label = word.tag;
    if (loaded->is_definition) return LoadDefinition(node, &loaded->label);
    if (word.tag >= kNodeClasses) return Fail(node, "its class is unknown");
    return ClosureEnd::kDone;
  }

  std::uint32_t Count(const Children& children) const { return children.count; }

  ClosureEnd Child(const Children& children, std::uint32_t i, NodeRef* child,
                   std::uint32_t* label) {
    const File& file = files_[children.file];
    const EdgeWord word = EdgeWord::Decode(LoadWord(file.edges + children.first + i));
    if (word.label >= kEdgeClasses) return FailEdge(children, i, "its class is unknown");
    *label = base_labels_[word.label];
    if (*label == kSkippedEdge) return ClosureEnd::kDone;
    if (word.dependency >= file.dependency_count) {
      return FailEdge(children, i, "its target's file is none of the dependencies");
    }
    *child = {word.dependency == 0 ? children.file : file.dependency_files[word.dependency],
              word.node};
    if (word.node >= files_[child->file].node_count) {
      return FailEdge(children, i, "its target lies beyond the nodes of its file");
    }
    return ClosureEnd::kDone;
  }

  void PrefetchChildren(const Children& children) const {
    __builtin_prefetch(files_[children.file].edges + children.first);
  }

  /// What went wrong where something returned kFailed.
  const Status& status() const { return status_; }

 private:
  /// What the loop needs of a file; counts and bases hold before the file is open.
  struct File {
    const std::uint64_t* nodes = nullptr;  // null: not opened yet
    const std::uint64_t* edges = nullptr;
    const std::uint32_t* dependency_files = nullptr;
    std::uint64_t node_base = 0;
    std::uint32_t node_count = 0;
    std::uint32_t edge_count = 0;
    std::uint32_t dependency_count = 0;
  };

  ClosureEnd OpenFile(std::uint32_t file);
  ClosureEnd LoadDefinition(NodeRef node, std::uint32_t* label) {
    *label = labels_.Find(node);
    if (*label == kNone) return ClosureEnd::kUnlabelled;
    if (*label == NodeLabels::kNoDefinition) return Fail(node, "it is no indexed definition");
    return ClosureEnd::kDone;
  }
  ClosureEnd Fail(NodeRef node, const char* what);
  ClosureEnd FailEdge(const Children& children, std::uint32_t i, const char* what);

  const Dataset& dataset_;
  const NodeLabels& labels_;
  const std::vector<bool>& excluded_;
  const std::array<std::uint32_t, kEdgeClasses> base_labels_;
  std::vector<File> files_;
  Status status_;
};

}  // namespace millrace
