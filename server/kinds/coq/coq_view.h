// The Coq dataset as a graph view for closures (see closure_builder.h). It reads the words of the
// mapped files directly.
//
// A file can change while it is mapped. So every word is loaded once, and decoded values are
// checked before they are used. Not thread-safe; each thread needs its own. Refers to dataset and
// labels, which must outlive it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/ask_for_line.h"
#include "common/base/result.h"
#include "server/kinds/coq/coq_dataset.h"
#include "server/kinds/coq/coq_drop_reasons.h"
#include "server/kinds/coq/edges.h"
#include "server/kinds/coq/node_labels.h"
#include "server/kinds/coq/scan/node_words.h"
#include "server/sampling/closure.h"

namespace millrace {

class CoqView {
 public:
  /// A file. Fields are 0 until the file is open, unless their comment says otherwise.
  struct alignas(64) Home {
    const std::uint64_t* nodes = nullptr;
    const std::uint64_t* edges = nullptr;
    const std::uint32_t* dependency_files = nullptr;  // the first is the file itself
    std::uint64_t node_base = 0;                      // known from the beginning
    std::uint32_t node_count = 0;                     // known from the beginning
    std::uint32_t open_nodes = 0;                     // equal to node_count once the file is open
    std::uint32_t dependency_count = 0;
    std::uint32_t edge_count = 0;
    // kEdgesAtOnce edges can be copied from any position below this.
    std::uint32_t copied_at_once = 0;
    std::uint32_t number = 0;  // known from the beginning
  };
  struct Target {
    const Home* home;
    std::uint32_t node;
    std::uint64_t slot;
  };
  using Node = NodeRef;
  using EdgeAt = const std::uint64_t*;
  static constexpr std::uint32_t kBoundary = kDefinitionTag;
  static constexpr DropReason kUnlabelledReason = kUnlabelledDefinition;

  /// `excluded` says for each file whether its nodes must not be read.
  CoqView(const CoqDataset& dataset, const NodeLabels& labels, const std::vector<bool>& excluded);

  /// Whether the dataset has the node. Ask this for references that come from the index.
  bool IsNode(NodeRef node) const {
    return node.file < files_.size() && node.node < files_[node.file].node_count;
  }

  const Home& HomeAt(std::uint32_t file) const { return files_[file]; }
  std::uint32_t HomeOf(NodeRef node) const { return node.file; }
  const Home& HomeOf(const Target& target) const { return *target.home; }
  NodeRef NodeOf(const Target& target) const { return {target.home->number, target.node}; }
  std::uint64_t Slot(NodeRef node) const { return files_[node.file].node_base + node.node; }

  bool Skips(std::uint64_t word) const { return EdgeWord::Decode(word).label == kConstOpaqueDef; }

  bool Follow(std::uint64_t word, const Home& source, Target* target) const {
    return Find<true>(word, source, target);
  }
  bool Peek(std::uint64_t word, const Home& source, Target* target) const {
    return Find<false>(word, source, target);
  }
  ClosureEnd FollowAny(std::uint64_t word, const Home& source, Target* target);

  bool Load(const Target& target, LoadedNode<CoqView>* loaded) const {
    const Home& home = *target.home;
    const NodeWord word = ReadNode(home, target.node);
    loaded->label = word.tag;
    loaded->count = word.children_count;
    loaded->edges = home.edges + word.children_index;
    return word.tag < kNodeClasses && word.children_index < home.copied_at_once;
  }
  ClosureEnd LoadAny(NodeRef node, LoadedNode<CoqView>* loaded);

  void CopyAtOnce(const std::uint64_t* edges, std::uint64_t* to) const {
    std::memcpy(to, edges, kEdgesAtOnce * sizeof *to);
    // Only the copy is used from here on, because the file may change.
    __asm__("" : "+m"(*reinterpret_cast<std::uint64_t(*)[kEdgesAtOnce]>(to)));
  }
  void Copy(const std::uint64_t* edges, std::uint32_t count, std::uint64_t* to) const {
    for (std::uint32_t i = 0; i < count; ++i) to[i] = LoadWord(edges + i);
  }

  ClosureEnd LabelOf(NodeRef definition, std::uint32_t* label) {
    *label = labels_.Find(definition);
    if (*label < NodeLabels::kNoDefinition) [[likely]]
      return ClosureEnd::kDone;
    return NoLabel(definition, *label);
  }

  // The next functions are hints that this will be read soon.
  void PrefetchNode(NodeRef node) const {
    const Home& home = files_[node.file];
    if (node.node < home.open_nodes) AskForLine(NodeAt(home, node.node));
  }
  void PrefetchEdges(const std::uint64_t* edges) const { AskForLine(edges); }
  void PrefetchEdgesOf(NodeRef node) const {
    const Home& home = files_[node.file];
    if (node.node >= home.open_nodes) return;
    AskForLine(home.edges + ReadNode(home, node.node).children_index);
  }
  void PrefetchLabel(NodeRef definition) const { labels_.Prefetch(definition); }

  /// The error, if a function has returned kFailed.
  const Status& status() const { return status_; }

 private:
  // REQUIRES: the file is open and has the node.
  static const std::uint64_t* NodeAt(const Home& home, std::uint32_t node) {
    return home.nodes + std::uint64_t{kNodeWords} * node;
  }
  static NodeWord ReadNode(const Home& home, std::uint32_t node) {
    return NodeWord::Decode(LoadWord(NodeAt(home, node)));
  }

  /// Finds the target of an edge. False if the target is impossible, or, with kOpen, if its file is
  /// not open.
  template <bool kOpen>
  bool Find(std::uint64_t edge, const Home& source, Target* target) const {
    const EdgeWord word = EdgeWord::Decode(edge);
    const Home* home = &source;
    // Most edges stay in their file. One comparison checks both class and dependency.
    if (static_cast<std::uint32_t>(edge) >= kEdgeClasses) {
      if (word.label >= kEdgeClasses || word.dependency >= source.dependency_count) [[unlikely]] {
        return false;
      }
      home = &files_[source.dependency_files[word.dependency]];
    }
    *target = {home, word.node, home->node_base + word.node};
    return word.node < (kOpen ? home->open_nodes : home->node_count);
  }

  [[gnu::cold]] ClosureEnd OpenFile(std::uint32_t file);
  // Kept out of the loop, with arguments by value, so that the loop's variables can stay in
  // registers.
  [[gnu::cold]] ClosureEnd NoLabel(NodeRef node, std::uint32_t label);
  [[gnu::cold]] ClosureEnd Fail(NodeRef node, const char* what);
  [[gnu::cold]] ClosureEnd FailEdge(const Home& source, const char* what);

  const CoqDataset& dataset_;
  const NodeLabels& labels_;
  const std::vector<bool>& excluded_;
  std::vector<Home> files_;
  Status status_;
};

}  // namespace millrace
