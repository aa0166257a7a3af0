// The Coq dataset as a graph view for closures (see closure_builder.h): straight from the words of
// the mapped files.
//
// A file can change under the map: every word is loaded once, and what is decoded from it is
// checked before it is used. Not thread-safe; one a thread. Refers to dataset and labels, which
// have to outlive it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/dataset/dataset.h"
#include "server/dataset/node_words.h"
#include "server/pipeline/closure.h"
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

  /// What the loop needs of a file; counts and bases hold before the file is open.
  struct alignas(64) File {
    const std::uint64_t* nodes = nullptr;  // null: not opened yet
    const std::uint64_t* edges = nullptr;
    const std::uint32_t* dependency_files = nullptr;
    std::uint64_t node_base = 0;
    std::uint32_t node_count = 0;
    std::uint32_t edge_count = 0;
    std::uint32_t dependency_count = 0;
  };

  /// The edges of a node that are not read yet, and the file that they lie in.
  struct Edges {
    const std::uint64_t* next;
    const std::uint64_t* end;
    const File* file;
    std::uint32_t file_number;
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
    if (file.nodes == nullptr) [[unlikely]] {
      if (const ClosureEnd end = OpenFile(node.file); end != ClosureEnd::kDone) return end;
    }
    const NodeWord word =
        NodeWord::Decode(LoadWord(file.nodes + std::uint64_t{kNodeWords} * node.node));
    if (std::uint64_t{word.children_index} + word.children_count > file.edge_count) [[unlikely]] {
      return Fail(node, "its children lie beyond the file's edges");
    }
    loaded->children = {node.file, word.children_index, word.children_count};
    loaded->is_definition = word.tag == kDefinitionTag;
    if (loaded->is_definition) return LoadDefinition(node, &loaded->label);
    loaded->label = word.tag;
    if (word.tag >= kNodeClasses) [[unlikely]]
      return Fail(node, "its class is unknown");
    return ClosureEnd::kDone;
  }

  Edges EdgesOf(Children children) const {
    const File& file = files_[children.file];
    const std::uint64_t* const first = file.edges + children.first;
    return {first, first + children.count, &file, children.file};
  }
  std::size_t Left(const Edges& edges) const {
    return static_cast<std::size_t>(edges.end - edges.next);
  }

  ClosureEnd Next(Edges* edges, FoundEdge<NodeRef>* found) {
    const EdgeWord word = EdgeWord::Decode(LoadWord(edges->next++));
    if (word.label >= kEdgeClasses) [[unlikely]]
      return FailEdge(*edges, kBadClass);
    found->label = base_labels_[word.label];
    if (found->label == kSkippedEdge) return ClosureEnd::kDone;
    const File* target = edges->file;
    found->target = {edges->file_number, word.node};
    if (word.dependency != 0) {
      if (word.dependency >= target->dependency_count) [[unlikely]] {
        return FailEdge(*edges, kBadDependency);
      }
      found->target.file = target->dependency_files[word.dependency];
      target = &files_[found->target.file];
    }
    if (word.node >= target->node_count) [[unlikely]]
      return FailEdge(*edges, kBadTarget);
    found->slot = target->node_base + word.node;
    return ClosureEnd::kDone;
  }

  bool prefetches() const { return prefetches_; }
  void PrefetchNode(NodeRef node) const {
    const File& file = files_[node.file];
    if (file.nodes == nullptr) return;
    __builtin_prefetch(file.nodes + std::uint64_t{kNodeWords} * node.node);
  }

  void PrefetchEdges(const Children& children) const {
    __builtin_prefetch(files_[children.file].edges + children.first);
  }

  template <class Entered>
  void PrefetchTargets(const Children& children, const Entered& visited) const {
    const File& file = files_[children.file];
    const std::uint32_t count = std::min(children.count, kPrefetchedTargets);
    for (std::uint32_t i = 0; i < count; ++i) {
      const EdgeWord word = EdgeWord::Decode(LoadWord(file.edges + children.first + i));
      if (word.dependency >= file.dependency_count) return;
      const std::uint32_t target =
          word.dependency == 0 ? children.file : file.dependency_files[word.dependency];
      if (word.node >= files_[target].node_count || files_[target].nodes == nullptr) return;
      visited.Prefetch(Slot({target, word.node}));
      __builtin_prefetch(files_[target].nodes + std::uint64_t{kNodeWords} * word.node);
    }
  }

  /// What went wrong where something returned kFailed.
  const Status& status() const { return status_; }

 private:
  static constexpr const char* kBadClass = "its class is unknown";
  static constexpr const char* kBadDependency = "its target's file is none of the dependencies";
  static constexpr const char* kBadTarget = "its target lies beyond the nodes of its file";
  /// Data of fewer nodes lie in the processor's caches, where hints cost more than they give.
  static constexpr std::uint64_t kCachedNodes = std::uint64_t{1} << 20;
  /// Edges of a node whose targets are worth a hint: most nodes have fewer.
  static constexpr std::uint32_t kPrefetchedTargets = 4;

  [[gnu::cold]] ClosureEnd OpenFile(std::uint32_t file);
  ClosureEnd LoadDefinition(NodeRef node, std::uint32_t* label);
  // Out of the loop, and by value, so that what the loop works on stays in registers.
  [[gnu::cold]] ClosureEnd Fail(NodeRef node, const char* what);
  [[gnu::cold]] ClosureEnd FailEdge(Edges after, const char* what);

  const Dataset& dataset_;
  const NodeLabels& labels_;
  const std::vector<bool>& excluded_;
  const std::array<std::uint32_t, kEdgeClasses> base_labels_;
  const bool prefetches_;
  std::vector<File> files_;
  Status status_;
};

}  // namespace millrace
