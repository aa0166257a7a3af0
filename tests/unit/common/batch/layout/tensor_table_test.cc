#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "common/batch/layout/tensor_table.h"
#include "tests/unit/common/batch/model_batch.h"

namespace millrace {
namespace {

test::ModelPlan Plan() {
  test::ModelPlan plan;
  plan.expand = {30, Symmetrization::kBidirectional, true};
  return plan;
}

/// The message of the first broken rule after `change` was made to the tensor named `path`.
std::string Broken(const std::string& path, const std::function<void(TensorSpec&)>& change) {
  std::vector<TensorSpec> tensors = test::Tensors(Plan());
  change(tensors[FindTensor(tensors, path).value()]);
  const auto groups = CheckTensors(tensors, Plan().expand);
  if (groups.ok()) return "";
  CHECK(groups.status().code() == StatusCode::kInvalidArgument);
  return groups.status().message();
}

TEST_CASE("edges that belong together are found by their splits", "[tensor_table]") {
  test::ModelPlan plan = Plan();
  plan.branches = {"a/", "b/"};
  const std::vector<TensorSpec> tensors = test::Tensors(plan);
  const auto groups = CheckTensors(tensors, plan.expand);
  REQUIRE(groups.ok());
  REQUIRE(groups->size() == 2);
  CHECK(tensors[(*groups)[0].source].path == "a/edge_source");
  CHECK(tensors[(*groups)[1].source].path == "b/edge_source");
  CHECK(tensors[(*groups)[1].target].path == "b/edge_target");
  CHECK(tensors[(*groups)[1].label.value()].path == "b/edge_label");
  CHECK(tensors[(*groups)[1].splits].path == "b/edge_splits");
  CHECK(tensors[(*groups)[1].node_splits].path == "b/node_splits");
}

TEST_CASE("edges of one label need no tensor of labels, also if they are delivered reversed",
          "[tensor_table]") {
  test::ModelPlan plan = Plan();
  plan.edge_labels = false;
  const std::vector<TensorSpec> tensors = test::Tensors(plan);
  CHECK_FALSE(FindTensor(tensors, "edge_label").has_value());
  for (const auto symmetrization : {Symmetrization::kDirected, Symmetrization::kUndirected}) {
    const auto groups = CheckTensors(tensors, {1, symmetrization, false});
    INFO(groups.status().message());
    REQUIRE(groups.ok());
    CHECK_FALSE(groups->front().label.has_value());
  }
  // Labels would tell these apart.
  for (const ExpandSpec& expand : {ExpandSpec{2, Symmetrization::kDirected, false},
                                   {1, Symmetrization::kBidirectional, false},
                                   {1, Symmetrization::kDirected, true}}) {
    CHECK(CheckTensors(tensors, expand).status().message() ==
          "tensor edge_splits: cuts no tensor that expands as edge_label, but delivered edges have "
          "2 labels");
  }
}

TEST_CASE("a list that breaks a rule is refused by the rule's name", "[tensor_table]") {
  CHECK(Broken("root", [](TensorSpec&) {}).empty());
  CHECK_THAT(Broken("root", [](TensorSpec& t) { t.path = "proof_step"; }),
             Catch::Contains("tensor proof_step: is there twice"));
  CHECK_THAT(Broken("root", [](TensorSpec& t) { t.path = "a b"; }), Catch::Contains("path"));
  CHECK_THAT(Broken("root", [](TensorSpec& t) { t.dimension.clear(); }),
             Catch::Contains("its dimension is not 1 to 255 printable"));
  CHECK_THAT(Broken("root", [](TensorSpec& t) { t.max = 1 << 20; }),
             Catch::Contains("bounds 0 to 1048576 are not a range of uint16"));
  CHECK_THAT(Broken("root", [](TensorSpec& t) { t.node_splits.clear(); }),
             Catch::Contains("names no node_splits"));
  CHECK_THAT(Broken("proof_step", [](TensorSpec& t) { t.node_splits = "node_splits"; }),
             Catch::Contains("numbers no nodes"));
  CHECK_THAT(Broken("local_args", [](TensorSpec& t) { t.splits = "proof_step"; }),
             Catch::Contains("splits proof_step is no tensor of kind splits"));
  CHECK_THAT(Broken("local_args", [](TensorSpec& t) { t.splits.clear(); }),
             Catch::Contains("names no splits"));
  CHECK_THAT(Broken("args_splits", [](TensorSpec& t) { t.dtype = DType::kInt32; }),
             Catch::Contains("unsigned"));
  CHECK_THAT(Broken("state_text", [](TensorSpec& t) { t.dtype = DType::kUint16; }),
             Catch::Contains("string bytes are uint8"));
  CHECK_THAT(Broken("edge_label", [](TensorSpec& t) { t.expansion = Expansion::kWiden; }),
             Catch::Contains("cuts no tensor that expands as edge_label"));
  CHECK_THAT(Broken("edge_label", [](TensorSpec& t) { t.splits = "args_splits"; }),
             Catch::Contains("do not expand as edge_splits"));
  CHECK_THAT(Broken("edge_target", [](TensorSpec& t) { t.dtype = DType::kUint32; }),
             Catch::Contains("edges' sources are uint16"));
  CHECK_THAT(Broken("edge_target", [](TensorSpec& t) { t.node_splits = "args_splits"; }),
             Catch::Contains("numbers nodes by args_splits"));
  CHECK_THAT(Broken("local_args", [](TensorSpec& t) { t.splits = "edge_splits"; }),
             Catch::Contains("cuts no tensor") || Catch::Contains("has no values for the edges"));
  CHECK_THAT(Broken("state_text", [](TensorSpec& t) { t.splits = "args_splits"; }),
             Catch::Contains("tensor text_splits: cuts no tensor"));
}

TEST_CASE("rows have at most 7 extents and 2^30 values", "[tensor_table]") {
  const auto broken = [](const std::vector<std::uint64_t>& inner) {
    return Broken("proof_step", [&](TensorSpec& t) { t.inner = inner; });
  };
  CHECK(broken({}).empty());
  CHECK(broken({1, 1, 1, 1, 1, 1, 1}).empty());
  CHECK(broken({1 << 15, 1 << 15}).empty());
  CHECK(broken({1, 1, 1, 1, 1, 1, 1, 1}) ==
        "tensor proof_step: its rows have 8 dimensions, not at most 7");
  CHECK_THAT(broken({3, 0}), Catch::Contains("an extent of 0"));
  CHECK_THAT(broken({1 << 15, (1 << 15) + 1}), Catch::Contains("at most 1073741824 values"));
  // The product of these wraps around to 0.
  CHECK_THAT(broken({std::uint64_t{1} << 32, std::uint64_t{1} << 32}),
             Catch::Contains("an extent of 4294967296"));
  for (const char* path : {"root", "edge_source", "edge_label", "node_splits"}) {
    CHECK_THAT(Broken(path, [](TensorSpec& t) { t.inner = {2}; }),
               Catch::Contains("rows of one value"));
  }
}

TEST_CASE("bools and floats are kept, and have no bounds", "[tensor_table]") {
  for (const DType dtype :
       {DType::kBool, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    const auto broken = [&](Expansion expansion, std::uint64_t max) {
      return Broken("proof_step", [&](TensorSpec& t) {
        t.dtype = dtype;
        t.expansion = expansion;
        t.max = max;
      });
    };
    CHECK(broken(Expansion::kKeep, 0).empty());
    CHECK_THAT(broken(Expansion::kKeep, 1), Catch::Contains("bounds 0 to 1, but"));
    CHECK_THAT(broken(Expansion::kWiden, 0), Catch::Contains("cannot expand as widen"));
    CHECK_THAT(Broken("args_splits", [&](TensorSpec& t) { t.dtype = dtype; }),
               Catch::Contains("cannot expand as widen"));
    CHECK_THAT(Broken("proof_step",
                      [&](TensorSpec& t) {
                        t.kind = TensorKind::kTableReference;
                        t.expansion = Expansion::kKeep;
                        t.dtype = dtype;
                        t.max = 0;
                      }),
               Catch::Contains("references to a table are integers"));
  }
  CHECK(Broken("proof_step", [](TensorSpec& t) { t.expansion = Expansion::kKeep; }).empty());
  CHECK_THAT(Broken("state_text", [](TensorSpec& t) { t.expansion = Expansion::kWiden; }),
             Catch::Contains("string bytes are uint8 and expand as keep"));
  CHECK_THAT(Broken("args_splits", [](TensorSpec& t) { t.expansion = Expansion::kKeep; }),
             Catch::Contains("splits cannot expand as keep"));
}

TEST_CASE("features of edges are allowed where no edges are added", "[tensor_table]") {
  test::ModelPlan plan = Plan();
  std::vector<TensorSpec> tensors = test::Tensors(plan);
  TensorSpec weight;
  weight.path = "edge_weight";
  weight.dimension = "edges";
  weight.splits = "edge_splits";
  weight.max = 255;
  tensors.push_back(weight);
  CHECK_FALSE(CheckTensors(tensors, plan.expand).ok());
  CHECK(CheckTensors(tensors, {30, Symmetrization::kDirected, false}).ok());
  tensors.back().expansion = Expansion::kNodeOffset;  // a node for each edge
  tensors.back().node_splits = "node_splits";
  CHECK_FALSE(CheckTensors(tensors, plan.expand).ok());
  CHECK(CheckTensors(tensors, {30, Symmetrization::kDirected, false}).ok());
}

}  // namespace
}  // namespace millrace
