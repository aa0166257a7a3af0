#include "server/kinds/graph/graph_sources.h"

#include <utility>

#include <fmt/format.h>

#include "common/base/quoted.h"
#include "common/parameters/make_parameter.h"
#include "server/kinds/graph/source_makers.h"
#include "server/source/plan_parts.h"

namespace millrace {

Status NoList(const GraphDataset& dataset, std::string_view prefix, std::string_view name) {
  std::string known;
  for (const auto& entry : dataset.description().arrays) {
    if (!entry.first.starts_with(prefix)) continue;
    known += (known.empty() ? "" : ", ") + entry.first.substr(prefix.size());
  }
  return InvalidArgument(fmt::format("source: the dataset has no list {}{}; it has {}", prefix,
                                     Quoted(name), known.empty() ? "none" : known));
}

SourceTable GraphSources() {
  // Errors about keys that do not suit the dataset have their places.
  const auto located = [](const SourceFactory& make) -> SourceFactory {
    return [make](std::shared_ptr<const Dataset> dataset,
                  const PlanParts& parts) -> Result<std::shared_ptr<const Source>> {
      auto source = make(std::move(dataset), parts);
      if (!source.ok()) return AtKey(parts, source.status());
      return source;
    };
  };
  // A graph has the edges that its folder has.
  const std::map<std::string, ParamValue> defaults = {{"edges.symmetrization", "none"},
                                                      {"edges.add_self_edges", false}};
  return SourceTable({
      {.name = "roots",
       .help = "a node of a list, with its closure",
       .make = located(MakeRootSource),
       .argument =
           NonEmptyTextParameter("", "name of the list; all: every node, if no list has that name"),
       .defaults = defaults,
       .has_graphs = true},
      {.name = "graphs",
       .help = "a whole small graph of a list",
       .make = located(MakeSmallGraphSource),
       .argument = NonEmptyTextParameter("", "name of the list"),
       .defaults = defaults,
       .has_graphs = true},
  });
}

}  // namespace millrace
