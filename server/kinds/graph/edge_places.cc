#include "server/kinds/graph/edge_places.h"

namespace millrace {

const std::vector<std::uint64_t>& EdgePlaces::ByLabel(const Closure& closure) {
  if (one_label_) return places_;
  const std::uint64_t* const words = closure.edge_words.data();
  sorted_.resize(places_.size());
  by_label_.ForEach(
      places_.size(), [&](std::size_t e) { return static_cast<std::uint16_t>(words[e] & 0xFFFF); },
      [&](std::size_t e, std::uint32_t place, std::uint16_t) { sorted_[place] = places_[e]; });
  return sorted_;
}

}  // namespace millrace
