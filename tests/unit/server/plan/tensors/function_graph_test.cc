#include "server/plan/tensors/function_graph.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <string>
#include <vector>

#include "common/batch/arena.h"
#include "tests/unit/server/plan/text/pipeline_text.h"

namespace millrace {
namespace {

using Catch::Contains;

TensorSpec SpecOf(const std::string& name, DType dtype, TensorKind kind, const std::string& rows,
                  const std::string& splits = "") {
  TensorSpec spec;
  spec.path = name;
  spec.dtype = dtype;
  spec.kind = kind;
  spec.dimension = rows;
  spec.splits = splits;
  spec.max = IsInteger(dtype) ? DTypeMax(dtype) : 0;
  spec.expansion = kind == TensorKind::kSplits ? Expansion::kWiden : Expansion::kKeep;
  return spec;
}

/// A count whose type is as narrow as the data allow, numbers of any length, and labels of nodes.
std::vector<TensorSpec> Specs() {
  std::vector<TensorSpec> specs = {
      SpecOf("count", DType::kUint8, TensorKind::kDense, "batch"),
      SpecOf("x", DType::kFloat32, TensorKind::kRaggedValues, "x", "x_splits"),
      SpecOf("x_splits", DType::kUint32, TensorKind::kSplits, "batch+1"),
      SpecOf("node_label", DType::kUint16, TensorKind::kRaggedValues, "nodes", "node_splits"),
      SpecOf("node_splits", DType::kUint32, TensorKind::kSplits, "batch+1"),
  };
  specs[0].expansion = Expansion::kWiden;
  return specs;
}

/// The calls of a pipeline's tensors, and what they read of the source.
struct Bound {
  explicit Bound(const std::string& tensors)
      : found(FunctionCalls::Find(
                  test::MustParse("millrace: 1\ndataset: d\nsource: {records: {a: int64}}\n"
                                  "batch: {size: 2, remainder: drop}\ntensors:\n" +
                                  tensors)
                      .tensors(),
                  {})
                  .value()),
        graph(FunctionGraph::Bind(found.others(), found.calls(), Specs(), {})) {}

  FunctionCalls found;
  Result<FunctionGraph> graph;
};

/// Two examples: counts 7 and 9, numbers {1, 2} and {}, and a node each.
class GraphExamples {
 public:
  GraphExamples() : writer_(BatchWriter::Create(Specs(), ExpandSpec{}, pool_).value()) {
    writer_.Begin({}, 0, 0, 2);
    for (const std::int64_t count : {7, 9}) {
      writer_.AppendOne(0, count);
      if (count == 7) {
        const std::vector<float> x = {1, 2};
        writer_.AppendBytes(1, std::as_bytes(std::span(x)));
      }
      const std::uint16_t label = 3;
      writer_.AppendBytes(3, std::as_bytes(std::span(&label, 1)));
      writer_.EndExample(ExampleId(static_cast<std::uint64_t>(count)));
    }
  }
  const BatchWriter& writer() const { return writer_; }

 private:
  BufferPool pool_;
  BatchWriter writer_;
};

template <class T>
std::vector<T> ValuesOf(const TensorView& view) {
  std::vector<T> values(view.values.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), view.values.data(), view.values.size());
  return values;
}

TEST_CASE("a call reads tensors of the source, counts as int64", "[function_graph]") {
  const Bound bound("  f: {python: 'm:f', inputs: [count, x], type: int64}\n");
  REQUIRE(bound.graph.ok());
  const std::vector<TensorType> types = bound.graph->InputTypes(0);
  CHECK(TensorTypeText(types[0]) == "int64");
  CHECK(TensorTypeText(types[1]) == "float32[*]");
  CHECK_FALSE(bound.graph->IsRead(0));

  const GraphExamples examples;
  FunctionGraph::Run run(*bound.graph);
  run.Begin(examples.writer());
  const auto inputs = run.Inputs(0);
  REQUIRE(inputs.ok());
  CHECK(ValuesOf<std::int64_t>((*inputs)[0]) == std::vector<std::int64_t>{7, 9});
  CHECK(ValuesOf<float>((*inputs)[1]) == std::vector<float>{1, 2});
  CHECK(std::vector<std::int64_t>((*inputs)[1].splits.begin(), (*inputs)[1].splits.end()) ==
        std::vector<std::int64_t>{0, 2, 2});
}

TEST_CASE("a call reads what operations make of what another call made", "[function_graph]") {
  const Bound bound(
      "  f: {python: 'm:f', inputs: [x], types: {a: 'int32[*]', b: int8}}\n"
      "  more: {expr: 'f.a + count'}\n"
      "  g: {python: 'm:g', inputs: [more, f.a.length], type: int64}\n");
  REQUIRE(bound.graph.ok());
  CHECK(bound.graph->IsRead(0));
  const GraphExamples examples;
  FunctionGraph::Run run(*bound.graph);
  run.Begin(examples.writer());
  REQUIRE(run.Inputs(0).ok());
  FunctionGraph::Made& made = run.made(0)[0];
  const std::vector<std::int32_t> values = {10, 20, 30};
  made.words.resize(2);
  made.bytes = 12;
  std::memcpy(made.words.data(), values.data(), made.bytes);
  made.splits = {0, 1, 3};
  run.SetMade(0);
  const auto inputs = run.Inputs(1);
  INFO(inputs.status().message());
  REQUIRE(inputs.ok());
  CHECK(ValuesOf<std::int64_t>((*inputs)[0]) == std::vector<std::int64_t>{17, 29, 39});
  CHECK(ValuesOf<std::int64_t>((*inputs)[1]) == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("a call reads only tensors with a row for each example", "[function_graph]") {
  const Bound bound("  f: {python: 'm:f', inputs: [node_label], type: int64}\n");
  CHECK_THAT(bound.graph.status().message(), Contains("a row for each example"));
  CHECK_THAT(bound.graph.status().message(), Contains("tensors.f.inputs: 'node_label'"));
}

TEST_CASE("a call that reads nothing that there is says so", "[function_graph]") {
  for (const std::string name : {"y", "y.length", "f", "count.a"}) {
    const Bound bound("  g: {python: 'm:f', inputs: {x: " + name + "}, type: int64}\n");
    INFO(name);
    CHECK_THAT(bound.graph.status().message(), Contains("tensors.g.inputs: there is no tensor"));
  }
}

}  // namespace
}  // namespace millrace
