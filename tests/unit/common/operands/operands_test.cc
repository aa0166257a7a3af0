#include "common/operands/operands.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "common/batch/layout/tensor_table.h"

namespace millrace {
namespace {

using Names = std::vector<std::string>;

TensorSpec OperandSpec(std::string path, TensorKind kind, std::string rows, std::string splits,
                       Expansion expansion, std::string node_splits = "") {
  TensorSpec spec;
  spec.path = std::move(path);
  spec.kind = kind;
  spec.dimension = std::move(rows);
  spec.splits = std::move(splits);
  spec.expansion = expansion;
  spec.node_splits = std::move(node_splits);
  spec.max = 255;
  return spec;
}

/// Two graphs in each example, and a number of a node of each.
std::vector<TensorSpec> TwoGraphs() {
  std::vector<TensorSpec> tensors;
  for (const std::string graph : {"a", "b"}) {
    const auto add = [&](const char* name, TensorKind kind, const char* rows, const char* splits,
                         Expansion expansion, const char* node_splits = "") {
      tensors.push_back(OperandSpec(graph + name, kind, rows, *splits == 0 ? "" : graph + splits,
                                    expansion, *node_splits == 0 ? "" : graph + node_splits));
    };
    const auto ragged = TensorKind::kRaggedValues;
    add("/label", ragged, "nodes", "/node_splits", Expansion::kWiden);
    add("/source", ragged, "edges", "/edge_splits", Expansion::kEdgeSource, "/node_splits");
    add("/target", ragged, "edges", "/edge_splits", Expansion::kEdgeTarget, "/node_splits");
    add("/kind", ragged, "edges", "/edge_splits", Expansion::kEdgeLabel);
    add("/edge_splits", TensorKind::kSplits, "batch+1", "", Expansion::kEdgeSplits);
    add("/node_splits", TensorKind::kSplits, "batch+1", "", Expansion::kWiden);
    add("/root", TensorKind::kDense, "batch", "", Expansion::kNodeOffset, "/node_splits");
  }
  return tensors;
}

Names Companions(const std::string& chosen) {
  const std::vector<TensorSpec> tensors = TwoGraphs();
  std::vector<bool> all(tensors.size(), false);
  all[*FindTensor(tensors, chosen)] = true;
  all = WithCompanions(tensors, std::move(all));
  Names names;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (all[i]) names.push_back(tensors[i].path);
  }
  return names;
}

TEST_CASE("a tensor brings what is needed to read it, and nothing of another graph", "[operands]") {
  CHECK(Companions("a/label") == Names{"a/label", "a/node_splits"});
  CHECK(Companions("b/root") == Names{"b/node_splits", "b/root"});
  CHECK(Companions("b/node_splits") == Names{"b/node_splits"});
  const Names edges = {"b/source", "b/target", "b/kind", "b/edge_splits", "b/node_splits"};
  for (const char* const chosen : {"b/source", "b/target", "b/kind", "b/edge_splits"}) {
    INFO(chosen);
    CHECK(Companions(chosen) == edges);
  }
}

TEST_CASE("tensors of graphs have rows of their own, and sequences cut by graphs are not read",
          "[operands]") {
  std::vector<TensorSpec> tensors = TwoGraphs();
  tensors.push_back(OperandSpec("sizes", TensorKind::kDense, "graphs", "", Expansion::kWiden));
  tensors.push_back(
      OperandSpec("words", TensorKind::kRaggedValues, "words", "cut", Expansion::kWiden));
  tensors.push_back(OperandSpec("cut", TensorKind::kSplits, "batch+1", "", Expansion::kWiden));
  const auto operand = [&](std::string_view name) -> SourceTensor {
    for (const Operand& one : OperandsOf(tensors)) {
      if (one.source.name == name) return one.source;
    }
    FAIL("no operand");
    return SourceTensor{};
  };
  CHECK(operand("sizes").type.rows == "graphs");
  CHECK_FALSE(operand("sizes").type.ragged);
  CHECK(operand("words").unreadable.empty());
  CHECK(operand("words").type.ragged);
  // As bytes from another host could say.
  tensors.back().dimension = "graphs+1";
  CHECK(operand("words").unreadable == "words: it is cut by graphs, and not by examples");
}

TEST_CASE("an error of a value names the batch, and any other one stays what it is", "[operands]") {
  BatchInfo info;
  info.epoch = 3;
  info.first_example = 512;
  const Status value = ErrorOfBatch(info, OutOfRange("hot: one_hot: got 9"));
  CHECK(value.code() == StatusCode::kDataLoss);
  CHECK_THAT(value.message(),
             Catch::StartsWith("tensor hot: one_hot: got 9, in the batch of epoch 3 from place 512 "
                               "on: the values do not suit the pipeline"));
  CHECK(ErrorOfBatch(info, InvalidArgument("x: rows")).code() == StatusCode::kDataLoss);
  for (const Status& other : {Internal("x: broken"), ResourceExhausted("x: too large")}) {
    CHECK(ErrorOfBatch(info, other).code() == other.code());
    CHECK(ErrorOfBatch(info, other).message() == "tensor: " + other.message());
  }
}

TEST_CASE("numbers of nodes and completed edges are operands that nothing reads", "[operands]") {
  const std::vector<TensorSpec> tensors = TwoGraphs();
  const std::vector<Operand> operands = OperandsOf(tensors);
  REQUIRE(operands.size() == 10);
  for (const Operand& operand : operands) {
    INFO(operand.source.name);
    CHECK(operand.source.unreadable.empty() == operand.source.name.ends_with("/label"));
    const std::string rows = operand.source.name.ends_with("/root")    ? "batch"
                             : operand.source.name.ends_with("/label") ? "nodes"
                                                                       : "edges";
    CHECK(operand.source.type.rows == rows);
    CHECK_FALSE(operand.source.type.ragged);
  }
}

}  // namespace
}  // namespace millrace
