#include "client/cli/offline/describe_tensors.h"

#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

namespace millrace::cli {
namespace {

/// `half` shrinks what the source has, `bits` of it grows again; `spare` is read by nobody.
std::shared_ptr<const TensorPlan> SomePlan() {
  TensorSpec data;
  data.path = "data";
  data.inner = {4};
  data.dimension = "batch";
  data.max = 255;
  data.expansion = Expansion::kKeep;
  TensorsPart part;
  part.definitions = {
      {"bits", "bits", {"half"}},
      {"half", "slice", {"data"}, Params({{"range", std::vector<std::int64_t>{0, 2}}})},
      {"spare", "cast", {"data"}, Params({{"dtype", std::string("int8")}})}};
  part.outputs = {{"bits"}};
  const auto plan = TensorPlan::Compile(part, {data}, ExpandSpec{});
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return *plan;
}

std::string LineOf(const std::string& text, const std::string& name) {
  const std::size_t begin = text.find("\n" + name + " ");
  REQUIRE(begin != std::string::npos);
  return text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
}

TEST_CASE("a plan's tensors are listed with place, type and cost", "[inspect]") {
  const auto plan = SomePlan();
  std::vector<TensorCost> costs(plan->graph().nodes().size(), TensorCost{2, 7});
  const std::string text = DescribeTensorPlan(*plan, costs);
  INFO(text);
  CHECK(LineOf(text, "data").find("uint8[batch, 4]") != std::string::npos);
  CHECK(LineOf(text, "half").find("worker, travels") != std::string::npos);
  CHECK(LineOf(text, "bits").find("consumer") != std::string::npos);
  CHECK(LineOf(text, "outputs").ends_with(" bits"));
  CHECK(LineOf(text, "not computed").ends_with(" spare"));
  CHECK(LineOf(text, "bytes").find("2.0 travel for an example, 2.0 are delivered") !=
        std::string::npos);
}

TEST_CASE("a plan says what a consumer's device makes", "[inspect]") {
  TensorSpec data;
  data.path = "data";
  data.inner = {4};
  data.dimension = "batch";
  data.max = 255;
  data.expansion = Expansion::kKeep;
  const auto text = [](const char* value) { return ParamValue(std::string(value)); };
  TensorsPart part;
  part.definitions = {{"bits", "bits", {"data"}},
                      {"first", "take", {"bits"}, Params({{"index", std::int64_t{0}}})},
                      {"of_sum", "cast", {"sum"}, Params({{"dtype", text("float64")}})},
                      {"real", "cast", {"data"}, Params({{"dtype", text("float32")}})},
                      {"sum", "expr", {"real"}, Params({{"expr", text("real * 2")}})}};
  part.outputs = {{"bits", "first", "of_sum"}};
  for (TensorDefinition& definition : part.definitions) definition.at = RunPlace::kConsumer;
  const auto plan = TensorPlan::Compile(part, {data}, ExpandSpec{});
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  const std::string described = DescribeTensorPlan(**plan, {});
  INFO(described);
  for (const char* const name : {"bits", "first"}) {
    CHECK(LineOf(described, name).find(" consumer, device ") != std::string::npos);
  }
  // The host makes `real` too, because only it can go on with it.
  for (const char* const name : {"real", "sum", "of_sum"}) {
    CHECK(LineOf(described, name).find(" consumer ") != std::string::npos);
  }
  CHECK(LineOf(described, "data").find("worker, travels") != std::string::npos);
}

TEST_CASE("a plan's graph is drawn for Graphviz", "[inspect]") {
  const std::string text = TensorPlanDot(*SomePlan());
  CHECK(text.starts_with("digraph tensors {"));
  CHECK(text.find("half\\nslice\\nuint8[batch, 2]\", style=bold") != std::string::npos);
  CHECK(text.find("n0 -> n1;") != std::string::npos);
}

/// A graph of nodes with a value each, padded.
std::shared_ptr<const TensorPlan> PaddedPlan() {
  std::vector<TensorSpec> tensors(6);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    constexpr const char* kNames[] = {"x",           "node_splits", "edge_source",
                                      "edge_target", "edge_label",  "edge_splits"};
    constexpr Expansion kExpansions[] = {Expansion::kWiden,      Expansion::kWiden,
                                         Expansion::kEdgeSource, Expansion::kEdgeTarget,
                                         Expansion::kEdgeLabel,  Expansion::kEdgeSplits};
    const bool splits = i == 1 || i == 5;
    tensors[i].path = kNames[i];
    tensors[i].expansion = kExpansions[i];
    tensors[i].kind = splits ? TensorKind::kSplits : TensorKind::kRaggedValues;
    tensors[i].dimension = splits ? "batch+1" : (i == 0 ? "nodes" : "edges");
    if (!splits) tensors[i].splits = i == 0 ? "node_splits" : "edge_splits";
    if (i == 2 || i == 3) tensors[i].node_splits = "node_splits";
    tensors[i].max = 9;
  }
  TensorsPart part;
  part.graph_pad = GraphPad{64, 256, 9};
  ExpandSpec expand;
  expand.base_edge_labels = 1;
  const auto plan = TensorPlan::Compile(part, tensors, expand);
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return *plan;
}

TEST_CASE("a plan that pads graphs says so, in the list and in the drawing", "[inspect]") {
  CHECK(LineOf(DescribeTensorPlan(*PaddedPlan(), {}), "pad.graph") ==
        "pad.graph      64 nodes, 256 edges and 9 graphs a batch; the edges, edge_mask, graph_mask "
        "and node_mask come too");
  const std::string drawing = TensorPlanDot(*PaddedPlan());
  CHECK(drawing.find("pad [label=\"pad.graph\\n64 nodes, 256 edges and 9 graphs\"") !=
        std::string::npos);
  CHECK(drawing.find("pad -> node_mask [style=dashed];") != std::string::npos);
  CHECK(TensorPlanDot(*SomePlan()).find("pad") == std::string::npos);
}

}  // namespace
}  // namespace millrace::cli
