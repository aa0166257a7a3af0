// The places in `indices` of an example's edges, for tensors that have a row for each edge.
//
// Not thread-safe; it keeps its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/sampling/closure.h"
#include "server/sampling/label_places.h"

namespace millrace {

class EdgePlaces {
 public:
  /// Every label is below `labels`.
  explicit EdgePlaces(std::uint32_t labels) : one_label_(labels == 1), by_label_(labels) {}

  void Clear() { places_.clear(); }
  /// Adds the place of the next edge of an example.
  void Add(std::uint64_t place) { places_.push_back(place); }

  /// Finds the places of a closure's edges. It visits its nodes' rows once more: their entries that
  /// are in the closure come in the same order. `node_at(n)` is the node with number n, and
  /// `word_at(place)` the word of an entry of `indices`. DataLoss if the rows have changed since
  /// the closure was built.
  template <class NodeAt, class WordAt>
  Status Find(const GraphDataset& dataset, const Closure& closure, const NodeAt& node_at,
              const WordAt& word_at) {
    Clear();
    rows_.assign(closure.node_labels.size(), {1, 0});
    for (std::size_t e = 0; e < closure.edges(); ++e) {
      const std::uint32_t source = closure.edge_ends.data()[e].source;
      GraphRange& left = rows_[source];
      if (left.begin > left.end) {
        MILLRACE_ASSIGN_OR_RETURN(left, dataset.Row(node_at(source)));
      }
      const std::uint64_t word = closure.edge_words.data()[e];
      while (left.begin < left.end && word_at(left.begin) != word) ++left.begin;
      if (left.begin == left.end) {
        return dataset.BadNumber(dataset.indptr(), node_at(source), "was changed meanwhile");
      }
      Add(left.begin++);
    }
    return OkStatus();
  }

  /// The places in the order in which EdgeGroups appends the edges: by label, otherwise as they
  /// were added. REQUIRES: each edge of the closure has a place.
  const std::vector<std::uint64_t>& ByLabel(const Closure& closure);

 private:
  const bool one_label_;
  LabelPlaces by_label_;
  std::vector<std::uint64_t> places_;
  std::vector<std::uint64_t> sorted_;
  std::vector<GraphRange> rows_;  // the rest of the nodes' rows; {1, 0}: not read yet
};

}  // namespace millrace
