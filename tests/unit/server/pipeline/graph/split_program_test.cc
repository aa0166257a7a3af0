#include "server/pipeline/graph/split_program.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/common/operations/run_graph.h"

namespace millrace {
namespace {

using test::Ints;
using test::NamedTensors;
using test::Tensor;

/// Runs one of the programs; gives its outputs in their order.
std::vector<Tensor> Run(const Program& program, const std::vector<Tensor>& inputs,
                        std::size_t outputs) {
  std::vector<TensorView> views;
  for (const Tensor& input : inputs) views.push_back(input.View());
  std::vector<Tensor> made(outputs);
  ProgramRun run;
  run.room = [&](std::size_t output, const TensorView& view) -> Result<std::span<std::byte>> {
    Tensor& tensor = made[output];
    tensor.type = *view.type;
    tensor.rows = view.rows;
    tensor.splits.assign(view.splits.begin(), view.splits.end());
    tensor.Resize(view.units() * view.type->UnitBytes());
    return std::span<std::byte>(tensor.data(), tensor.bytes);
  };
  ProgramMemory memory;
  REQUIRE(program.Run(views, run, memory) == OkStatus());
  return made;
}

/// The bytes and splits of every output, by name.
std::map<std::string, std::pair<std::vector<std::uint8_t>, Ints>> Values(
    const NamedTensors& tensors) {
  std::map<std::string, std::pair<std::vector<std::uint8_t>, Ints>> values;
  for (const auto& [name, tensor] : tensors) {
    values[name] = {tensor.Values<std::uint8_t>(), tensor.splits};
  }
  return values;
}

/// What a consumer has at the end.
NamedTensors RunSplit(TensorGraphText text, const NamedTensors& sources,
                      const LookupTables& tables) {
  for (const auto& [name, tensor] : sources) text.sources.push_back({name, tensor.type});
  const TensorGraph graph = TensorGraph::Bind(text, OperationTable::Default(), tables).value();
  const SplitProgram split = SplitProgram::Compile(graph).value();
  std::vector<Tensor> inputs;
  for (const std::size_t source : split.sources) {
    inputs.push_back(sources.at(graph.nodes()[source].name));
  }
  const std::vector<Tensor> travel = Run(split.worker, inputs, split.waist.tensors.size());
  const std::vector<Tensor> outputs = Run(split.consumer, travel, graph.outputs().size());
  NamedTensors made;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    made.emplace(graph.outputs()[i].name, outputs[i]);
  }
  return made;
}

/// A use of every operation.
std::vector<TensorDefinition> EveryOperation() {
  return {
      {"bits", "bits", {"data"}, OperationParams({{"dtype", std::string("float32")}})},
      {"cast", "cast", {"x"}, OperationParams({{"dtype", std::string("float16")}, {"scale", 0.3}})},
      {"concat", "concat", {"data", "data"}},
      {"expr", "expr", {"x"}, OperationParams({{"expr", std::string("exp(x) * 0.1 + x % 3")}})},
      {"length", "length", {"data"}},
      {"lookup", "lookup", {"i"}, OperationParams({{"table", std::string("w")}})},
      {"one_hot", "one_hot", {"i"}, OperationParams({{"depth", std::int64_t{3}}})},
      {"reshape", "reshape", {"x"}, OperationParams({{"shape", Ints{3, 2}}})},
      {"slice", "slice", {"data"}, OperationParams({{"range", Ints{0, 2}}})},
      {"stack", "stack", {"x", "x"}, OperationParams({{"offset", std::int64_t{1}}})},
      {"take", "take", {"x"}, OperationParams({{"index", Ints{1, 0}}})},
      {"transpose", "transpose", {"x"}, OperationParams({{"axes", Ints{0, 2, 1}}})},
      {"view", "view", {"x"}, OperationParams({{"dtype", std::string("uint8")}})},
  };
}

TEST_CASE("every operation gives the same values at worker and consumer", "[split]") {
  const Tensor table = test::Dense<float>("float32[2]", 3, {0, 1, 10, 11, 20, 21});
  const LookupTables tables = {{"w", table.View()}};
  const NamedTensors sources = {
      {"x", test::Dense<std::int32_t>("int32[2, 3]", 2, {1, -2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})},
      {"i", test::Dense<std::uint8_t>("uint8", 2, {2, 0})},
      {"data", test::Ragged<std::uint8_t>("bytes[*]", {{1, 2, 3}, {250}})}};
  std::vector<TensorDefinition> uses = EveryOperation();
  std::vector<std::string> names;
  for (const TensorDefinition& use : uses) names.push_back(use.operation);
  for (const OperationType& operation : OperationTable::Default().operations()) {
    INFO(operation.name);
    CHECK(std::find(names.begin(), names.end(), operation.name) != names.end());
  }
  TensorGraphText text;
  text.definitions = uses;
  text.outputs = names;
  text.pads.emplace("concat", OperationParams({{"multiple", std::int64_t{4}}}));
  const auto expected = Values(test::RunGraph(text, sources, tables).value());
  CHECK(expected.size() == uses.size() + 1);
  for (const RunPlace place : {RunPlace::kAny, RunPlace::kWorker, RunPlace::kConsumer}) {
    text.definitions = uses;
    for (TensorDefinition& use : text.definitions) {
      const bool can = !OperationTable::Default().Find(use.operation)->worker_only;
      if (can || place != RunPlace::kConsumer) use.at = place;
    }
    CHECK(Values(RunSplit(text, sources, tables)) == expected);
  }
}

}  // namespace
}  // namespace millrace
