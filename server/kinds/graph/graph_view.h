// A graph dataset as a graph view for closures (see closure_builder.h). It reads the mapped arrays
// directly.
//
// A word of a closure's edge holds the node that the edge leads to, above the low 16 bits, which
// hold the edge's label. Numbers that do not fit become the largest ones, which are out of range of
// any dataset, so that a word never stands for another edge.
//
// Not thread-safe; each thread needs its own. Refers to the dataset, which must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/base/ask_for_line.h"
#include "common/base/result.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/kinds/graph/row_pointers.h"
#include "server/sampling/closure.h"

namespace millrace {

/// The node labels at which closures stop, as a table: stops[label] is 1 for those. Labels beyond
/// the table do not stop closures.
using StopTable = std::vector<std::uint8_t>;

class GraphView {
 public:
  struct Home {
    std::uint32_t number = 0;
  };
  struct Target {
    std::uint64_t slot;
  };
  using Node = std::uint64_t;
  using EdgeAt = std::uint64_t;  // place in `indices`
  /// The label of nodes at which closures stop. All others have label 0.
  static constexpr std::uint32_t kBoundary = 1;

  /// `stops` must outlive the view.
  GraphView(const GraphDataset& dataset, const StopTable& stops);

  const Home& HomeAt(std::uint32_t /*number*/) const { return home_; }
  std::uint32_t HomeOf(Node /*node*/) const { return 0; }
  const Home& HomeOf(const Target& /*target*/) const { return home_; }
  Node NodeOf(const Target& target) const { return target.slot; }
  std::uint64_t Slot(Node node) const { return node; }
  bool Skips(std::uint64_t /*word*/) const { return false; }

  bool Follow(std::uint64_t word, const Home& /*source*/, Target* target) const {
    target->slot = word >> kLabelBits;
    return (target->slot < nodes_) & ((word & kLabelMask) < edge_labels_);
  }
  bool Peek(std::uint64_t word, const Home& source, Target* target) const {
    return Follow(word, source, target);
  }
  ClosureEnd FollowAny(std::uint64_t word, const Home& source, Target* target) {
    return Follow(word, source, target) ? ClosureEnd::kDone : FailEdge(word);
  }

  bool Load(const Target& target, LoadedNode<GraphView>* loaded) const {
    const bool right = Read(target.slot, loaded);
    return right & (loaded->edges < copied_at_once_);
  }
  ClosureEnd LoadAny(Node node, LoadedNode<GraphView>* loaded) {
    return Read(node, loaded) ? ClosureEnd::kDone : FailNode(node);
  }

  void CopyAtOnce(EdgeAt edges, std::uint64_t* to) const { CopySome<kEdgesAtOnce>(edges, to); }
  void Copy(EdgeAt edges, std::uint32_t count, std::uint64_t* to) const {
    std::uint32_t done = 0;
    for (; done + kEdgesAtOnce <= count; done += kEdgesAtOnce) {
      CopySome<kEdgesAtOnce>(edges + done, to + done);
    }
    for (; done < count; ++done) CopySome<1>(edges + done, to + done);
  }

  ClosureEnd LabelOf(Node /*node*/, std::uint32_t* label) const {
    *label = 0;
    return ClosureEnd::kDone;
  }

  // The next functions are hints that this will be read soon.
  void PrefetchNode(Node node) const {
    AskForLine(rows_.BeginAt(node));
    AskForLine(rows_.EndAt(node));
    if (node_label_bytes_ != 0) AskForLine(node_labels_ + node * node_label_bytes_);
  }
  void PrefetchEdges(EdgeAt edges) const {
    AskForLine(indices_ + (edges << (wide_ ? 3 : 2)));
    if (edge_label_bytes_ != 0) AskForLine(labels_ + edges * edge_label_bytes_);
  }
  void PrefetchLabel(Node /*node*/) const {}

  /// The error, if a function has returned kFailed.
  const Status& status() const { return status_; }

 private:
  static constexpr unsigned kLabelBits = 16;
  static constexpr std::uint64_t kLabelMask = 0xFFFF;
  static constexpr std::uint64_t kNoNode = kMaxArrayExtent;
  static_assert(kMaxEdgeLabels <= kLabelMask && kNoNode << kLabelBits >> kLabelBits == kNoNode);

  bool Read(std::uint64_t node, LoadedNode<GraphView>* loaded) const {
    std::uint64_t begin;
    std::uint64_t end;
    const bool right = rows_.Load(node, edges_, &begin, &end);
    loaded->edges = begin;
    loaded->count = static_cast<std::uint32_t>(end - begin);
    loaded->label = 0;
    return node_label_bytes_ == 0 ? right : right & ReadStop(node, &loaded->label);
  }

  /// False if the label is out of range.
  bool ReadStop(std::uint64_t node, std::uint32_t* stop) const {
    const std::uint64_t label = LabelAt(node_labels_, node_label_bytes_, node);
    *stop = label < stops_.size() ? stops_[label] : 0;
    return label < node_label_bound_;
  }

  static std::uint64_t LabelAt(const std::byte* labels, std::uint32_t bytes, std::uint64_t place) {
    switch (bytes) {
      case 1:
        return LoadOnce<std::uint8_t>(labels + place);
      case 2:
        return LoadOnce<std::uint16_t>(labels + 2 * place);
      case 4:
        return LoadOnce<std::uint32_t>(labels + 4 * place);
      default:
        return LoadOnce<std::uint64_t>(labels + 8 * place);
    }
  }

  template <std::uint32_t kCount>
  [[gnu::always_inline]] void CopySome(EdgeAt edges, std::uint64_t* to) const {
    wide_ ? CopyNodes<std::uint64_t, kCount>(edges, to)
          : CopyNodes<std::uint32_t, kCount>(edges, to);
    switch (edge_label_bytes_) {
      case 0:
        break;
      case 1:
        return AddLabels<std::uint8_t, kCount>(edges, to);
      case 2:
        return AddLabels<std::uint16_t, kCount>(edges, to);
      case 4:
        return AddLabels<std::uint32_t, kCount>(edges, to);
      default:
        return AddLabels<std::uint64_t, kCount>(edges, to);
    }
  }
  /// Index: the unsigned type as wide as the values of indices.
  template <class Index, std::uint32_t kCount>
  void CopyNodes(EdgeAt edges, std::uint64_t* to) const {
    Index nodes[kCount];
    LoadSome(indices_ + edges * sizeof(Index), nodes);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      std::uint64_t node = nodes[i];
      if constexpr (sizeof(Index) == 8) node = node < kNoNode ? node : kNoNode;
      to[i] = node << kLabelBits;
    }
  }
  template <class Label, std::uint32_t kCount>
  void AddLabels(EdgeAt edges, std::uint64_t* to) const {
    Label labels[kCount];
    LoadSome(labels_ + edges * sizeof(Label), labels);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      const std::uint64_t label = labels[i];
      to[i] |= label < kLabelMask ? label : kLabelMask;
    }
  }
  template <class T, std::size_t kCount>
  static void LoadSome(const std::byte* from, T (&to)[kCount]) {
    std::memcpy(to, from, sizeof to);
    // Only the copy is used from here on, because the file may change.
    __asm__("" : "+m"(to));
  }

  [[gnu::cold]] ClosureEnd FailEdge(std::uint64_t word);
  [[gnu::cold]] ClosureEnd FailNode(Node node);

  const GraphDataset& dataset_;
  const StopTable& stops_;
  const Home home_;
  const RowPointers rows_;
  const bool wide_;  // values of indices have 64 bits
  const std::byte* indices_;
  const std::byte* labels_ = nullptr;
  const std::byte* node_labels_ = nullptr;
  std::uint64_t nodes_;  // as many as values of indices can name
  std::uint64_t edges_;
  std::uint64_t copied_at_once_;  // kEdgesAtOnce edges can be copied from any place below this
  std::uint64_t edge_labels_;
  std::uint64_t node_label_bound_;
  std::uint32_t edge_label_bytes_ = 0;  // of one label; 0: no labels
  std::uint32_t node_label_bytes_ = 0;  // 0: closures stop nowhere
  Status status_;
};

}  // namespace millrace
