#include "server/dataset/graph/source/edge_places.h"

namespace millrace {

const std::vector<std::uint64_t>& EdgePlaces::ByLabel(const Closure& closure,
                                                      std::uint32_t labels) {
  if (labels == 1) return places_;
  const std::uint64_t* const words = closure.edge_words.data();
  begins_.assign(labels + 1, 0);
  for (std::size_t e = 0; e < places_.size(); ++e) ++begins_[(words[e] & 0xFFFF) + 1];
  for (std::uint32_t label = 0; label < labels; ++label) begins_[label + 1] += begins_[label];
  by_label_.resize(places_.size());
  for (std::size_t e = 0; e < places_.size(); ++e) {
    by_label_[begins_[words[e] & 0xFFFF]++] = places_[e];
  }
  return by_label_;
}

}  // namespace millrace
