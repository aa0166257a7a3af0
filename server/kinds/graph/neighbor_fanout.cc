#include "server/kinds/graph/neighbor_fanout.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/json/json.h"
#include "server/kinds/graph/graph_names.h"

namespace millrace {
namespace {

/// The number of a label that is written by its name or, without names, by its number.
Result<std::uint32_t> LabelOf(const GraphDataset& dataset, const std::string& written) {
  const auto& names = dataset.description().edge_labels;
  for (std::uint32_t label = 0; label < dataset.edge_labels(); ++label) {
    if (dataset.Find("edge_label") == nullptr) break;
    if (names ? (*names)[label] == written : std::to_string(label) == written) return label;
  }
  std::string known = dataset.Find("edge_label") == nullptr ? "none" : "";
  for (std::size_t i = 0; known.empty() && names && i < names->size(); ++i) {
    known = fmt::format("{}", fmt::join(*names, ", "));
  }
  if (known.empty()) known = fmt::format("0 to {}", dataset.edge_labels() - 1);
  return InvalidArgument(
      fmt::format("closure.fanout: the dataset has no edge label '{}'; it has {}", written, known));
}

Result<Fanout> ReadFanout(const std::string& label, const Json& list) {
  const auto refuse = [&] {
    return InvalidArgument(fmt::format(
        "closure.fanout.{}: expected a list of integers from -1 to {}, one a hop, got {}", label,
        kMaxFanout, list.ToText()));
  };
  if (!list.is_array() || list.AsArray().empty()) return refuse();
  Fanout fanout;
  for (const Json& number : list.AsArray()) {
    if (!number.is_integer()) return refuse();
    // One beyond int64 is read as unsigned, and would wrap.
    if (number.is_unsigned() && number.AsUnsigned() > std::uint64_t{kMaxFanout}) return refuse();
    const auto value = number.AsInteger();
    if (value < kAllEntries || value > kMaxFanout) return refuse();
    fanout.push_back(value);
  }
  return fanout;
}

}  // namespace

Result<NeighborOptions> ReadNeighborOptions(const GraphDataset& dataset, const NeighborPart& part) {
  NeighborOptions options;
  options.replace = part.replace;
  options.max_subgraph_size = part.max_subgraph_size;
  if (const auto* fanout = std::get_if<Fanout>(&part.fanout)) {
    options.fanout = *fanout;
  } else {
    MILLRACE_ASSIGN_OR_RETURN(const Json tree, Json::Parse(std::get<ParamTree>(part.fanout).json));
    for (const auto& [label, list] : tree.AsObject()) {
      MILLRACE_ASSIGN_OR_RETURN(const std::uint32_t number, LabelOf(dataset, label));
      MILLRACE_ASSIGN_OR_RETURN(Fanout own, ReadFanout(label, list));
      options.by_label.push_back({number, std::move(own)});
      if (options.by_label.back().fanout.size() == options.by_label.front().fanout.size()) continue;
      return InvalidArgument(fmt::format(
          "closure.fanout.{}: has {} hops, and another label has {}: expected equally many; write "
          "0 "
          "for a hop that does not follow a label",
          label, options.by_label.back().fanout.size(), options.by_label.front().fanout.size()));
    }
    std::sort(options.by_label.begin(), options.by_label.end(),
              [](const LabelFanout& a, const LabelFanout& b) { return a.label < b.label; });
  }
  if (options.hops() == 0) {
    return InvalidArgument("closure.fanout: is empty, expected a number for each hop");
  }
  return options;
}

NeighborBounds MostNeighbors(const GraphDataset& dataset, const NeighborOptions& options) {
  // Far above what a batch can hold, and far below where products overflow.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  NeighborBounds most;
  std::uint64_t met = 1;  // by the hop before
  for (std::uint32_t hop = 0; hop < options.hops(); ++hop) {
    std::uint64_t drawn = 0;  // of each node
    const auto add = [&](std::int64_t fanout) {
      drawn += fanout == kAllEntries ? std::min(dataset.edges(), kMost)
                                     : static_cast<std::uint64_t>(fanout);
    };
    for (const LabelFanout& of : options.by_label) add(of.fanout[hop]);
    if (options.by_label.empty()) add(options.fanout[hop]);
    const bool overflows = drawn > 0 && met > kMost / drawn;
    const std::uint64_t edges = overflows ? kMost : met * drawn;
    most.edges = std::min(kMost, most.edges + edges);
    met = std::min(edges, dataset.nodes());
    most.nodes = std::min(most.nodes + met, dataset.nodes());
  }
  // A node is gone through once.
  if (!options.replace) most.edges = std::min(most.edges, dataset.edges());
  if (options.max_subgraph_size) {
    most.nodes = std::min<std::uint64_t>(most.nodes, *options.max_subgraph_size);
  }
  most.nodes = std::max<std::uint64_t>(most.nodes, 1);
  return most;
}

}  // namespace millrace
