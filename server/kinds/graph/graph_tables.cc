#include "server/kinds/graph/graph_tables.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "common/transport/convert/table_writer.h"
#include "server/kinds/graph/graph_parts.h"
#include "server/sampling/closure.h"
#include "server/sampling/closure_parts.h"
#include "server/source/order_parts.h"
#include "server/source/tensors_part.h"

namespace millrace {
namespace {

/// The tensor of the edges' places in `indices`.
constexpr std::string_view kEdgePlace = "edge";

}  // namespace

Result<std::shared_ptr<const GraphTables>> GraphTables::Make(
    std::shared_ptr<const GraphDataset> dataset, const PlanParts& parts, const ExampleList& list,
    const GraphBounds& bounds) {
  const std::shared_ptr<GraphTables> tables(new GraphTables(std::move(dataset)));
  const auto& edges = parts.Get<EdgesPart>();
  tables->expand_ = {tables->dataset_->edge_labels(), edges.symmetrization, edges.add_self_edges,
                     bounds.merged};
  tables->edge_classes_.resize(tables->dataset_->edge_labels());
  std::iota(tables->edge_classes_.begin(), tables->edge_classes_.end(), std::uint16_t{0});
  tables->FindTargets(list);
  const bool added = edges.symmetrization != Symmetrization::kDirected || edges.add_self_edges;
  const auto& computed = parts.Get<TensorsPart>();
  const bool with_places = computed.Reads(kEdgePlace);
  if (with_places && added) {
    return AtReader(computed, kEdgePlace,
                    fmt::format("{}: edges that are added to a batch have no place among those of "
                                "the dataset; write {}",
                                kEdgePlace, kNoAddedEdges));
  }
  tables->MakeTensors(list, bounds, with_places);
  MILLRACE_ASSIGN_OR_RETURN(
      tables->arrays_, GatheredArrays::Make(*tables->dataset_, parts.Get<GraphArraysPart>(), list,
                                            added, tables->tensors_));
  tables->arrays_.SetNodes(tables->numbers_.node);
  tables->max_example_bytes_ = tables->MostBytes(bounds);
  tables->FindLookups();
  return std::shared_ptr<const GraphTables>(tables);
}

void GraphTables::FindTargets(const ExampleList& list) {
  std::map<std::string, TargetColumn> found;
  const auto add = [&](const std::string& name, const GraphArray* array, bool of_root) {
    if (array == nullptr || array->type.shape.size() != 1) return;
    if (!IsInteger(array->type.dtype) && array->type.dtype != DType::kBool) return;
    found.try_emplace(name, TargetColumn{"target." + name, array, of_root});
  };
  // As `targets` finds them: those of the list go before features of the roots.
  for (const auto& [prefix, of_root] :
       {std::pair<std::string, bool>("targets/" + list.name + "/", false), {kNodeFeatures, true}}) {
    if (of_root && !list.roots) continue;
    for (const auto& entry : dataset_->description().arrays) {
      if (!entry.first.starts_with(prefix)) continue;
      const std::string name = entry.first.substr(prefix.size());
      const GraphArray* const of_list = FindTarget(*dataset_, list, name);
      if (!of_root) add(name, of_list, false);
      if (of_root && of_list == nullptr) add(name, dataset_->Find(entry.first), true);
    }
  }
  for (auto& [name, column] : found) targets_.push_back(std::move(column));
}

std::size_t GraphTables::Add(std::string path, TensorKind kind, std::string dimension,
                             std::uint64_t max, std::string splits, Expansion expansion) {
  TensorSpec spec;
  spec.path = std::move(path);
  spec.kind = kind;
  spec.dtype = NarrowestDType(0, max);
  spec.dimension = std::move(dimension);
  spec.splits = std::move(splits);
  if (expansion == Expansion::kNodeOffset || expansion == Expansion::kEdgeSource ||
      expansion == Expansion::kEdgeTarget) {
    spec.node_splits = "node_splits";
  }
  spec.max = max;
  spec.expansion = expansion;
  tensors_.push_back(std::move(spec));
  return tensors_.size() - 1;
}

void GraphTables::FindLookups() {
  for (const auto& entry : dataset_->description().arrays) {
    const GraphArray* const array = dataset_->Find(entry.first);
    TensorType type;
    type.dtype = array->type.dtype;
    bool fits = true;
    for (std::size_t axis = 1; axis < array->type.shape.size(); ++axis) {
      const std::uint64_t extent = array->type.shape[axis];
      fits = fits && extent <= kMaxExtent;
      type.inner.push_back(static_cast<std::uint32_t>(extent));
    }
    if (fits && CheckTensorType(type).ok()) lookup_types_.emplace(entry.first, std::move(type));
  }
}

LookupTables GraphTables::Lookups() const {
  LookupTables lookups;
  for (const auto& [name, type] : lookup_types_) {
    const GraphArray* const array = dataset_->Find(name);
    lookups[name] = {&type, array->rows(), {array->data, array->rows() * type.UnitBytes()}};
  }
  return lookups;
}

std::uint64_t GraphTables::MostBytes(const GraphBounds& bounds) const {
  // Far above any batch that could be sent, and far below where sums overflow.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  const std::uint64_t most_nodes =
      std::min(bounds.example_nodes.value_or(bounds.nodes), dataset_->nodes());
  // Edges that are drawn with replacement may be more than the dataset has.
  const std::uint64_t most_edges =
      bounds.hops ? bounds.edges : std::min(bounds.edges, dataset_->edges());
  std::uint64_t bytes = tensors_.size() * kTensorAlignment;
  for (const TensorSpec& spec : tensors_) {
    const std::uint64_t rows = spec.splits == "node_splits"       ? most_nodes
                               : spec.splits == "edge_splits"     ? most_edges
                               : spec.kind == TensorKind::kSplits ? 2
                                                                  : 1;
    const std::uint64_t row_bytes = spec.row_bytes();
    if (rows > kMost / row_bytes) return kMost;
    bytes += rows * row_bytes;
  }
  return std::min(bytes, kMost);
}

void GraphTables::MakeTensors(const ExampleList& list, const GraphBounds& bounds,
                              bool with_places) {
  const auto ragged = TensorKind::kRaggedValues;
  const std::uint64_t last_node = std::max<std::uint64_t>(dataset_->nodes(), 1) - 1;
  numbers_.node = Add("node", ragged, "nodes", last_node, "node_splits");
  if (node_labels_ != nullptr) {
    numbers_.node_label =
        Add("node_label", ragged, "nodes", dataset_->node_labels() - 1, "node_splits");
  }
  const std::uint64_t last = std::max<std::uint64_t>(bounds.nodes, 1) - 1;
  numbers_.edges.source =
      Add("edge_source", ragged, "edges", last, "edge_splits", Expansion::kEdgeSource);
  numbers_.edges.target =
      Add("edge_target", ragged, "edges", last, "edge_splits", Expansion::kEdgeTarget);
  // Tensors go the way of the edge, whatever the rows are.
  if (dataset_->description().rows == GraphRows::kTarget) {
    std::swap(numbers_.edges.source, numbers_.edges.target);
  }
  // Labels also tell added edges from those of the dataset.
  if (dataset_->Find("edge_label") != nullptr || expand_.edge_labels() > 1) {
    numbers_.edges.label = Add("edge_label", ragged, "edges", dataset_->edge_labels() - 1,
                               "edge_splits", Expansion::kEdgeLabel);
  }
  if (with_places) {
    const std::uint64_t last_edge = std::max<std::uint64_t>(dataset_->edges(), 1) - 1;
    numbers_.edge = Add(std::string(kEdgePlace), ragged, "edges", last_edge, "edge_splits");
  }
  constexpr std::uint64_t kMostRows = std::numeric_limits<std::uint32_t>::max();
  const std::string cut(bounds.merged ? kGraphSplitsDimension : "batch+1");
  Add("node_splits", TensorKind::kSplits, cut, kMostRows, "");
  Add("edge_splits", TensorKind::kSplits, cut, kMostRows, "", Expansion::kEdgeSplits);
  if (bounds.hops) {
    const std::string graphs(kGraphsDimension);
    numbers_.hop_nodes = Add("hop_nodes", TensorKind::kDense, graphs, kMostRows, "");
    tensors_.back().inner = {std::uint64_t{*bounds.hops} + 1};
    numbers_.hop_edges = Add("hop_edges", TensorKind::kDense, graphs, kMostRows, "");
    tensors_.back().inner = {*bounds.hops};
  }
  if (list.roots) {
    // A root is the first node of its own graph.
    const std::uint64_t last_root = bounds.merged ? last : 0;
    numbers_.root = Add("root", TensorKind::kDense, "batch", last_root, "", Expansion::kNodeOffset);
  }
  numbers_.example_id = Add("example_id", TensorKind::kDense, "batch",
                            std::max<std::uint64_t>(list.examples, 1) - 1, "");
}

Status GraphTables::AppendEdges(std::span<const std::uint64_t> places, BatchWriter& writer) const {
  const auto count = static_cast<std::uint32_t>(places.size());
  const auto place_at = [places](std::uint32_t i) { return places[i]; };
  if (numbers_.edge) {
    const std::uint64_t last_edge = std::max<std::uint64_t>(dataset_->edges(), 1) - 1;
    Append(writer, *numbers_.edge, count, last_edge, place_at);
  }
  return arrays_.AppendEdges(count, place_at, writer);
}

void GraphTables::Note(const Status& bad) const {
  MutexLock lock(mutex_);
  if (bad_.ok()) bad_ = bad;
}

Status GraphTables::CheckIntact() const {
  for (const DamagedFile& damage : dataset_->Damages()) {
    return DataLoss(fmt::format(
        "dataset {}: {}: {}; put the file back and restart the workers that had it open",
        dataset_->dir().string(), damage.name, damage.what));
  }
  MutexLock lock(mutex_);
  return bad_;
}

std::vector<SourceTableSpec> GraphTables::TableSpecs() const {
  const GraphDescription& graph = dataset_->description();
  std::vector<SourceTableSpec> specs;
  const auto add = [&](const char* name, const auto& labels, const char* tensor) {
    if (!labels) return;
    SourceTableSpec spec{{name, labels->size(), {{"name", ColumnType::kText}}, {}}, {}};
    // The labels of an unlabelled graph's added edges are none of these.
    if (dataset_->Find(tensor) != nullptr) spec.tensors = {tensor};
    specs.push_back(std::move(spec));
  };
  add("node_labels", graph.node_labels, "node_label");
  add("edge_labels", graph.edge_labels, "edge_label");
  return specs;
}

void GraphTables::WriteTable(std::size_t table, TableWriter& out) const {
  const GraphDescription& graph = dataset_->description();
  const bool nodes = table == 0 && graph.node_labels.has_value();
  out.Texts([&labels = nodes ? *graph.node_labels : *graph.edge_labels](const auto& visit) {
    for (const std::string& label : labels) visit(std::string_view(label));
  });
}

}  // namespace millrace
