// `source: {graphs: NAME}`: one example for each small graph of a list, whole, as it lies.

#include <utility>

#include <fmt/format.h>

#include "server/kinds/graph/edge_places.h"
#include "server/kinds/graph/graph_names.h"
#include "server/kinds/graph/graph_source.h"
#include "server/kinds/graph/source_makers.h"

namespace millrace {
namespace {

enum SmallGraphColumn : std::size_t { kFirstNode, kNodeCount, kEdgeCount, kFirstTarget };

class SmallGraphSource final : public GraphSource {
 public:
  SmallGraphSource(std::shared_ptr<const GraphTables> tables, const GraphArray& list)
      : GraphSource(std::move(tables), {.name = "graphs",
                                        .examples = list.rows() - 1,
                                        .columns = {{"node"}, {"nodes"}, {"edges"}}}),
        list_(list) {}

  Result<GraphRange> Nodes(std::uint64_t row) const { return dataset().SmallGraph(list_, row); }
  /// The places of the edges of some nodes.
  Result<GraphRange> Edges(const GraphRange& nodes) const {
    if (nodes.size() == 0) return GraphRange{};
    MILLRACE_ASSIGN_OR_RETURN(const GraphRange first, dataset().Row(nodes.begin));
    MILLRACE_ASSIGN_OR_RETURN(const GraphRange last, dataset().Row(nodes.end - 1));
    if (first.begin <= last.end) return GraphRange{first.begin, last.end};
    return dataset().BadNumber(dataset().indptr(), nodes.end, "is below an earlier one");
  }

  ExampleDescription Describe(ExampleId id) const override {
    ExampleDescription description;
    if (const auto nodes = Nodes(id.value()); nodes.ok()) {
      description.title = fmt::format("nodes {} to {}", nodes->begin, nodes->end);
      description.facts = {{"first_node", nodes->begin}, {"nodes", nodes->size()}};
    }
    return description;
  }
  std::unique_ptr<ExampleReader> NewReader() const override;
  std::unique_ptr<const ExampleNames> NewNames() const override;

 private:
  std::int64_t ColumnValue(std::size_t column, std::uint64_t row) const override {
    if (column >= kFirstTarget) {
      return static_cast<std::int64_t>(
          graph_tables().targets()[column - kFirstTarget].array->NumberAt(row));
    }
    const GraphRange nodes = graph_tables().OrNote(Nodes(row));
    if (column == kFirstNode) return static_cast<std::int64_t>(nodes.begin);
    if (column == kNodeCount) return static_cast<std::int64_t>(nodes.size());
    return static_cast<std::int64_t>(graph_tables().OrNote(Edges(nodes)).size());
  }

  const GraphArray& list_;
};

class SmallGraphReader final : public ExampleReader {
 public:
  explicit SmallGraphReader(const SmallGraphSource& source)
      : source_(source),
        groups_(source.graph_tables().edge_classes(), source.dataset().edge_labels()),
        places_(source.dataset().edge_labels()) {}

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    for (const ExampleId id : ids) {
      MILLRACE_ASSIGN_OR_RETURN(const GraphRange nodes, source_.Nodes(id.value()));
      MILLRACE_ASSIGN_OR_RETURN(const GraphRange edges, source_.Edges(nodes));
      if (nodes.size() > kMaxExampleNodes || edges.size() > kMaxExampleEdges) {
        writer.AddDropped(id, DropReason::kTooLarge);
        continue;
      }
      MILLRACE_RETURN_IF_ERROR(ReadEdges(nodes, edges));
      const GraphSourceTensors& numbers = source_.graph_tables().numbers();
      MILLRACE_RETURN_IF_ERROR(source_.graph_tables().AppendNodes(
          static_cast<std::uint32_t>(nodes.size()),
          [&](std::uint32_t number) { return nodes.begin + number; }, writer));
      groups_.Append(graph_, numbers.edges, writer);
      if (source_.graph_tables().needs_edge_places()) {
        MILLRACE_RETURN_IF_ERROR(
            source_.graph_tables().AppendEdges(places_.ByLabel(graph_), writer));
      }
      MILLRACE_RETURN_IF_ERROR(
          source_.graph_tables().arrays().AppendTargets(id.value(), 0, writer));
      writer.AppendOne(numbers.example_id, static_cast<std::int64_t>(id.value()));
      writer.EndExample(id);
    }
    return OkStatus();
  }

 private:
  Status ReadEdges(const GraphRange& nodes, const GraphRange& edges) {
    const GraphDataset& dataset = source_.dataset();
    graph_.node_labels.Reserve(nodes.size());
    graph_.node_labels.SetSize(nodes.size());
    graph_.SetEdges(0);
    places_.Clear();
    graph_.edge_words.Reserve(edges.size());
    graph_.edge_ends.Reserve(edges.size());
    const bool with_places = source_.graph_tables().needs_edge_places();
    std::size_t count = 0;
    for (std::uint64_t node = nodes.begin; node < nodes.end; ++node) {
      MILLRACE_ASSIGN_OR_RETURN(const GraphRange row, dataset.Row(node));
      // The rows were read before, and may have been changed meanwhile.
      if (row.size() > edges.size() - count) {
        return dataset.BadNumber(dataset.indptr(), node, "is not where the row before it ends");
      }
      for (std::uint64_t edge = row.begin; edge < row.end; ++edge, ++count) {
        MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t target, dataset.Neighbour(edge));
        MILLRACE_ASSIGN_OR_RETURN(const std::uint32_t label, dataset.EdgeLabel(edge));
        if (!nodes.Contains(target)) return dataset.LeavesSmallGraph(nodes, node, edge, target);
        auto source = static_cast<std::uint32_t>(node - nodes.begin);
        auto end = static_cast<std::uint32_t>(target - nodes.begin);
        graph_.edge_words.data()[count] = label;
        graph_.edge_ends.data()[count] = {source, end};
        if (with_places) places_.Add(edge);
      }
    }
    graph_.SetEdges(count);
    return OkStatus();
  }

  const SmallGraphSource& source_;
  EdgeGroups groups_;
  EdgePlaces places_;
  Closure graph_;  // in the form of a closure, which EdgeGroups takes
};

std::unique_ptr<ExampleReader> SmallGraphSource::NewReader() const {
  return std::make_unique<SmallGraphReader>(*this);
}

std::unique_ptr<const ExampleNames> SmallGraphSource::NewNames() const {
  const auto nodes_of = [this](std::uint64_t row) { return Nodes(row); };
  return std::make_unique<GraphExampleNames<decltype(nodes_of)>>(graph_tables(), nodes_of);
}

}  // namespace

Result<std::shared_ptr<const Source>> MakeSmallGraphSource(std::shared_ptr<const Dataset> dataset,
                                                           const PlanParts& parts) {
  const auto graph = std::static_pointer_cast<const GraphDataset>(std::move(dataset));
  const std::string name = std::get<std::string>(parts.Get<SourcePart>().argument);
  const GraphArray* const list = graph->Find("graphs/" + name);
  if (list == nullptr) return NoList(*graph, "graphs/", name);
  MILLRACE_ASSIGN_OR_RETURN(
      auto tables, GraphTables::Make(graph, parts, {.name = name, .examples = list->rows() - 1},
                                     {.nodes = kMaxExampleNodes}));
  return std::shared_ptr<const Source>(
      std::make_shared<SmallGraphSource>(std::move(tables), *list));
}

}  // namespace millrace
