#include "server/sampling/edge_groups.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

// With more labels, to go through all of them takes longer than to find those that are present.
constexpr std::uint32_t kFewLabels = 256;

}  // namespace

EdgeGroups::EdgeGroups(std::span<const std::uint16_t> label_of_class, std::uint32_t labels)
    : label_of_class_(label_of_class), labels_(labels), places_(labels > kFewLabels ? 0 : labels) {
  if (labels > kFewLabels) of_many_.emplace(labels);
}

void EdgeGroups::Append(const Closure& closure, const EdgeTensors& tensors, BatchWriter& writer) {
  switch (writer.value_bytes(tensors.source)) {
    case 1:
      return AppendAs<std::uint8_t>(closure, tensors, writer);
    case 2:
      return AppendAs<std::uint16_t>(closure, tensors, writer);
    default:
      return AppendAs<std::uint32_t>(closure, tensors, writer);
  }
}

template <class Index>
void EdgeGroups::AppendAs(const Closure& closure, const EdgeTensors& tensors, BatchWriter& writer) {
  if (tensors.label) {
    if (writer.value_bytes(*tensors.label) == 1) {
      return Scatter<Index, std::uint8_t>(closure, tensors, writer);
    }
    return Scatter<Index, std::uint16_t>(closure, tensors, writer);
  }
  const std::size_t edges = closure.edges();
  const EdgeEnds* __restrict const ends = closure.edge_ends.data();
  const std::uint64_t last_node = std::max<std::size_t>(closure.node_labels.size(), 1) - 1;
  Index* __restrict const sources = writer.AppendRoom<Index>(tensors.source, edges, last_node);
  Index* __restrict const targets = writer.AppendRoom<Index>(tensors.target, edges, last_node);
  for (std::size_t e = 0; e < edges; ++e) {
    sources[e] = static_cast<Index>(ends[e].source);
    targets[e] = static_cast<Index>(ends[e].target);
  }
}

template <class Index, class Label>
void EdgeGroups::Scatter(const Closure& closure, const EdgeTensors& tensors, BatchWriter& writer) {
  const std::size_t edges = closure.edges();
  const std::uint64_t* __restrict const words = closure.edge_words.data();
  const EdgeEnds* __restrict const ends = closure.edge_ends.data();
  const std::uint16_t* __restrict const label_of_class = label_of_class_.data();
  const auto label_of = [&](std::size_t e) { return label_of_class[words[e] & 0xFFFF]; };
  const std::uint64_t last_node = std::max<std::size_t>(closure.node_labels.size(), 1) - 1;
  Index* __restrict const sources = writer.AppendRoom<Index>(tensors.source, edges, last_node);
  Index* __restrict const targets = writer.AppendRoom<Index>(tensors.target, edges, last_node);
  Label* __restrict const labels =
      writer.AppendRoom<Label>(*tensors.label, edges, std::uint64_t{labels_} - 1);
  const auto put = [&](std::size_t e, std::uint32_t place, std::uint16_t label) {
    sources[place] = static_cast<Index>(ends[e].source);
    targets[place] = static_cast<Index>(ends[e].target);
    labels[place] = static_cast<Label>(label);
  };
  if (of_many_) return of_many_->ForEach(edges, label_of, put);
  // Neighbouring edges often have the same label, and counting one of them has to wait for the
  // count before it. So both halves of the edges are counted, and then placed, side by side.
  Places* __restrict const places = places_.data();
  std::fill(places_.begin(), places_.end(), Places{0, 0});
  const std::size_t half = edges / 2;
  for (std::size_t e = 0; e < half; ++e) {
    ++places[label_of(e)].first;
    ++places[label_of(half + e)].second;
  }
  if (edges % 2 != 0) ++places[label_of(edges - 1)].second;
  std::uint32_t begin = 0;
  for (Places& place : places_) {
    const Places count = place;
    place = {begin, begin + count.first};
    begin += count.first + count.second;
  }
  for (std::size_t e = 0; e < half; ++e) {
    const std::uint16_t first = label_of(e);
    const std::uint16_t second = label_of(half + e);
    put(e, places[first].first++, first);
    put(half + e, places[second].second++, second);
  }
  if (edges % 2 != 0) {
    const std::uint16_t label = label_of(edges - 1);
    put(edges - 1, places[label].second++, label);
  }
}

}  // namespace millrace
