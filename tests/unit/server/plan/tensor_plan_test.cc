#include "server/plan/tensors/tensor_plan.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/batch/layout/batch_header.h"
#include "common/expand/delivery.h"
#include "common/transport/convert/tensor_program.h"

namespace millrace {
namespace {

using Names = std::vector<std::string>;

std::uint64_t Max(DType dtype) { return IsInteger(dtype) ? DTypeMax(dtype) : 0; }

TensorSpec Kept(const std::string& name, DType dtype, std::vector<std::uint64_t> inner = {},
                const std::string& splits = "", const std::string& rows = "batch") {
  TensorSpec spec;
  spec.path = name;
  spec.kind = splits.empty() ? TensorKind::kDense : TensorKind::kRaggedValues;
  spec.dtype = dtype;
  spec.dimension = rows;
  spec.inner = std::move(inner);
  spec.splits = splits;
  spec.min = IsInteger(dtype) ? DTypeMin(dtype) : 0;
  spec.max = Max(dtype);
  spec.expansion = Expansion::kKeep;
  return spec;
}

TensorSpec Widened(TensorSpec spec) {
  spec.expansion = Expansion::kWiden;
  return spec;
}

TensorSpec SplitsOf(const std::string& name) {
  TensorSpec spec = Widened(Kept(name, DType::kUint32, {}, "", "batch+1"));
  spec.kind = TensorKind::kSplits;
  return spec;
}

/// Bytes, a narrow count, and nodes with a label and two features each.
const std::vector<TensorSpec> kSource = {
    Kept("d", DType::kUint8, {2}),
    Widened(Kept("n", DType::kUint8)),
    Widened(Kept("node_label", DType::kUint16, {}, "node_splits", "nodes")),
    SplitsOf("node_splits"),
    Kept("text", DType::kUint8, {}, "text_splits", "bytes"),
    SplitsOf("text_splits"),
    Kept("x", DType::kFloat32, {2}, "node_splits", "nodes"),
};

/// A writer with two examples: one with 3 nodes and 2 bytes of text, one with 1 node and none.
class TwoExamples {
 public:
  TwoExamples() : writer(*BatchWriter::Create(kSource, ExpandSpec{}, pool)) {
    writer.Begin(Fingerprint{}, 4, 10, 3);
    Add(7, {0x80, 0x01}, 200, {1, 2, 3}, "hi", {0.5, 1, 1.5, 2, 2.5, 3});
    writer.AddDropped(ExampleId(8), DropReason::kTooLarge);
    Add(9, {0xff, 0x00}, 3, {40000}, "", {-1, -2});
  }

  BufferPool pool;
  BatchWriter writer;

 private:
  void Add(std::uint64_t id, std::vector<std::uint8_t> d, std::int64_t n,
           const std::vector<std::uint32_t>& labels, const std::string& text,
           const std::vector<float>& x) {
    writer.AppendBytes(0, std::as_bytes(std::span(d)));
    writer.AppendOne(1, n);
    writer.Append(2, labels);
    writer.AppendBytes(4, std::as_bytes(std::span(text)));
    writer.AppendBytes(6, std::as_bytes(std::span(x)));
    writer.EndExample(ExampleId(id));
  }
};

TensorDefinition Cast(const std::string& name, const std::string& input, const char* dtype) {
  return {name, "cast", {input}, Params({{"dtype", std::string(dtype)}})};
}

Names NamesOf(const std::vector<TensorSpec>& tensors) {
  Names names;
  for (const TensorSpec& tensor : tensors) names.push_back(tensor.path);
  return names;
}

Names Defined(const ConsumerProgram& program) {
  Names names;
  for (const TensorDefinition& definition : program.text.definitions)
    names.push_back(definition.name);
  return names;
}

template <class T>
std::vector<T> ValuesOf(const PackedBatch& batch, const std::string& tensor) {
  const auto bytes = batch.tensor_bytes(batch.Find(tensor).value());
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::shared_ptr<const PackedBatch> SealTwo(const TensorPlan& plan) {
  TwoExamples two;
  const auto scratch = plan.NewScratch();
  REQUIRE(plan.Compute(two.writer, *scratch).ok());
  const auto batch = plan.Seal(two.writer, *scratch, two.pool);
  INFO(batch.status().ToString());
  REQUIRE(batch.ok());
  // It is a batch as a reader takes it.
  const auto parsed = PackedBatch::Parse((*batch)->bytes(), *batch);
  INFO(parsed.status().ToString());
  REQUIRE(parsed.ok());
  CHECK((*parsed)->info() == (*batch)->info());
  return *parsed;
}

std::shared_ptr<const TensorPlan> Compiled(const TensorsPart& part) {
  const auto plan = TensorPlan::Compile(part, kSource, ExpandSpec{});
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return *plan;
}

std::string ErrorOf(const TensorsPart& part) {
  const auto plan = TensorPlan::Compile(part, kSource, ExpandSpec{});
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.status().code() == StatusCode::kInvalidArgument);
  return plan.status().message();
}

TEST_CASE("what grows is computed by the consumer, what shrinks by the worker", "[tensor_plan]") {
  TensorsPart part;
  part.definitions = {
      {"bits", "bits", {"d"}},
      {"first", "slice", {"x"}, Params({{"range", std::vector<std::int64_t>{0, 1}}})}};
  part.outputs = {{"bits", "first"}};
  const auto plan = Compiled(part);
  CHECK(NamesOf(plan->tensors()) == Names{"d", "node_splits", "first"});
  REQUIRE(plan->consumer().has_value());
  CHECK(Defined(*plan->consumer()) == Names{"bits"});
  CHECK(*plan->consumer()->text.outputs == Names{"bits", "first"});

  const auto batch = SealTwo(*plan);
  CHECK(ValuesOf<std::uint8_t>(*batch, "d") == std::vector<std::uint8_t>{0x80, 0x01, 0xff, 0x00});
  CHECK(ValuesOf<float>(*batch, "first") == std::vector<float>{0.5, 1.5, 2.5, -1});
  CHECK(ValuesOf<std::uint32_t>(*batch, "node_splits") == std::vector<std::uint32_t>{0, 3, 4});
  CHECK(batch->info().planned_examples == 3);
  CHECK(batch->info().dropped.size() == 1);
}

TEST_CASE("a narrow integer of the source is int64 to operations, and travels narrow",
          "[tensor_plan]") {
  TensorsPart part;
  part.definitions = {
      {"wide",
       "cast",
       {"n"},
       Params({{"dtype", std::string("int64")}, {"scale", std::int64_t{1000}}})}};
  part.outputs = {{"wide"}};
  const auto plan = Compiled(part);
  CHECK(NamesOf(plan->tensors()) == Names{"n"});
  CHECK(plan->tensors()[0].dtype == DType::kUint8);
  CHECK(Defined(*plan->consumer()) == Names{"wide"});
}

TEST_CASE("a ragged tensor that the worker computes travels with splits of its own",
          "[tensor_plan]") {
  TensorsPart part;
  part.definitions = {
      {"head", "slice", {"text"}, Params({{"range", std::vector<std::int64_t>{0, 1}}})}};
  part.definitions.front().at = RunPlace::kWorker;
  part.outputs = {{"head"}};
  const auto plan = Compiled(part);
  CHECK(NamesOf(plan->tensors()) == Names{"head", "head_splits"});
  CHECK_FALSE(plan->consumer().has_value());
  const auto batch = SealTwo(*plan);
  CHECK(ValuesOf<char>(*batch, "head") == std::vector<char>{'h'});
  CHECK(ValuesOf<std::uint32_t>(*batch, "head_splits") == std::vector<std::uint32_t>{0, 1, 1});
}

TEST_CASE("outputs of the source come with what cuts them, and need no program of the consumer",
          "[tensor_plan]") {
  TensorsPart part;
  part.outputs = {{"node_label"}};
  CHECK(NamesOf(Compiled(part)->tensors()) == Names{"node_label", "node_splits"});
  CHECK_FALSE(Compiled(part)->consumer().has_value());
  part.outputs = {{"text", "text_splits"}};
  CHECK(NamesOf(Compiled(part)->tensors()) == Names{"text", "text_splits"});
  part.outputs = {{"n", "text_splits"}};
  CHECK(ErrorOf(part) == "output: tensor text_splits: cuts no tensor");
  part.outputs = {{"text_splits"}};
  CHECK(ErrorOf(part) == "output: names no tensor");
}

TEST_CASE("the most bytes of an example are the source's and those of what is computed",
          "[tensor_plan]") {
  TensorsPart part;
  part.definitions = {
      {"flag", "slice", {"d"}, Params({{"range", std::vector<std::int64_t>{0, 1}}})},
      {"bits", "bits", {"d"}}};
  part.definitions[0].at = part.definitions[1].at = RunPlace::kWorker;
  part.outputs = {{"flag", "bits"}};
  CHECK(Compiled(part)->MaxExampleBytes(100) == 100 + 1 + 16);
  CHECK(Compiled(part)->MaxExampleBytes(0) == 0);
  CHECK(Compiled(part)->MaxExampleBytes(~std::uint64_t{0}) == ~std::uint64_t{0});
  // Nobody knows how long a row is.
  part.definitions = {
      {"first", "slice", {"x"}, Params({{"range", std::vector<std::int64_t>{0, 1}}})}};
  part.outputs = {{"first"}};
  CHECK(Compiled(part)->MaxExampleBytes(100) == 0);
}

TEST_CASE("what only an operation reads travels, and is named as no output", "[tensor_plan]") {
  TensorsPart part;
  part.definitions = {Cast("y", "n", "float64")};
  part.outputs = {{"y", "d"}};
  const auto plan = Compiled(part);
  CHECK(NamesOf(plan->tensors()) == Names{"d", "n"});
  CHECK(*plan->consumer()->text.outputs == Names{"d", "y"});
}

TEST_CASE("one tensor with two names is computed once and delivered twice", "[tensor_plan]") {
  TensorsPart part;
  part.definitions = {Cast("a", "x", "uint8"), Cast("b", "x", "uint8")};
  part.outputs = {{"a", "b"}};
  const auto plan = Compiled(part);
  CHECK(NamesOf(plan->tensors()) == Names{"node_splits", "a"});
  REQUIRE(plan->consumer().has_value());
  CHECK(Defined(*plan->consumer()) == Names{"b"});
  CHECK(plan->consumer()->text.definitions[0].inputs == Names{"a"});
  CHECK(ValuesOf<std::uint8_t>(*SealTwo(*plan), "a") ==
        std::vector<std::uint8_t>{0, 1, 1, 2, 2, 3, 0, 0});
}

TEST_CASE("pad is the consumer's work, and brings lengths", "[tensor_plan]") {
  TensorsPart part;
  part.outputs = {{"text"}};
  part.pads["text"] = Params();
  const auto plan = Compiled(part);
  CHECK(NamesOf(plan->tensors()) == Names{"text", "text_splits"});
  REQUIRE(plan->consumer().has_value());
  CHECK(plan->consumer()->text.pads.contains("text"));
}

TEST_CASE("a tensor whose name has a slash is padded too", "[tensor_plan]") {
  std::vector<TensorSpec> source = kSource;
  source.push_back(Kept("some/text", DType::kUint8, {}, "some/splits", "bytes"));
  source.push_back(SplitsOf("some/splits"));
  TensorsPart part;
  part.outputs = {{"some.text"}};
  part.pads["some.text"] = Params({{"to", std::int64_t{4}}});
  const auto plan = TensorPlan::Compile(part, source, ExpandSpec{}).value();
  REQUIRE(plan->consumer().has_value());
  v1::TensorProgram message;
  ToProto(*plan->consumer(), OperationTable::Default(), &message);
  const ConsumerProgram sent = *FromProto(message, OperationTable::Default());
  const Delivery delivery = Delivery::Make(plan->tensors(), sent, DType::kInt32).value();
  const std::vector<DeliveryTensor> tensors = delivery.Tensors(plan->tensors());
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].packed.path == "some/text");
  CHECK(tensors[0].packed.kind == TensorKind::kDense);
  CHECK(tensors[0].packed.inner == std::vector<std::uint64_t>{4});
  CHECK(tensors[1].packed.path == "some.text.length");
}

TEST_CASE("a source's tensor is padded by either spelling of its name", "[tensor_plan]") {
  std::vector<TensorSpec> source = {Kept("a/b", DType::kUint8, {}, "splits", "values"),
                                    SplitsOf("splits")};
  for (const std::string name : {"a.b", "a/b"}) {
    TensorsPart part;
    part.outputs = {{name}};
    part.pads[name] = Params({{"multiple", std::int64_t{4}}});
    const auto plan = TensorPlan::Compile(part, source, ExpandSpec{}).value();
    REQUIRE(plan->consumer().has_value());
    const Delivery delivery =
        Delivery::Make(plan->tensors(), *plan->consumer(), DType::kInt32).value();
    const auto delivered = delivery.Tensors(plan->tensors());
    REQUIRE(delivered.size() == 2);
    CHECK(delivered[0].packed.path == "a/b");
    CHECK(delivered[0].packed.kind == TensorKind::kDense);
    CHECK(delivered[1].packed.path == "a.b.length");
  }
}

TEST_CASE("a tensor that is padded to the bound of a batch's class is named", "[tensor_plan]") {
  TensorsPart part;
  part.outputs = {{"text"}};
  part.pads["text"] = Params({{"to", std::int64_t{90}}});
  CHECK(Compiled(part)->padded_to_bound().empty());
  part.pads["text"] = Params({{"to", std::string("bound")}});
  const auto plan = Compiled(part);
  CHECK(plan->padded_to_bound() == "text");
  v1::TensorProgram message;
  ToProto(*plan->consumer(), OperationTable::Default(), &message);
  const auto back = FromProto(message, OperationTable::Default());
  CHECK(back->text.pads.at("text").GetText("to") == "bound");
}

TEST_CASE("the consumer's part is the same after it was sent", "[tensor_plan]") {
  TensorsPart part;
  std::vector<ParamNumber> scale(16, 0.5);
  scale[1] = 0.0;
  scale[2] = std::int64_t{0};
  part.definitions = {{"bits",
                       "bits",
                       {"d"},
                       Params({{"scale", scale}, {"dtype", std::string("float32")}})}};
  part.outputs = {{"bits", "text"}};
  part.pads["text"] = Params({{"multiple", std::int64_t{8}}});
  const ConsumerProgram program = *Compiled(part)->consumer();
  const TensorGraphText& text = program.text;
  v1::TensorProgram message;
  ToProto(program, OperationTable::Default(), &message);
  const auto back = FromProto(message, OperationTable::Default());
  REQUIRE(back.ok());
  CHECK(*back->text.outputs == *text.outputs);
  REQUIRE(back->text.definitions.size() == text.definitions.size());
  CHECK(ParamsKey(back->text.definitions[0].params) == ParamsKey(text.definitions[0].params));
  CHECK(ParamsKey(back->text.pads.at("text")) == ParamsKey(text.pads.at("text")));
  CHECK(program.source_tensors == 3);  // d, text and its splits
  CHECK(back->source_tensors == program.source_tensors);

  for (const std::uint32_t version : {0, 7}) {
    message.mutable_definitions(0)->set_version(version);
    CHECK(FromProto(message, OperationTable::Default()).status().code() ==
          StatusCode::kUnimplemented);
  }
}

/// The tensors of a delivered batch.
Names DeliveredNames(const TensorPlan& plan) {
  Delivery delivery;
  if (plan.consumer()) {
    delivery = Delivery::Make(plan.tensors(), *plan.consumer(), DType::kInt32).value();
  }
  Names names;
  for (const DeliveryTensor& tensor : delivery.Tensors(plan.tensors())) {
    names.push_back(tensor.packed.path);
  }
  return names;
}

TEST_CASE("the order of a delivered batch does not depend on where its tensors are computed",
          "[tensor_plan]") {
  const Names expected = {"n",      "node_splits",   "text",       "x",
                          "a_head", "a_head_splits", "middle",     "other",
                          "tail",   "tail_splits",   "text.length"};
  for (int places = 0; places < 3 * 3 * 3 * 3; ++places) {
    TensorsPart part;
    const std::vector<std::int64_t> one = {0, 1};
    part.definitions = {
        {"a_head", "slice", {"text"}, Params({{"range", one}})},
        Cast("middle", "node_label", "float32"),
        Cast("other", "x", "uint8"),
        {"tail", "slice", {"text"}, Params({{"range", std::vector<std::int64_t>{-1, 9}}})},
    };
    int rest = places;
    for (TensorDefinition& definition : part.definitions) {
      definition.at = static_cast<RunPlace>(rest % 3);
      rest /= 3;
    }
    part.outputs = {{"tail", "x", "other", "n", "middle", "a_head", "text"}};
    part.pads["text"] = Params();
    INFO(places);
    CHECK(DeliveredNames(*Compiled(part)) == expected);
  }
}

/// kSource with edges.
std::vector<TensorSpec> GraphSource() {
  std::vector<TensorSpec> tensors = kSource;
  const auto edges = [&](const char* name, Expansion expansion) {
    TensorSpec spec = Kept(name, DType::kUint16, {}, "edge_splits", "edges");
    spec.expansion = expansion;
    if (expansion != Expansion::kEdgeLabel) spec.node_splits = "node_splits";
    tensors.push_back(spec);
  };
  edges("edge_source", Expansion::kEdgeSource);
  edges("edge_target", Expansion::kEdgeTarget);
  edges("edge_label", Expansion::kEdgeLabel);
  tensors.push_back(SplitsOf("edge_splits"));
  tensors.back().expansion = Expansion::kEdgeSplits;
  return tensors;
}

ExpandSpec OneLabel() {
  ExpandSpec expand;
  expand.base_edge_labels = 1;
  return expand;
}

TEST_CASE("pad.graph is the consumer's work, and brings the graph", "[tensor_plan]") {
  TensorsPart part;
  part.graph_pad = GraphPad{64, 256, 9};
  part.outputs = {{"x", "node_mask"}};  // masks come anyway, and may be named
  const auto plan = TensorPlan::Compile(part, GraphSource(), OneLabel());
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  CHECK(NamesOf((*plan)->tensors()) ==
        Names{"node_splits", "x", "edge_source", "edge_target", "edge_label", "edge_splits"});
  const ConsumerProgram& program = (*plan)->consumer().value();
  CHECK(program.graph_pad == part.graph_pad);
  CHECK(program.text.outputs == Names{"x"});
  CHECK(DeliveredNames(**plan) == Names{"node_splits", "x", "edge_source", "edge_target",
                                        "edge_label", "edge_splits", "edge_mask", "graph_mask",
                                        "node_mask"});
  v1::TensorProgram message;
  ToProto(program, OperationTable::Default(), &message);
  CHECK(FromProto(message, OperationTable::Default())->graph_pad == part.graph_pad);
  message.mutable_graph()->set_nodes(0);
  CHECK(FromProto(message, OperationTable::Default()).status() ==
        InvalidArgument("pad.graph: nodes: expected an integer from 1 to 2147483647"));
  message.mutable_graph()->set_nodes(~std::uint64_t{0});
  CHECK_FALSE(FromProto(message, OperationTable::Default()).ok());
}

TEST_CASE("what is computed does not depend on pad.graph, and neither does what travels",
          "[tensor_plan]") {
  TensorsPart part;
  part.definitions = {Cast("y", "node_label", "float32"), {"bits", "bits", {"d"}}};
  const auto plain = TensorPlan::Compile(part, GraphSource(), OneLabel()).value();
  part.graph_pad = GraphPad{64, 256, 9};
  const auto padded = TensorPlan::Compile(part, GraphSource(), OneLabel()).value();
  CHECK(padded->tensors() == plain->tensors());
  CHECK(Defined(*padded->consumer()) == Defined(*plain->consumer()));
}

TEST_CASE("pad.graph is refused with its place for a source without one graph an example",
          "[tensor_plan]") {
  TensorsPart part;
  part.graph_pad = GraphPad{64, 256, 9};
  part.origins["pad.graph"] = "p.yaml:5:7";
  CHECK(ErrorOf(part) ==
        "p.yaml:5:7: pad.graph: the source's examples have no edges, so there is no graph to pad; "
        "expected a source of graphs");
  std::vector<TensorSpec> source = GraphSource();
  source.push_back(Kept("graph_mask", DType::kBool));
  const Status refused = TensorPlan::Compile(part, source, OneLabel()).status();
  CHECK(refused.message() ==
        "p.yaml:5:7: pad.graph: the source has a tensor graph_mask, and pad.graph delivers another "
        "graph_mask; expected a source without a tensor of this name");
}

TEST_CASE("nodes that are only counted travel with their narrowest tensor", "[tensor_plan]") {
  TensorsPart part;
  part.graph_pad = GraphPad{64, 256, 9};
  part.outputs = {{"d"}};
  const auto plan = TensorPlan::Compile(part, GraphSource(), OneLabel()).value();
  CHECK(FindTensor(plan->tensors(), "node_label").has_value());
  const Delivery delivery =
      Delivery::Make(plan->tensors(), *plan->consumer(), DType::kInt32).value();
  std::vector<std::string> names;
  for (const DeliveryTensor& tensor : delivery.Tensors(plan->tensors())) {
    names.push_back(tensor.packed.path);
  }
  CHECK(std::find(names.begin(), names.end(), "node_label") == names.end());
  CHECK(std::find(names.begin(), names.end(), "node_mask") != names.end());
}

TEST_CASE("errors begin with the place where the fault was written", "[tensor_plan]") {
  TensorsPart part;
  part.definitions = {Cast("y", "z", "float64")};
  part.origins["tensors.y"] = "p.yaml:3:3";
  CHECK(ErrorOf(part) == "p.yaml:3:3: tensors.y: cast: there is no tensor 'z'");
  part.definitions = {Cast("y", "n", "float65")};
  part.origins["tensors.y.dtype"] = "p.yaml:3:20";
  CHECK(ErrorOf(part).starts_with("p.yaml:3:20: tensors.y.dtype: "));
  part.definitions = {Cast("node_label", "n", "int8")};
  CHECK(ErrorOf(part) == "node_label: the source has a tensor of this name");
  part.definitions = {Cast("text_splits", "x", "uint8")};
  CHECK(ErrorOf(part) == "text_splits: the source has a tensor of this name");
  part.definitions = {
      {"node", "slice", {"text"}, Params({{"range", std::vector<std::int64_t>{0, 1}}})}};
  part.definitions.front().at = RunPlace::kWorker;
  part.outputs = {{"node", "node_label"}};
  CHECK(ErrorOf(part) ==
        "node: a tensor that travels beside it is called node_splits too; choose another name");
}

}  // namespace
}  // namespace millrace
