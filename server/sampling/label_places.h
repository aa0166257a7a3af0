// The places of edges that are put in the order of their labels. Edges of one label keep their
// order. Time depends on the number of edges, not on the number of possible labels.
//
// Not thread-safe; keeps its memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace {

class LabelPlaces {
 public:
  /// Every label is below `labels`.
  explicit LabelPlaces(std::uint32_t labels) : next_(labels) {}

  /// Calls `put(edge, place, label)` for each of `edges` edges, in their order. `label_of(edge)`
  /// gives the label.
  template <class LabelOf, class Put>
  void ForEach(std::size_t edges, const LabelOf& label_of, const Put& put) {
    present_.clear();
    for (std::size_t e = 0; e < edges; ++e) {
      const std::uint16_t label = label_of(e);
      if (next_[label]++ == 0) present_.push_back(label);
    }
    std::sort(present_.begin(), present_.end());
    std::uint32_t begin = 0;
    for (const std::uint16_t label : present_) {
      const std::uint32_t count = next_[label];
      next_[label] = begin;
      begin += count;
    }
    for (std::size_t e = 0; e < edges; ++e) {
      const std::uint16_t label = label_of(e);
      put(e, next_[label]++, label);
    }
    for (const std::uint16_t label : present_) next_[label] = 0;
  }

 private:
  std::vector<std::uint32_t> next_;     // by label: how many edges, and then the next place
  std::vector<std::uint16_t> present_;  // the labels that occur
};

}  // namespace millrace
