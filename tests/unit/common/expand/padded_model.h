// Batches of graphs and deliveries that pad them, for tests.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

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
                                  OperationParams({{"dtype", std::string("float32")}})});
      text.outputs->push_back(name);
      if (padded) text.pads.emplace(name, OperationParams({{"value", std::int64_t{7}}}));
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

}  // namespace millrace::test
