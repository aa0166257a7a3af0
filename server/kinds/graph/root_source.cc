// `source: {roots: NAME}`: one example for each row of a list of nodes, with the closure of its
// node. Neighbourhoods are drawn in neighbor_source.cc.

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/base/quoted.h"
#include "server/kinds/graph/edge_places.h"
#include "server/kinds/graph/graph_names.h"
#include "server/kinds/graph/graph_parts.h"
#include "server/kinds/graph/graph_view.h"
#include "server/kinds/graph/neighbor_source.h"
#include "server/kinds/graph/root_list_source.h"
#include "server/kinds/graph/source_makers.h"
#include "server/sampling/closure_builder.h"
#include "server/sampling/closure_in_turns.h"
#include "server/sampling/closure_parts.h"
#include "server/sampling/visited.h"

namespace millrace {
namespace {

constexpr std::size_t kClosuresInTurns = 8;

/// The table of labels at which closures stop. Names are those of the dataset.
Result<StopTable> ReadStops(const GraphDataset& dataset, const ParamValue& value) {
  StopTable stops;
  std::vector<std::int64_t> labels;
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&value)) labels = *numbers;
  if (const auto* names = std::get_if<std::vector<std::string>>(&value)) {
    const auto& known = dataset.description().node_labels;
    for (const std::string& name : *names) {
      const auto end = known ? known->end() : std::vector<std::string>::const_iterator();
      const auto found = known ? std::find(known->begin(), end, name) : end;
      if (found == end) {
        return InvalidArgument(
            fmt::format("closure.stop_at: the dataset has no node label {}", Quoted(name)));
      }
      labels.push_back(found - known->begin());
    }
  }
  for (const std::int64_t label : labels) {
    if (label < 0 || label >= dataset.node_labels() || dataset.Find("node_label") == nullptr) {
      return InvalidArgument(
          fmt::format("closure.stop_at: the dataset has no node label {}", label));
    }
    const auto place = static_cast<std::size_t>(label);
    stops.resize(std::max(stops.size(), place + 1));
    stops[place] = 1;
  }
  return stops;
}

class RootSource final : public RootListSource {
 public:
  RootSource(std::shared_ptr<const GraphTables> tables, const GraphArray* list, StopTable stops,
             const ClosurePart& closure)
      : RootListSource(std::move(tables), list, {}),
        stops_(std::move(stops)),
        options_(closure.options),
        kernel_(ChooseKernel(dataset().nodes(), closure)) {
    options_.stop_at_boundary = !stops_.empty();
  }

  const StopTable& stops() const { return stops_; }
  const ClosureOptions& options() const { return options_; }

  std::unique_ptr<ExampleReader> NewReader() const override;
  std::unique_ptr<const ExampleNames> NewNames() const override;

 private:
  const StopTable stops_;
  ClosureOptions options_;
  const ClosureKernel kernel_;
};

/// Reads closures, one after the other or several in turns. Builder: ClosureBuilder or
/// ClosureInTurns, over a GraphView.
template <class Builder>
class RootReader final : public ExampleReader {
 public:
  explicit RootReader(const RootSource& source)
      : source_(source),
        view_(source.dataset(), source.stops()),
        groups_(source.graph_tables().edge_classes(), source.dataset().edge_labels()),
        places_(source.dataset().edge_labels()) {
    for (std::size_t i = 0; i < (Builder::kTakesTurns ? kClosuresInTurns : 1); ++i) {
      graphs_.emplace_back(source.dataset().nodes(), source.options());
    }
  }

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    std::size_t begun = 0;
    for (std::size_t next = 0; next < ids.size();) {
      for (; begun < ids.size() && begun < next + graphs_.size(); ++begun) {
        MILLRACE_RETURN_IF_ERROR(Begin(graphs_[begun % graphs_.size()], ids[begun]));
      }
      if constexpr (Builder::kTakesTurns) {
        for (std::size_t i = next; i < begun; ++i) Advance(graphs_[i % graphs_.size()]);
      }
      for (; next < begun && graphs_[next % graphs_.size()].finished; ++next) {
        MILLRACE_RETURN_IF_ERROR(Finish(graphs_[next % graphs_.size()], ids[next], writer));
      }
    }
    return OkStatus();
  }

 private:
  struct Graph {
    Graph(std::uint64_t nodes, const ClosureOptions& options) : builder(nodes, options) {}
    Builder builder;
    Closure closure;
    bool finished = false;
    ClosureEnd end = ClosureEnd::kDone;
    Status status;  // set if the end is kFailed
  };

  Status Begin(Graph& graph, ExampleId id) {
    MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t root, source_.Root(id.value()));
    const std::array<std::uint64_t, 1> roots = {root};
    graph.finished = !Builder::kTakesTurns;
    if constexpr (Builder::kTakesTurns) {
      graph.builder.Begin(view_, roots, graph.closure);
    } else {
      graph.end = graph.builder.Build(view_, roots, graph.closure);
      graph.status = view_.status();
    }
    return OkStatus();
  }
  void Advance(Graph& graph) {
    if (graph.finished || !graph.builder.Advance(view_, graph.closure, &graph.end)) return;
    graph.finished = true;
    graph.status = view_.status();
  }
  Status Finish(Graph& graph, ExampleId id, BatchWriter& writer) {
    if (graph.end == ClosureEnd::kFailed) return graph.status;
    if (graph.end != ClosureEnd::kDone) {
      writer.AddDropped(id, DropReason::kTooLarge);
      return OkStatus();
    }
    const GraphTables& tables = source_.graph_tables();
    const GraphSourceTensors& numbers = tables.numbers();
    const auto node_at = [&](std::uint32_t number) { return graph.builder.NodeAt(number); };
    MILLRACE_RETURN_IF_ERROR(tables.AppendNodes(
        static_cast<std::uint32_t>(graph.closure.node_labels.size()), node_at, writer));
    groups_.Append(graph.closure, numbers.edges, writer);
    if (tables.needs_edge_places()) {
      MILLRACE_RETURN_IF_ERROR(AppendEdgePlaces(graph.closure, node_at, writer));
    }
    MILLRACE_RETURN_IF_ERROR(
        tables.arrays().AppendTargets(id.value(), graph.builder.NodeAt(0), writer));
    writer.AppendOne(numbers.root, 0);
    writer.AppendOne(numbers.example_id, static_cast<std::int64_t>(id.value()));
    writer.EndExample(id);
    return OkStatus();
  }

  template <class NodeAt>
  Status AppendEdgePlaces(const Closure& closure, const NodeAt& node_at, BatchWriter& writer) {
    const auto word_at = [this](std::uint64_t place) {
      std::uint64_t word;
      view_.Copy(place, 1, &word);
      return word;
    };
    MILLRACE_RETURN_IF_ERROR(places_.Find(source_.dataset(), closure, node_at, word_at));
    return source_.graph_tables().AppendEdges(places_.ByLabel(closure), writer);
  }

  const RootSource& source_;
  GraphView view_;
  EdgeGroups groups_;
  EdgePlaces places_;
  std::vector<Graph> graphs_;
};

std::unique_ptr<ExampleReader> RootSource::NewReader() const {
  switch (kernel_) {
    case ClosureKernel::kArray:
      return std::make_unique<RootReader<ClosureBuilder<GraphView, StampedArray>>>(*this);
    case ClosureKernel::kTable:
      return std::make_unique<RootReader<ClosureBuilder<GraphView, StampedTable>>>(*this);
    case ClosureKernel::kInTurns:
      break;
  }
  return std::make_unique<RootReader<ClosureInTurns<GraphView>>>(*this);
}

std::unique_ptr<const ExampleNames> RootSource::NewNames() const {
  const auto root_of = [this](std::uint64_t row) -> Result<GraphRange> {
    MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t root, Root(row));
    return GraphRange{root, root + 1};
  };
  return std::make_unique<GraphExampleNames<decltype(root_of)>>(graph_tables(), root_of);
}

}  // namespace

Result<std::shared_ptr<const Source>> MakeRootSource(std::shared_ptr<const Dataset> dataset,
                                                     const PlanParts& parts) {
  const auto graph = std::static_pointer_cast<const GraphDataset>(std::move(dataset));
  const std::string name = std::get<std::string>(parts.Get<SourcePart>().argument);
  const GraphArray* const list = graph->Find("roots/" + name);
  if (list == nullptr && name != "all") return NoList(*graph, "roots/", name);
  const std::uint64_t rows = list == nullptr ? graph->nodes() : list->rows();
  const ExampleList examples = {.name = name, .examples = rows, .roots = true};
  if (parts.Get<NeighborPart>().drawn) return MakeNeighborSource(graph, parts, list, examples);
  const ClosurePart& closure = parts.Get<ClosurePart>();
  MILLRACE_ASSIGN_OR_RETURN(StopTable stops,
                            ReadStops(*graph, parts.Get<GraphClosurePart>().stop_at));
  MILLRACE_ASSIGN_OR_RETURN(
      auto tables,
      GraphTables::Make(graph, parts, examples, {.nodes = closure.options.max_subgraph_size}));
  return std::shared_ptr<const Source>(
      std::make_shared<RootSource>(std::move(tables), list, std::move(stops), closure));
}

}  // namespace millrace
