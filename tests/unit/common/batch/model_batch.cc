#include "tests/unit/common/batch/model_batch.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "common/base/hash.h"
#include "common/batch/layout/integer_visit.h"

namespace millrace::test {
namespace {

/// The values of graph_size in merged batches: nodes and edges of the first branch.
constexpr std::uint64_t kMaxGraphSize = 1 << 24;

TensorSpec Spec(std::string path, TensorKind kind, std::string dimension, std::int64_t min,
                std::uint64_t max) {
  TensorSpec spec;
  spec.path = std::move(path);
  spec.kind = kind;
  spec.dimension = std::move(dimension);
  spec.min = min;
  spec.max = max;
  spec.dtype = NarrowestDType(min, max);
  return spec;
}

TensorSpec Splits(std::string path, std::uint64_t max_rows,
                  Expansion expansion = Expansion::kWiden) {
  TensorSpec spec = Spec(std::move(path), TensorKind::kSplits, "batch_plus_1", 0, max_rows);
  spec.expansion = expansion;
  return spec;
}

/// Splits of what graphs have.
TensorSpec GraphSplits(const ModelPlan& plan, std::string path,
                       Expansion expansion = Expansion::kWiden) {
  TensorSpec spec = Splits(std::move(path), plan.max_rows, expansion);
  if (plan.expand.merged) spec.dimension = "graphs+1";
  return spec;
}

TensorSpec CutBy(TensorSpec spec, std::string splits) {
  spec.splits = std::move(splits);
  return spec;
}

TensorSpec Nodes(TensorSpec spec, std::string node_splits, Expansion expansion) {
  spec.node_splits = std::move(node_splits);
  spec.expansion = expansion;
  return spec;
}

std::size_t Number(const std::vector<TensorSpec>& tensors, std::string_view path) {
  return FindTensor(tensors, path).value();
}

void FillGraph(const std::vector<TensorSpec>& tensors, const std::string& branch,
               const ModelGraph& graph, BatchWriter& writer) {
  writer.Append(Number(tensors, branch + "node_label"), graph.node_labels);
  for (const ModelEdge& edge : graph.edges) {
    writer.AppendOne(Number(tensors, branch + "edge_source"), edge.source);
    writer.AppendOne(Number(tensors, branch + "edge_target"), edge.target);
    const auto label = FindTensor(tensors, branch + "edge_label");
    if (label) writer.AppendOne(*label, edge.label);
  }
}

/// Writes kept rows in place or copies them, and other values one by one.
void FillDeclared(const std::vector<TensorSpec>& tensors, const TensorSpec& spec,
                  const std::string& rows, BatchWriter& writer) {
  const std::size_t tensor = Number(tensors, spec.path);
  const auto bytes = std::as_bytes(std::span(rows.data(), rows.size()));
  const std::size_t size = DTypeSize(spec.dtype);
  if (spec.expansion != Expansion::kKeep) {
    for (std::size_t i = 0; i < rows.size(); i += size) {
      writer.AppendOne(tensor, internal::LoadValue(bytes.data(), spec.dtype, i / size));
    }
  } else if (rows.size() % 2 == 0) {
    writer.AppendBytes(tensor, bytes);
  } else {
    const std::span<std::byte> room = writer.AppendRows(tensor, rows.size() / spec.row_bytes());
    if (!rows.empty()) std::memcpy(room.data(), bytes.data(), room.size());
  }
}

/// Random choices from one generator. The distributions of std differ between libraries; these do
/// not.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  /// A number in [low, high].
  std::uint64_t Roll(std::uint64_t low, std::uint64_t high) {
    return high - low == ~std::uint64_t{0} ? random_() : low + random_() % (high - low + 1);
  }
  template <class T>
  T OneOf(std::initializer_list<T> list) {
    return list.begin()[Roll(0, list.size() - 1)];
  }

 private:
  std::mt19937_64 random_;
};

ModelGraph RandomGraph(Dice& dice, const ModelPlan& plan, std::uint64_t size) {
  ModelGraph graph;
  const std::uint64_t nodes = dice.Roll(1, std::min(plan.max_nodes, size + 1));
  for (std::uint64_t i = 0; i < nodes; ++i) {
    graph.node_labels.push_back(static_cast<std::uint32_t>(dice.Roll(0, plan.max_label)));
  }
  const auto any_node = [&] { return static_cast<std::uint32_t>(dice.Roll(0, nodes - 1)); };
  for (std::uint64_t i = dice.Roll(0, 2 * size); i > 0; --i) {
    const auto label = static_cast<std::uint32_t>(dice.Roll(0, plan.expand.base_edge_labels - 1));
    graph.edges.push_back({any_node(), any_node(), label});
  }
  std::stable_sort(graph.edges.begin(), graph.edges.end(),
                   [](const ModelEdge& a, const ModelEdge& b) { return a.label < b.label; });
  return graph;
}

/// Tensors of random types, extents and dimensions. Integers may be widened, others are kept.
std::vector<TensorSpec> RandomDeclared(Dice& dice, const ModelPlan& plan) {
  std::vector<TensorSpec> declared;
  for (std::uint64_t i = dice.Roll(0, 4); i > 0; --i) {
    TensorSpec spec;
    spec.path = "declared/" + std::to_string(i);
    spec.dimension = "batch";
    spec.dtype = static_cast<DType>(dice.Roll(0, kDTypes - 1));
    for (std::uint64_t k = dice.Roll(0, 2); k > 0; --k) spec.inner.push_back(dice.Roll(1, 5));
    // Widening to int32 is an error for values that do not fit.
    const bool widens = IsInteger(spec.dtype) && DTypeSize(spec.dtype) < 4 && dice.Roll(0, 2) == 0;
    spec.expansion = widens ? Expansion::kWiden : Expansion::kKeep;
    if (IsInteger(spec.dtype)) {
      spec.min = DTypeMin(spec.dtype);
      spec.max = DTypeMax(spec.dtype);
    }
    const std::uint64_t rows = dice.Roll(0, 2);
    if (rows == 1) {
      spec.dimension = plan.branches[0] + "nodes";
      spec.splits = plan.branches[0] + "node_splits";
    } else if (rows == 2) {
      spec.dimension = spec.path;
      spec.splits = spec.path + ".splits";
    }
    if (rows > 0) spec.kind = TensorKind::kRaggedValues;
    declared.push_back(spec);
  }
  return declared;
}

/// The rows of one example of a declared tensor.
std::string RandomRows(Dice& dice, const TensorSpec& spec, std::uint64_t nodes,
                       std::uint64_t size) {
  std::uint64_t rows = 1;
  if (spec.splits == spec.path + ".splits") {
    rows = dice.Roll(0, size);
  } else if (!spec.splits.empty()) {
    rows = nodes;
  }
  std::string bytes;
  for (std::uint64_t i = rows * spec.row_bytes(); i > 0; --i) {
    bytes.push_back(static_cast<char>(dice.Roll(0, spec.dtype == DType::kBool ? 1 : 255)));
  }
  return bytes;
}

ModelExample RandomExample(Dice& dice, const ModelPlan& plan, std::uint64_t size) {
  ModelExample example;
  example.id = dice.Roll(0, plan.max_id);
  for (std::size_t b = 0; b < plan.branches.size(); ++b) {
    example.graphs.push_back(RandomGraph(dice, plan, size));
  }
  const std::uint64_t last_node = example.graphs[0].node_labels.size() - 1;
  example.root = static_cast<std::uint32_t>(dice.Roll(0, last_node));
  for (std::uint64_t i = dice.Roll(0, size); i > 0; --i) {
    example.context.push_back(static_cast<std::uint32_t>(dice.Roll(0, last_node)));
  }
  for (std::uint64_t i = dice.Roll(0, 3); i > 0; --i) {
    example.args.push_back(
        static_cast<std::int32_t>(dice.Roll(0, static_cast<std::uint64_t>(plan.max_arg) + 1)) - 1);
  }
  for (std::uint64_t i = dice.Roll(0, size); i > 0; --i) {
    example.text.push_back(static_cast<char>(dice.Roll(0, 255)));
  }
  example.step = static_cast<std::int64_t>(dice.Roll(0, plan.max_step));
  for (const TensorSpec& spec : plan.declared) {
    example.declared.push_back(RandomRows(dice, spec, last_node + 1, size));
  }
  return example;
}

}  // namespace

std::vector<TensorSpec> Tensors(const ModelPlan& plan) {
  std::vector<TensorSpec> t;
  for (const std::string& b : plan.branches) {
    const std::string node_splits = b + "node_splits";
    const std::string edge_splits = b + "edge_splits";
    const TensorSpec end =
        CutBy(Spec("", TensorKind::kDense, b + "edges", 0, plan.max_nodes - 1), edge_splits);
    t.push_back(CutBy(Spec(b + "node_label", TensorKind::kDense, b + "nodes", 0, plan.max_label),
                      node_splits));
    t.push_back(Nodes(end, node_splits, Expansion::kEdgeSource));
    t.back().path = b + "edge_source";
    t.push_back(Nodes(end, node_splits, Expansion::kEdgeTarget));
    t.back().path = b + "edge_target";
    if (plan.edge_labels) {
      t.push_back(CutBy(Spec(b + "edge_label", TensorKind::kDense, b + "edges", 0,
                             plan.expand.base_edge_labels - 1),
                        edge_splits));
      t.back().expansion = Expansion::kEdgeLabel;
    }
    t.push_back(GraphSplits(plan, node_splits));
    t.push_back(GraphSplits(plan, edge_splits, Expansion::kEdgeSplits));
  }
  const std::string nodes = plan.branches[0] + "node_splits";
  t.push_back(Nodes(Spec("root", TensorKind::kDense, "batch", 0, plan.max_nodes - 1), nodes,
                    Expansion::kNodeOffset));
  t.push_back(Nodes(
      CutBy(Spec("local_context", TensorKind::kRaggedValues, "contexts", 0, plan.max_nodes - 1),
            "local_context_splits"),
      nodes, Expansion::kNodeOffset));
  t.push_back(Splits("local_context_splits", plan.max_rows));
  t.push_back(CutBy(Spec("local_args", TensorKind::kRaggedValues, "args", -1,
                         static_cast<std::uint64_t>(plan.max_arg)),
                    "args_splits"));
  t.push_back(Splits("args_splits", plan.max_rows));
  t.push_back(CutBy(Spec("state_text", TensorKind::kStringBytes, "text", 0, 255), "text_splits"));
  t.back().expansion = Expansion::kKeep;
  t.push_back(Splits("text_splits", plan.max_rows));
  t.push_back(Spec("proof_step", TensorKind::kDense, "batch", 0, plan.max_step));
  t.push_back(Spec("example_id", TensorKind::kDense, "batch", 0, plan.max_id));
  if (plan.expand.merged) {
    t.push_back(Spec("graph_size", TensorKind::kDense, "graphs", 0, kMaxGraphSize));
    t.back().inner = {2};
  }
  for (const TensorSpec& spec : plan.declared) {
    t.push_back(spec);
    if (spec.splits == spec.path + ".splits") t.push_back(Splits(spec.splits, plan.max_rows));
  }
  return t;
}

void Fill(const ModelBatch& batch, BatchWriter& writer) {
  const std::vector<TensorSpec> tensors = Tensors(batch.plan);
  writer.Begin(batch.fingerprint, batch.epoch, batch.first_example,
               static_cast<std::uint32_t>(batch.examples.size() + batch.dropped.size()));
  for (std::size_t b = 0; b < batch.merged.size(); ++b) {
    FillGraph(tensors, batch.plan.branches[b], batch.merged[b], writer);
  }
  for (const ModelExample& example : batch.examples) {
    for (std::size_t b = 0; b < example.graphs.size(); ++b) {
      FillGraph(tensors, batch.plan.branches[b], example.graphs[b], writer);
    }
    writer.AppendOne(Number(tensors, "root"), example.root);
    writer.Append(Number(tensors, "local_context"), example.context);
    for (const std::int32_t arg : example.args) {
      writer.AppendOne(Number(tensors, "local_args"), arg);
    }
    writer.AppendBytes(Number(tensors, "state_text"),
                       std::as_bytes(std::span(example.text.data(), example.text.size())));
    writer.AppendOne(Number(tensors, "proof_step"), example.step);
    writer.AppendOne(Number(tensors, "example_id"), static_cast<std::int64_t>(example.id));
    for (std::size_t i = 0; i < batch.plan.declared.size(); ++i) {
      FillDeclared(tensors, batch.plan.declared[i], example.declared[i], writer);
    }
    writer.EndExample(ExampleId(example.id));
  }
  for (const DroppedExample& dropped : batch.dropped) writer.AddDropped(dropped.id, dropped.reason);
  for (const LostPieces& lost : batch.lost_pieces) writer.AddLostPieces(lost.reason, lost.pieces);
  if (!batch.plan.expand.merged) return;
  const ModelGraph& first = batch.merged[0];
  writer.Append(Number(tensors, "graph_size"),
                std::vector{static_cast<std::uint32_t>(first.node_labels.size()),
                            static_cast<std::uint32_t>(first.edges.size())});
  writer.EndGraph();
}

std::vector<ModelGraph> ModelBatch::GraphsOf(std::size_t branch) const {
  if (plan.expand.merged) return {merged[branch]};
  std::vector<ModelGraph> graphs;
  for (const ModelExample& example : examples) graphs.push_back(example.graphs[branch]);
  return graphs;
}

ModelBatch Merged(ModelBatch batch) {
  batch.plan.expand.merged = true;
  batch.merged.resize(batch.plan.branches.size());
  for (ModelExample& example : batch.examples) {
    const auto first = static_cast<std::uint32_t>(batch.merged[0].node_labels.size());
    example.root += first;
    for (std::uint32_t& node : example.context) node += first;
    for (std::size_t b = 0; b < example.graphs.size(); ++b) {
      ModelGraph& all = batch.merged[b];
      const auto begin = static_cast<std::uint32_t>(all.node_labels.size());
      const ModelGraph& own = example.graphs[b];
      all.node_labels.insert(all.node_labels.end(), own.node_labels.begin(), own.node_labels.end());
      for (ModelEdge edge : own.edges) {
        edge.source += begin;
        edge.target += begin;
        all.edges.push_back(edge);
      }
      batch.plan.max_nodes = std::max<std::uint64_t>(batch.plan.max_nodes, all.node_labels.size());
    }
    example.graphs.clear();
  }
  for (ModelGraph& graph : batch.merged) {
    std::stable_sort(graph.edges.begin(), graph.edges.end(),
                     [](const ModelEdge& a, const ModelEdge& b) { return a.label < b.label; });
  }
  return batch;
}

std::shared_ptr<const PackedBatch> Pack(const ModelBatch& batch, BufferPool& pool) {
  auto writer = BatchWriter::Create(Tensors(batch.plan), batch.plan.expand, pool);
  if (!writer.ok()) throw std::runtime_error(writer.status().ToString());
  Fill(batch, *writer);
  auto packed = writer->Seal();
  if (!packed.ok()) throw std::runtime_error(packed.status().ToString());
  return *packed;
}

ModelBatch RandomBatch(std::uint64_t seed, int size) {
  Dice dice(seed);
  ModelBatch batch;
  ModelPlan& plan = batch.plan;
  if (dice.Roll(0, 2) == 0) plan.branches = {"a/", "b/"};
  plan.expand.base_edge_labels = dice.OneOf<std::uint32_t>({1, 2, 30, 300});
  plan.expand.symmetrization = static_cast<Symmetrization>(dice.Roll(0, 2));
  plan.expand.add_self_edges = dice.Roll(0, 1) == 1;
  plan.max_nodes = dice.OneOf<std::uint64_t>({2, 256, 257, 1024, 65'536, 65'537, 1u << 20});
  plan.max_label = dice.OneOf<std::uint64_t>({25, 255, 40'000, 70'000});
  plan.max_rows = dice.OneOf<std::uint64_t>({60'000, 100'000, std::uint64_t{1} << 33});
  plan.max_arg = dice.OneOf<std::int32_t>({0, 127, 128, 32'767, 32'768, 100'000});
  plan.max_id = dice.OneOf<std::uint64_t>({255, 65'535, (std::uint64_t{1} << 31) - 1});
  plan.max_step = dice.OneOf<std::uint64_t>({1, 300, 70'000});
  plan.declared = RandomDeclared(dice, plan);
  batch.fingerprint = {{dice.Roll(0, ~std::uint64_t{0}), dice.Roll(0, ~std::uint64_t{0})},
                       {dice.Roll(0, ~std::uint64_t{0}), dice.Roll(0, ~std::uint64_t{0})}};
  batch.epoch = dice.Roll(0, ~std::uint64_t{0});
  batch.first_example = dice.Roll(0, ~std::uint64_t{0});
  const auto bound = static_cast<std::uint64_t>(size);
  for (std::uint64_t i = dice.Roll(0, bound); i > 0; --i) {
    batch.examples.push_back(RandomExample(dice, plan, bound));
  }
  for (std::uint64_t i = dice.Roll(0, 2); i > 0; --i) {
    batch.dropped.push_back(
        {ExampleId(dice.Roll(0, plan.max_id)), static_cast<DropReason>(dice.Roll(1, 4))});
  }
  // A batch without places lacks no pieces.
  for (std::uint64_t i = batch.dropped.empty() ? 0 : dice.Roll(0, 2); i > 0; --i) {
    batch.lost_pieces.insert(
        batch.lost_pieces.begin(),
        {static_cast<DropReason>(20 * i + dice.Roll(1, 10)), dice.Roll(1, kMaxRowPieces / 2)});
  }
  return seed % 4 == 0 ? WithoutEdgeLabels(std::move(batch)) : batch;
}

ModelBatch WithoutEdgeLabels(ModelBatch batch) {
  ExpandSpec& expand = batch.plan.expand;
  expand.base_edge_labels = 1;
  expand.add_self_edges = false;
  if (expand.symmetrization == Symmetrization::kBidirectional) {
    expand.symmetrization = Symmetrization::kUndirected;
  }
  batch.plan.edge_labels = false;
  for (ModelExample& example : batch.examples) {
    for (ModelGraph& graph : example.graphs) {
      for (ModelEdge& edge : graph.edges) edge.label = 0;
    }
  }
  return batch;
}

std::vector<ModelEdge> CompleteByThePage(const ModelGraph& graph, const ExpandSpec& expand) {
  const std::uint32_t base = expand.base_edge_labels;
  std::vector<std::vector<ModelEdge>> groups(base);
  for (const ModelEdge& edge : graph.edges) groups[edge.label].push_back(edge);
  const auto reversed = [](std::vector<ModelEdge> edges) {
    for (ModelEdge& edge : edges) std::swap(edge.source, edge.target);
    return edges;
  };
  for (std::uint32_t g = 0; g < base; ++g) {
    std::vector<ModelEdge> back = reversed(groups[g]);
    if (expand.symmetrization == Symmetrization::kUndirected) {
      groups[g].insert(groups[g].end(), back.begin(), back.end());
    } else if (expand.symmetrization == Symmetrization::kBidirectional) {
      for (ModelEdge& edge : back) edge.label += base;
      groups.push_back(back);
    }
  }
  if (expand.add_self_edges) {
    std::vector<ModelEdge> self;
    const auto label = static_cast<std::uint32_t>(groups.size());
    for (std::uint32_t i = 0; i < graph.node_labels.size(); ++i) self.push_back({i, i, label});
    groups.push_back(self);
  }
  std::vector<ModelEdge> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

std::vector<std::int64_t> Values(const PackedBatch& batch, std::string_view path) {
  const std::size_t tensor = batch.Find(path).value();
  std::vector<std::int64_t> values;
  for (std::uint64_t i = 0; i < batch.tensors()[tensor].rows; ++i) {
    values.push_back(batch.ValueAt(tensor, i));
  }
  return values;
}

std::vector<std::int64_t> Values(const DeliveredBatch& batch, std::string_view path) {
  const DeliveredTensor* const tensor = batch.Find(path);
  if (tensor == nullptr) throw std::runtime_error("no tensor " + std::string(path));
  std::vector<std::int64_t> values;
  for (std::uint64_t i = 0; i < tensor->shape[0]; ++i) values.push_back(tensor->ValueAt(i));
  return values;
}

std::shared_ptr<Buffer> CopyOf(std::span<const std::byte> bytes, BufferPool& pool) {
  auto buffer = pool.Acquire(bytes.size());
  if (!buffer.ok()) throw std::runtime_error(buffer.status().ToString());
  std::memcpy((*buffer)->data(), bytes.data(), bytes.size());
  return *buffer;
}

void ResealHeader(std::span<std::byte> header) {
  const std::uint64_t checksum = Xxh3_64(header.first(header.size() - sizeof(checksum)));
  std::memcpy(header.data() + header.size() - sizeof(checksum), &checksum, sizeof(checksum));
}

}  // namespace millrace::test
