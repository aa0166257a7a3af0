#include "server/kinds/graph/neighbor_source.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "server/kinds/graph/mapped_rows.h"
#include "server/kinds/graph/neighbor_fanout.h"
#include "server/kinds/graph/root_list_source.h"
#include "server/sampling/label_places.h"
#include "server/sampling/neighbor_sampler.h"
#include "server/source/keyed_order.h"
#include "server/source/order_parts.h"

namespace millrace {
namespace {

class NeighborSource final : public RootListSource {
 public:
  NeighborSource(const std::shared_ptr<const GraphTables>& tables, const GraphArray* list,
                 NeighborOptions options, std::uint64_t seed, std::vector<std::uint64_t> excluded)
      : RootListSource(tables, list,
                       {.varies = true,
                        .drops_excluded = tables->expand().merged,
                        .reading_stage = "neighbors"}),
        options_(std::move(options)),
        seed_(seed),
        excluded_(std::move(excluded)) {}

  bool merged() const { return expand().merged; }
  const NeighborOptions& options() const { return options_; }
  /// The key of the draws for an example, in one pass.
  std::uint64_t KeyOf(std::uint64_t pass, ExampleId example) const {
    return *DeriveSeed(DeriveSeed(seed_, "neighbors", pass), "example", example.value());
  }
  bool IsExcluded(ExampleId example) const {
    return std::binary_search(excluded_.begin(), excluded_.end(), example.value());
  }

  std::unique_ptr<ExampleReader> NewReader() const override;

 private:
  const NeighborOptions options_;
  const std::uint64_t seed_;
  const std::vector<std::uint64_t> excluded_;  // only if batches are merged
};

template <class Rows>
class NeighborReader final : public ExampleReader {
 public:
  NeighborReader(const NeighborSource& source, Rows rows)
      : source_(source),
        rows_(rows),
        sampler_(rows_, source.options()),
        grouped_(source.dataset().Find("edge_label") != nullptr),
        by_label_(source.dataset().edge_labels()) {}

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    if (source_.merged()) return AppendMerged(ids, writer);
    for (const ExampleId id : ids) MILLRACE_RETURN_IF_ERROR(AppendOne(id, writer));
    return OkStatus();
  }

 private:
  Status AppendOne(ExampleId id, BatchWriter& writer) {
    MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t root, source_.Root(id.value()));
    numbers_.resize(1);
    roots_.assign(1, root);
    switch (sampler_.Draw(roots_, source_.KeyOf(writer.PassOf(0), id), graph_, numbers_.data())) {
      case SampleEnd::kFailed:
        return sampler_.status();
      case SampleEnd::kTooLarge:
        writer.AddDropped(id, DropReason::kTooLarge);
        return OkStatus();
      case SampleEnd::kDone:
        break;
    }
    MILLRACE_RETURN_IF_ERROR(AppendGraph(writer));
    MILLRACE_RETURN_IF_ERROR(AppendRoot(id, root, 0, writer));
    writer.EndExample(id);
    return OkStatus();
  }

  /// REQUIRES: these are all examples of the batch.
  Status AppendMerged(std::span<const ExampleId> ids, BatchWriter& writer) {
    if (ids.empty()) return EndEmpty(writer);
    roots_.clear();
    kept_.clear();
    const std::uint64_t key = source_.KeyOf(writer.PassOf(0), ids.front());
    for (const ExampleId id : ids) source_.AskForRoot(id.value());
    for (const ExampleId id : ids) {
      if (source_.IsExcluded(id)) {
        writer.AddDropped(id, DropReason::kExcluded);
        continue;
      }
      MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t root, source_.Root(id.value()));
      roots_.push_back(root);
      kept_.push_back(id);
    }
    if (kept_.empty()) return EndEmpty(writer);
    numbers_.resize(roots_.size());
    switch (sampler_.Draw(roots_, key, graph_, numbers_.data())) {
      case SampleEnd::kFailed:
        return sampler_.status();
      case SampleEnd::kTooLarge:
        return FailedPrecondition(
            fmt::format("closure: the graph of a batch of {} roots has more than {} nodes or {} "
                        "edges: expected "
                        "smaller batches or fan-outs",
                        roots_.size(), source_.options().most_nodes, kMaxSampledEdges));
      case SampleEnd::kDone:
        break;
    }
    MILLRACE_RETURN_IF_ERROR(AppendGraph(writer));
    writer.EndGraph();
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      MILLRACE_RETURN_IF_ERROR(AppendRoot(kept_[i], roots_[i], numbers_[i], writer));
      writer.EndExample(kept_[i]);
    }
    return OkStatus();
  }

  /// The graph of no roots.
  Status EndEmpty(BatchWriter& writer) {
    graph_.Clear();
    graph_.hop_nodes.assign(std::size_t{source_.options().hops()} + 1, 0);
    graph_.hop_edges.assign(source_.options().hops(), 0);
    MILLRACE_RETURN_IF_ERROR(AppendGraph(writer));
    writer.EndGraph();
    return OkStatus();
  }

  Status AppendRoot(ExampleId id, std::uint64_t root, std::uint32_t number, BatchWriter& writer) {
    const GraphTables& tables = source_.graph_tables();
    MILLRACE_RETURN_IF_ERROR(tables.arrays().AppendTargets(id.value(), root, writer));
    writer.AppendOne(tables.numbers().root, number);
    writer.AppendOne(tables.numbers().example_id, static_cast<std::int64_t>(id.value()));
    return OkStatus();
  }

  Status AppendGraph(BatchWriter& writer) {
    const GraphTables& tables = source_.graph_tables();
    const GraphSourceTensors& numbers = tables.numbers();
    const auto* const nodes = graph_.nodes.data();
    const auto node_at = [nodes](std::uint32_t number) { return std::uint64_t{nodes[number]}; };
    MILLRACE_RETURN_IF_ERROR(
        tables.AppendNodes(static_cast<std::uint32_t>(graph_.nodes.size()), node_at, writer));
    if (grouped_) {
      MILLRACE_RETURN_IF_ERROR(GroupEdges(numbers.edges.label, writer));
    } else if (numbers.edges.label) {
      labels_.assign(graph_.edges(), 0);
      writer.Append(*numbers.edges.label, labels_);
    }
    writer.Append(numbers.edges.source, graph_.row.span());
    writer.Append(numbers.edges.target, graph_.other.span());
    if (tables.needs_edge_places()) {
      MILLRACE_RETURN_IF_ERROR(tables.AppendEdges(graph_.place.span(), writer));
    }
    writer.Append(numbers.hop_nodes, graph_.hop_nodes);
    writer.Append(numbers.hop_edges, graph_.hop_edges);
    return OkStatus();
  }

  /// Puts the edges in the order of their labels, and appends the labels.
  Status GroupEdges(std::optional<std::size_t> tensor, BatchWriter& writer) {
    const std::size_t edges = graph_.edges();
    labels_.resize(edges);
    const std::uint64_t* const place = graph_.place.data();
    for (std::size_t e = 0; e < edges; ++e) {
      if (!rows_.LoadLabel(place[e], &labels_[e])) return rows_.BadLabel(place[e]);
    }
    sorted_.ReserveEdges(edges);
    sorted_.SetEdges(edges);
    sorted_labels_.resize(edges);
    by_label_.ForEach(
        edges, [this](std::size_t e) { return static_cast<std::uint16_t>(labels_[e]); },
        [this](std::size_t e, std::uint32_t to, std::uint16_t label) {
          sorted_.row.data()[to] = graph_.row.data()[e];
          sorted_.other.data()[to] = graph_.other.data()[e];
          sorted_.place.data()[to] = graph_.place.data()[e];
          sorted_labels_[to] = label;
        });
    std::swap(sorted_.row, graph_.row);
    std::swap(sorted_.other, graph_.other);
    std::swap(sorted_.place, graph_.place);
    if (tensor) writer.Append(*tensor, sorted_labels_);
    return OkStatus();
  }

  const NeighborSource& source_;
  const Rows rows_;
  NeighborSampler<Rows> sampler_;
  const bool grouped_;
  LabelPlaces by_label_;
  SampledGraph<typename Rows::Node> graph_;
  SampledGraph<typename Rows::Node> sorted_;
  std::vector<std::uint32_t> labels_;
  std::vector<std::uint32_t> sorted_labels_;
  std::vector<std::uint64_t> roots_;
  std::vector<ExampleId> kept_;
  std::vector<std::uint32_t> numbers_;
};

std::unique_ptr<ExampleReader> NeighborSource::NewReader() const {
  return WithMappedRows(dataset(), [this](auto rows) -> std::unique_ptr<ExampleReader> {
    return std::make_unique<NeighborReader<decltype(rows)>>(*this, rows);
  });
}

}  // namespace

Result<std::shared_ptr<const Source>> MakeNeighborSource(
    std::shared_ptr<const GraphDataset> dataset, const PlanParts& parts, const GraphArray* list,
    const ExampleList& examples) {
  const NeighborPart& part = parts.Get<NeighborPart>();
  MILLRACE_ASSIGN_OR_RETURN(NeighborOptions options, ReadNeighborOptions(*dataset, part));
  const NeighborBounds most = MostNeighbors(*dataset, options);
  GraphBounds bounds;
  bounds.merged = part.merge;
  bounds.hops = options.hops();
  bounds.nodes = part.merge ? std::min(dataset->nodes(), kMaxSampledNodes)
                            : std::min<std::uint64_t>(most.nodes, kMaxExampleNodes);
  bounds.example_nodes = most.nodes;
  bounds.edges = most.edges;
  options.most_nodes = static_cast<std::uint32_t>(bounds.nodes);
  const bool labelled = dataset->Find("edge_label") != nullptr;
  MILLRACE_ASSIGN_OR_RETURN(auto tables,
                            GraphTables::Make(std::move(dataset), parts, examples, bounds));
  options.places = labelled || tables->needs_edge_places();
  std::vector<std::uint64_t> excluded;
  if (part.merge) excluded = parts.Get<ExcludePart>().examples;
  return std::shared_ptr<const Source>(std::make_shared<NeighborSource>(
      std::move(tables), list, std::move(options), part.seed, std::move(excluded)));
}

}  // namespace millrace
