#include "common/operations/tensor_graph.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/operations/program.h"
#include "tests/unit/common/operations/run_graph.h"

namespace millrace {
namespace {

using test::Ints;
using Names = std::vector<std::string>;

TensorDefinition Cast(std::string name, std::string input, std::string dtype = "float64") {
  return {
      std::move(name), "cast", {std::move(input)}, Params({{"dtype", std::move(dtype)}})};
}

TensorGraphText Text(std::vector<TensorDefinition> definitions) {
  TensorGraphText text;
  text.sources = {{"x", ParseTensorType("int32[4]").value()},
                  {"target/y", ParseTensorType("float32").value()},
                  {"data", ParseTensorType("bytes[*]").value()}};
  text.definitions = std::move(definitions);
  return text;
}

std::string ErrorOf(const TensorGraphText& text) {
  const Result<TensorGraph> graph = TensorGraph::Bind(text);
  return graph.ok() ? "no error" : graph.status().message();
}

Names OutputNames(const TensorGraph& graph) {
  Names names;
  for (const TensorOutput& output : graph.outputs()) names.push_back(output.name);
  return names;
}

std::vector<ProgramOutput> AllOutputs(const TensorGraph& graph) {
  std::vector<ProgramOutput> outputs;
  for (const TensorOutput& output : graph.outputs()) outputs.push_back({output.node, output.pad});
  return outputs;
}

TEST_CASE("the output is all that nothing else reads, the source's tensors first", "[graph]") {
  const TensorGraph graph =
      TensorGraph::Bind(Text({Cast("b", "a"), Cast("a", "x"), Cast("Z", "x")})).value();
  CHECK(OutputNames(graph) == Names{"target/y", "data", "Z", "b"});
  TensorGraphText chosen = Text({Cast("b", "a"), Cast("a", "x"), Cast("Z", "x")});
  chosen.outputs = {{"b", "a", "data", "x"}};
  CHECK(OutputNames(TensorGraph::Bind(chosen).value()) == Names{"x", "data", "a", "b"});
  chosen.sources[2].widened = true;
  chosen.pads.emplace("data", Params());
  CHECK(OutputNames(TensorGraph::Bind(chosen).value()) ==
        Names{"x", "data", "a", "b", "data.length"});
}

TEST_CASE("the order of definitions means nothing", "[graph]") {
  std::vector<TensorDefinition> definitions = {Cast("c", "b"), Cast("b", "a", "int8"),
                                               Cast("a", "x"), Cast("d", "target.y", "int8")};
  Names first;
  do {
    const TensorGraph graph = TensorGraph::Bind(Text(definitions)).value();
    Names names;
    for (const TensorNode& node : graph.nodes()) names.push_back(node.name);
    if (first.empty()) first = names;
    CHECK(names == first);
    CHECK(OutputNames(graph) == Names{"data", "c", "d"});
  } while (std::next_permutation(definitions.begin(), definitions.end(),
                                 [](const auto& a, const auto& b) { return a.name < b.name; }));
}

TEST_CASE("equal operations on equal inputs are one node", "[graph]") {
  TensorGraphText text = Text({Cast("b", "x"), Cast("a", "x"), Cast("c", "a", "int8"),
                               Cast("d", "b", "int8"), Cast("e", "b", "int16")});
  text.outputs = {{"c", "d", "e"}};
  const TensorGraph graph = TensorGraph::Bind(text).value();
  CHECK(graph.nodes().size() == 4);
  CHECK(graph.nodes()[1].name == "a");
  CHECK(graph.outputs()[0].node == graph.outputs()[1].node);
  CHECK(graph.outputs()[0].node != graph.outputs()[2].node);
}

TEST_CASE("defaults that are written are the same as those that are not", "[graph]") {
  TensorDefinition written{"a", "bits", {"data"}, Params({{"order", std::string("msb")}})};
  const TensorGraph graph = TensorGraph::Bind(Text({written, {"b", "bits", {"data"}}})).value();
  CHECK(graph.outputs()[2].node == graph.outputs()[3].node);
}

TEST_CASE("a number with a fraction is another parameter than one without", "[graph]") {
  const auto plus = [](const char* name, ParamNumber number) {
    return TensorDefinition{
        name,
        "expr",
        {"x"},
        Params({{"expr", std::string("x + A")},
                         {"with", std::map<std::string, ParamNumber>{{"A", number}}}})};
  };
  TensorGraphText text = Text({plus("a", std::int64_t{1}), plus("b", 1.0), plus("c", 1.0)});
  text.outputs = {{"a", "b", "c"}};
  const TensorGraph graph = TensorGraph::Bind(text).value();
  REQUIRE(graph.nodes().size() == 3);
  CHECK(graph.nodes()[1].type.dtype == DType::kInt64);
  CHECK(graph.nodes()[2].type.dtype == DType::kFloat64);
}

TEST_CASE("numbers alone have the rows of a tensor that can be read", "[graph]") {
  TensorGraphText text = Text({{"one", "expr", {}, Params({{"expr", std::string("1")}})}});
  text.sources[0].unreadable = "x: its values are numbers of nodes";
  text.outputs = {{"one"}};
  const TensorGraph graph = TensorGraph::Bind(text).value();
  REQUIRE(graph.nodes().size() == 2);
  CHECK(graph.nodes()[0].name == "target/y");
  for (SourceTensor& source : text.sources) source.unreadable = "none";
  CHECK(ErrorOf(text) ==
        "one: names no tensor, and the source has none with a row for each example");
}

TEST_CASE("tensors that want different places are different nodes", "[graph]") {
  TensorDefinition here = Cast("a", "x");
  here.at = RunPlace::kConsumer;
  CHECK(TensorGraph::Bind(Text({here, Cast("b", "x")})).value().nodes().size() == 5);
}

TEST_CASE("what no output needs is named and left out", "[graph]") {
  TensorGraphText text = Text({Cast("a", "x"), Cast("b", "x", "int8"), Cast("c", "b")});
  text.outputs = {{"a"}};
  const TensorGraph graph = TensorGraph::Bind(text).value();
  CHECK(graph.nodes().size() == 2);
  CHECK(graph.unused() == Names{"b", "c"});
}

TEST_CASE("errors in a graph name the tensor", "[graph]") {
  CHECK(ErrorOf(Text({Cast("a", "b"), Cast("b", "c"), Cast("c", "a")})) ==
        "a: is computed from itself: a <- b <- c <- a");
  CHECK(ErrorOf(Text({Cast("a", "a")})) == "a: is computed from itself: a <- a");
  CHECK(ErrorOf(Text({Cast("a", "y")})) == "a: there is no tensor 'y'");
  CHECK(ErrorOf(Text({Cast("x", "data")})) == "x: the source has a tensor of this name");
  CHECK(ErrorOf(Text({Cast("a", "x"), Cast("a", "data")})) == "a: is defined twice");
  CHECK(ErrorOf(Text({Cast("a-b", "x")})) == "a-b: a name is a word of letters, digits and _");
  CHECK(ErrorOf(Text({{"a", "cats", {"x"}}})) == "a: there is no operation 'cats'");
  CHECK(ErrorOf(Text({{"a", "bits", {"data", "data"}}})) == "a: bits: expected 1 inputs, got 2");
  CHECK(ErrorOf(Text({{"a", "slice", {"x"}, Params({{"range", Ints{0, 9}}})}})) ==
        "a: range: [0, 9] is outside an axis of 4");
  TensorGraphText text = Text({Cast("a", "x")});
  text.outputs = {{"b"}};
  CHECK(ErrorOf(text) == "output: there is no tensor 'b'");
  text.outputs = {{"a", "a"}};
  CHECK(ErrorOf(text) == "output: names 'a' twice");
  text.outputs.emplace();
  CHECK(ErrorOf(text) == "output: names no tensor");
  text.outputs = {{"a"}};
  text.pads.emplace("data", Params());
  CHECK(ErrorOf(text) == "data: pad is for outputs, and this is none");
}

TEST_CASE("an error in what no output needs is found too", "[graph]") {
  TensorGraphText text = Text({Cast("a", "x"), {"b", "length", {"x"}}});
  text.outputs = {{"a"}};
  CHECK(ErrorOf(text) == "b: length: expected a ragged tensor, got int32[batch, 4]");
}

TEST_CASE("a chain of any length is bound or refused", "[graph]") {
  const auto error = [](int length) {
    std::vector<TensorDefinition> definitions;
    for (int i = 1; i <= length; ++i) {
      definitions.push_back(Cast("t" + std::to_string(1'000'000 + i),
                                 i == length ? "x" : "t" + std::to_string(1'000'001 + i)));
    }
    return ErrorOf(Text(definitions));
  };
  CHECK(error(500) == "no error");
  for (const int length : {501, 2000}) {
    CHECK_THAT(error(length), Catch::Contains("more than 500 tensors need one another"));
  }
}

TEST_CASE("the lengths of a ragged tensor need no definition", "[graph]") {
  TensorGraphText text = Text({Cast("a", "data.length"), {"b", "length", {"data"}}});
  text.outputs = {{"a", "b"}};
  const TensorGraph graph = TensorGraph::Bind(text).value();
  CHECK(graph.nodes().size() == 3);
  CHECK(ErrorOf(Text({Cast("a", "x.length")})) ==
        "x.length: length: expected a ragged tensor, got int32[batch, 4]");
  // Reading lengths is not reading the data.
  CHECK(OutputNames(TensorGraph::Bind(Text({Cast("a", "data.length")})).value()) ==
        Names{"x", "target/y", "data", "a"});
}

TEST_CASE("a padded output is followed by its lengths", "[graph]") {
  TensorGraphText text = Text({Cast("a", "data"), Cast("z", "x")});
  text.outputs = {{"a", "z"}};
  text.pads.emplace("a", Params());
  CHECK(OutputNames(TensorGraph::Bind(text).value()) == Names{"a", "a.length", "z"});
  text.outputs = {{"a", "a.length"}};
  CHECK(OutputNames(TensorGraph::Bind(text).value()) == Names{"a", "a.length"});
}

TEST_CASE("a list of texts is followed by the lengths of its texts", "[graph]") {
  TensorGraphText text = Text({Cast("a", "data")});
  text.sources.push_back({"data.lengths", ParseTensorType("uint32[*]").value()});
  CHECK(OutputNames(TensorGraph::Bind(text).value()) ==
        Names{"x", "target/y", "data.lengths", "a"});
  text.outputs = {{"data", "a"}};
  CHECK(OutputNames(TensorGraph::Bind(text).value()) == Names{"data", "data.lengths", "a"});
  text.outputs = {{"data.lengths", "data"}};
  CHECK(OutputNames(TensorGraph::Bind(text).value()) == Names{"data", "data.lengths"});
  text.outputs = {{"data.lengths", "a"}};
  CHECK(OutputNames(TensorGraph::Bind(text).value()) == Names{"data.lengths", "a"});
}

TEST_CASE("operations that follow one another run as one loop", "[graph]") {
  TensorGraphText text;
  text.sources = {{"d", ParseTensorType("bytes[194]").value()}};
  text.definitions = {
      {"bits", "bits", {"d"}},
      {"planes",
       "slice",
       {"bits"},
       Params({{"range", Ints{0, 1536}}, {"shape", Ints{8, 8, 24}}})},
      {"board",
       "take",
       {"planes"},
       Params(
           {{"axis", std::int64_t{-1}}, {"index", Ints{3, 1}}, {"dtype", std::string("float32")}})},
      {"flags", "slice", {"bits"}, Params({{"range", Ints{1536, 1546}}})}};
  const TensorGraph graph = TensorGraph::Bind(text).value();
  const std::vector<std::size_t> inputs = {0};
  const Program program = Program::Compile(graph, inputs, AllOutputs(graph));
  CHECK(program.loops() == 2);
  CHECK(program.kernels() == 0);
}

TEST_CASE("converted values that several operations read are converted once", "[graph]") {
  TensorGraphText text = Text({Cast("a", "x"),
                               {"b", "slice", {"a"}, Params({{"range", Ints{0, 1}}})},
                               {"c", "slice", {"a"}, Params({{"range", Ints{1, 2}}})}});
  text.outputs = {{"b", "c"}};
  const TensorGraph graph = TensorGraph::Bind(text).value();
  const std::vector<std::size_t> inputs = {0};
  CHECK(Program::Compile(graph, inputs, AllOutputs(graph)).loops() == 3);
}

TEST_CASE("tensors with other numbers of rows are not for one operation", "[graph]") {
  TensorGraphText text;
  text.definitions = {{"both", "concat", {"a", "b"}}};
  const auto failed = test::RunGraph(text, {{"a", test::Dense<float>("float32[1]", 2, {1, 2})},
                                            {"b", test::Dense<float>("float32[1]", 1, {3})}});
  CHECK(failed.status().message() == "both: a has 2 rows, and b has 1");
}

TEST_CASE("a padded tensor that no memory could hold is refused before it is made", "[graph]") {
  TensorGraphText text = Text({});
  text.outputs = {{"data"}};
  text.pads.emplace("data", Params());
  const TensorGraph graph = TensorGraph::Bind(text).value();
  const std::vector<std::size_t> inputs = {0};
  const Program program = Program::Compile(graph, inputs, AllOutputs(graph));
  // One very long row among many.
  Ints splits(200, kMaxExtent);
  splits[0] = 0;
  const TensorType type = ParseTensorType("bytes[*]").value();
  const std::vector<TensorView> views = {{&type, splits.size() - 1, {}, splits}};
  ProgramMemory memory;
  const auto shapes = program.Shapes(views, std::nullopt, memory);
  REQUIRE_FALSE(shapes.ok());
  CHECK(shapes.status().code() == StatusCode::kResourceExhausted);
  CHECK_THAT(shapes.status().message(), Catch::StartsWith("data: uint8[batch, 2147483647] with "));
  splits.resize(100);
  const std::vector<TensorView> fewer = {{&type, splits.size() - 1, {}, splits}};
  CHECK(program.Shapes(fewer, std::nullopt, memory).ok());
}

TEST_CASE("a program refuses inputs of other types and sizes", "[graph]") {
  const TensorGraph graph = TensorGraph::Bind(Text({Cast("a", "x")})).value();
  const std::vector<std::size_t> inputs = {0};
  const std::vector<ProgramOutput> outputs = {{graph.outputs().back().node}};
  const Program program = Program::Compile(graph, inputs, outputs);
  std::vector<std::byte> room(64);
  const ProgramRun run{[&](std::size_t, const TensorView& view) -> Result<std::span<std::byte>> {
    return std::span(room).first(view.units() * view.type->UnitBytes());
  }};
  ProgramMemory memory;
  const test::Tensor x = test::Dense<std::int32_t>("int32[4]", 2, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto message = [&](const TensorView& view) {
    const std::vector<TensorView> views = {view};
    return program.Run(views, run, memory).message();
  };
  CHECK(message(x.View()).empty());
  TensorView shorter = x.View();
  shorter.rows = 1;
  CHECK(message(shorter) == "x: int32[batch, 4] has 32 bytes, and 1 units");
  const test::Tensor y = test::Dense<float>("float32[4]", 1, {1, 2, 3, 4});
  CHECK(message(y.View()) == "x: expected int32[batch, 4], got float32[batch, 4]");
}

}  // namespace
}  // namespace millrace
