// Batches of graphs and deliveries that pad them, for tests.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <rapidcheck.h>

#include "common/expand/delivery.h"
#include "common/expand/expand.h"
#include "common/operands/operands.h"
#include "common/operations/consumer_program.h"
#include "tests/unit/common/batch/model_batch.h"

namespace millrace::test {

/// A random batch with one graph an example.
inline ModelBatch RandomGraphs(std::uint64_t seed, int size) {
  ModelBatch batch = RandomBatch(seed, size);
  while (batch.plan.branches.size() != 1) batch = RandomBatch(++seed, size);
  return batch;
}

/// The batch with a tensor of values for each edge. Without one, if edges are added to those of the
/// batch: then no tensor can have rows for all of them.
inline ModelBatch WithEdgeValues(ModelBatch batch) {
  const ExpandSpec& expand = batch.plan.expand;
  if (expand.symmetrization != Symmetrization::kDirected || expand.add_self_edges) return batch;
  TensorSpec& spec = batch.plan.declared.emplace_back();
  spec.path = "along";
  spec.kind = TensorKind::kRaggedValues;
  spec.dimension = "edges";
  spec.splits = "edge_splits";
  spec.dtype = DType::kInt16;
  spec.min = DTypeMin(spec.dtype);
  spec.max = DTypeMax(spec.dtype);
  spec.inner = {3};
  spec.expansion = Expansion::kKeep;
  for (ModelExample& example : batch.examples) {
    std::string& rows = example.declared.emplace_back(example.graphs[0].edges.size() * 6, '\0');
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<char>(37 * i + rows.size());
  }
  return batch;
}

/// All tensors of a plan, and computed ones of every form that operations read: of graphs, nodes
/// and sequences, ragged and padded with 7.
inline ConsumerProgram ProgramOfGraphs(const ModelPlan& plan, bool computes) {
  const std::vector<TensorSpec> tensors = Tensors(plan);
  TensorGraphText text;
  text.outputs.emplace();
  for (const Operand& operand : OperandsOf(tensors)) {
    text.outputs->push_back(operand.source.name);
    if (!computes || !operand.source.unreadable.empty()) continue;
    for (const char* const form : {"", "padded_"}) {
      const bool padded = *form != 0;
      if (padded && !operand.source.type.ragged) continue;
      const std::string name = fmt::format("{}computed_{}", form, operand.tensor);
      text.definitions.push_back({name,
                                  "cast",
                                  {operand.source.name},
                                  Params({{"dtype", std::string("float32")}})});
      text.outputs->push_back(name);
      if (padded) text.pads.emplace(name, Params({{"value", std::int64_t{7}}}));
    }
  }
  return text;
}

/// The same with padding, if there is any.
inline Delivery DeliveryOfGraphs(const ModelPlan& plan, bool computes, DType index_dtype,
                                 std::optional<GraphPad> pad) {
  ConsumerProgram program = ProgramOfGraphs(plan, computes);
  program.graph_pad = pad;
  return Delivery::Make(Tensors(plan), std::move(program), index_dtype).value();
}

/// The nodes, complete edges and graphs of some rows.
inline GraphCounts CountsOf(const ModelBatch& batch, RowRange rows) {
  GraphCounts counts;
  counts.graphs = rows.count;
  for (std::size_t row = rows.first; row < rows.first + rows.count; ++row) {
    const ModelGraph& graph = batch.examples[row].graphs[0];
    counts.nodes += graph.node_labels.size();
    counts.edges += CompleteByThePage(graph, batch.plan.expand).size();
  }
  return counts;
}

/// The most nodes, edges and graphs that a micro-batch has, if there are `micro` of them.
inline GraphCounts MostOfMicroBatches(const ModelBatch& batch, std::size_t micro) {
  GraphCounts most;
  for (std::size_t index = 0; index < micro; ++index) {
    const GraphCounts counts =
        CountsOf(batch, RowsOfMicroBatch(batch.examples.size(), index, micro));
    most.nodes = std::max(most.nodes, counts.nodes);
    most.edges = std::max(most.edges, counts.edges);
    most.graphs = std::max(most.graphs, counts.graphs);
  }
  return most;
}

/// Random numbers for pad.graph that have room for every micro-batch, with a few exceptions.
inline GraphPad RoomForMicroBatches(const ModelBatch& batch, std::size_t micro) {
  const GraphCounts most = MostOfMicroBatches(batch, micro);
  GraphPad pad{static_cast<std::uint32_t>(most.nodes) + *rc::gen::inRange(1u, 99u),
               static_cast<std::uint32_t>(most.edges) + *rc::gen::inRange(0u, 99u),
               static_cast<std::uint32_t>(most.graphs) + *rc::gen::inRange(1u, 9u)};
  if (*rc::gen::inRange(0, 4) == 0) pad.nodes += 3000;  // several tiles
  if (*rc::gen::inRange(0, 8) == 0)
    pad.graphs = std::max(static_cast<std::uint32_t>(most.graphs), 1u);
  return pad;
}

}  // namespace millrace::test
