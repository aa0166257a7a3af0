// Tests of the keys tensors, output and pad.
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "server/plan/pipeline_parts.h"
#include "server/source/plan_parts.h"
#include "tests/unit/server/plan/text/pipeline_text.h"

namespace millrace::test {
namespace {

/// The lines of the canonical text that belong to tensors, output and pad.
std::string LinesOfTensors(const Pipeline& pipeline) {
  std::string lines;
  std::string line;
  for (const char c : pipeline.canonical_text()) {
    line += c;
    if (c != '\n') continue;
    if (line.starts_with("tensors") || line.starts_with("output") || line.starts_with("pad")) {
      lines += line;
    }
    line.clear();
  }
  return lines;
}

const std::string kChess =
    "tensors:\n"
    "  bits:   {bits: d, order: msb}\n"
    "  planes: {slice: bits, range: [0, 1536], shape: [8, 8, 24]}\n"
    "  board:  {take: planes, axis: -1, index: [0, 4, 8], scale: [1, 1, -1], dtype: float32}\n"
    "  mate:   {slice: bits, range: [1546, 1547], squeeze: true}\n"
    "  sf:     {cast: s, dtype: float64}\n"
    "  score:  {expr: \"mate ? sign(sf) : A * tanh(sf / K)\", with: {A: 0.9, K: 400}, dtype: "
    "float32}\n"
    "  both:   {stack: [sf, d.length]}\n"
    "output: [score, board, data]\n"
    "pad: {data: {value: 0, multiple: 8}}\n";

}  // namespace

TEST_CASE("definitions are operations with inputs and parameters", "[tensors]") {
  const Pipeline pipeline =
      MustParse(Minimal("tensors:\n"
                        "  board: {take: planes, axis: -1, index: [0, 4], scale: [1, 0.5], at: "
                        "consumer}\n"
                        "  both: {stack: [a/b, c.length]}\n"
                        "  score: {expr: 'q + A * b.length', with: {A: 0.9}, squeeze: true}\n"));
  const std::vector<TensorDefinition>& all = pipeline.tensors().definitions;
  REQUIRE(all.size() == 3);
  CHECK(all[0].name == "board");
  CHECK(all[0].operation == "take");
  CHECK(all[0].inputs == std::vector<std::string>{"planes"});
  CHECK(all[0].at == RunPlace::kConsumer);
  CHECK(all[0].params.GetInt("axis") == -1);
  CHECK(all[0].params.GetInts("index") == std::vector<std::int64_t>{0, 4});
  CHECK(all[0].params.GetNumbers("scale") == std::vector<ParamNumber>{std::int64_t{1}, 0.5});
  CHECK(all[1].inputs == std::vector<std::string>{"a.b", "c.length"});
  CHECK(all[1].at == RunPlace::kAny);
  CHECK(all[2].inputs == std::vector<std::string>{"q", "b.length"});
  CHECK(all[2].params.GetBool("squeeze"));
  CHECK_FALSE(pipeline.tensors().outputs.has_value());
  CHECK(pipeline.tensors().origins.at("tensors.board") == "p.yaml:6:3");
  CHECK(pipeline.tensors().origins.at("tensors.board.axis") == "p.yaml:6:31");
  CHECK(pipeline.tensors().origins.at("tensors.score.expr@text") == "p.yaml:8:18");
}

TEST_CASE("numbers are integers or not, as they are written", "[tensors]") {
  const auto scale = [](const std::string& text) {
    const Pipeline pipeline =
        MustParse(Minimal("tensors: {x: {cast: a, scale: " + text + ", dtype: float64}}\n"));
    return pipeline.tensors().definitions.front().params.GetNumber("scale");
  };
  CHECK(scale("7") == ParamNumber(std::int64_t{7}));
  CHECK(scale("-7") == ParamNumber(std::int64_t{-7}));
  CHECK(scale("7.0") == ParamNumber(7.0));
  CHECK(scale("-.5") == ParamNumber(-0.5));
  CHECK(scale("1e-3") == ParamNumber(0.001));
  CHECK(scale("2.5E+2") == ParamNumber(250.0));
  for (const char* text : {"1_000", "+1", "0x10", "01", "007.5", "-00.5", "1e", ".", "1e999",
                           ".inf", ".nan", "'1'", "9223372036854775808", "true", "one"}) {
    INFO(text);
    CHECK(ErrorOf(Minimal("tensors: {x: {cast: a, scale: " + std::string(text) + "}}\n"))
              .starts_with("p.yaml:5:31: tensors.x.scale: expected a number, or a list of numbers, "
                           "got "));
  }
}

TEST_CASE("the canonical text has a line for each definition, output and pad", "[tensors]") {
  CHECK(
      LinesOfTensors(MustParse(Minimal(kChess + "pad.score.to: 3\n"), "", {"pad.data=null"})) ==
      "output=[\"board\", \"data\", \"score\"]\n"
      "pad.score={to: 3}\n"
      "tensors.bits={bits: \"d\"}\n"
      "tensors.board={take: \"planes\", axis: -1, dtype: float32, index: [0, 4, 8], scale: [1, 1, "
      "-1]}\n"
      "tensors.both={stack: [\"sf\", \"d.length\"]}\n"
      "tensors.mate={slice: \"bits\", range: [1546, 1547], squeeze: true}\n"
      "tensors.planes={slice: \"bits\", range: [0, 1536], shape: [8, 8, 24]}\n"
      "tensors.score={expr: \"mate ? sign(sf) : A * tanh(sf / K)\", dtype: float32, with: {A: "
      "0.9, K: 400}}\n"
      "tensors.sf={cast: \"s\", dtype: float64}\n");
}

TEST_CASE("floats of the canonical text are the shortest that read back, with a point",
          "[tensors]") {
  const Pipeline pipeline =
      MustParse(Minimal("tensors: {x: {cast: a, dtype: float64, at: worker, offset: 0.1e1,\n"
                        "  scale: [1.0, 0.10, 1e300, -0.0, 5e-324, 12345678901234567890.0]}}\n"));
  CHECK(
      LinesOfTensors(pipeline) ==
      "tensors.x={cast: \"a\", at: worker, dtype: float64, offset: 1.0, scale: [1.0, 0.1, 1e+300, "
      "-0.0, 5e-324, 1.2345678901234567e+19]}\n");
}

TEST_CASE("a pipeline without tensors has the text that it always had", "[tensors]") {
  const Pipeline pipeline = MustParse(Minimal());
  CHECK(pipeline.canonical_text() == "batch.size=8\nsemantics=1\nsource=proof_states\n");
  CHECK(pipeline.tensors().empty());
  CHECK(PartsOfPipeline(pipeline)->Get<TensorsPart>().empty());
}

TEST_CASE("order, defaults that are written, and the way of writing change no digest",
          "[tensors]") {
  const Pipeline one = MustParse(
      Minimal("tensors:\n  a: {bits: d}\n  b: {concat: [a, a]}\n  c: {expr: 'a + 1'}\noutput: [a, "
              "b]\npad: {a: {}}\n"));
  const Pipeline other = MustParse(
      Minimal("pad: {a: {multiple: 1, value: 0}}\noutput: [b, a]\ntensors.c.expr: \"a + 1\"\n"
              "tensors:\n  c: {with: {}, squeeze: false}\n  b: {axis: 1, concat: [a, a]}\n"
              "  a: {order: msb, bits: d}\n"));
  CHECK(one.canonical_text() == other.canonical_text());
  CHECK(one.digest() == other.digest());
  CHECK(MustParse(Minimal("tensors: {a: {bits: t/x}}\n")).digest() ==
        MustParse(Minimal("tensors: {a: {bits: t.x}}\n")).digest());
}

TEST_CASE("tensors, output and pad are in the digest, and not in the order digest", "[tensors]") {
  const Pipeline none = MustParse(Minimal());
  std::vector<Digest128> digests = {none.digest()};
  for (const char* more :
       {"tensors: {a: {bits: d}}\n", "tensors: {b: {bits: d}}\n", "tensors: {a: {bits: e}}\n",
        "tensors: {a: {bits: d, order: lsb}}\n", "tensors: {a: {bits: d, at: worker}}\n",
        "tensors: {a: {bits: d, at: consumer}}\n", "tensors: {a: {bits: d, shape: [-1]}}\n",
        "tensors: {a: {bits: d, scale: 1}}\n", "tensors: {a: {bits: d, scale: 1.0}}\n",
        "tensors: {a: {bits: d, scale: [1]}}\n", "output: [d]\n", "output: [e]\n",
        "output: [d, e]\n", "pad: {d: {}}\n", "pad: {d: {to: bound}}\n", "pad: {d: {to: 4}}\n",
        "pad: {graph: {nodes: 2, edges: 3, graphs: 4}}\n",
        "pad: {graph: {nodes: 2, edges: 3, graphs: 5}}\n"}) {
    const Pipeline pipeline = MustParse(Minimal(more));
    INFO(more);
    CHECK(pipeline.order_digest() == none.order_digest());
    CHECK(std::find(digests.begin(), digests.end(), pipeline.digest()) == digests.end());
    digests.push_back(pipeline.digest());
    CHECK(pipeline.stages().back().fingerprint == none.stages().back().fingerprint);
  }
}

TEST_CASE("the version of an operation is in the canonical text", "[tensors]") {
  OperationType newer = *OperationTable::Default().Find("bits");
  newer.name = "newer_bits";
  newer.version = 2;
  const OperationTable table = OperationTable::Default().With(newer);
  const auto pipeline = Pipeline::Parse(
      {Minimal("tensors: {a: {newer_bits: d}}\n"), "", {}, "p.yaml"}, ProductStages(), table);
  REQUIRE(pipeline.status() == OkStatus());
  CHECK(LinesOfTensors(*pipeline) == "tensors.a={newer_bits: \"d\"}\ntensors.a@version=2\n");
}

TEST_CASE("a later layer changes keys of a definition, or replaces it", "[tensors]") {
  const std::string file = Minimal(
      kChess +
      "variants:\n"
      "  exact: {tensors: {board: {dtype: float64}, score: {dtype: null, with: {A: 1, K: 2}}}}\n"
      "  dotted: {tensors.board.dtype: float64, tensors: {score.dtype: null, score.with: {A: 1, K: "
      "2}}}\n"
      "  other: {tensors: {board: {cast: planes, dtype: int8}}}\n");
  const std::string exact = LinesOfTensors(MustParse(file, "exact"));
  CHECK_THAT(exact, Catch::Contains("dtype: float64, index: [0, 4, 8], scale: [1, 1, -1]}"));
  CHECK_THAT(exact, Catch::Contains("tanh(sf / K)\", with: {A: 1, K: 2}}"));
  CHECK(LinesOfTensors(MustParse(file, "dotted")) == exact);
  CHECK_THAT(LinesOfTensors(MustParse(file, "other")),
             Catch::Contains("tensors.board={cast: \"planes\", dtype: int8}\n"));
  CHECK_THAT(LinesOfTensors(MustParse(file, "", {"tensors.board.take=mate"})),
             Catch::Contains("tensors.board={take: \"mate\", axis: -1, dtype: float32"));
  CHECK_THAT(LinesOfTensors(MustParse(file, "", {"tensors.board={bits: d}"})),
             Catch::Contains("tensors.board={bits: \"d\"}\n"));
}

TEST_CASE("null removes a definition, an output or a pad, and sets a key back", "[tensors]") {
  const std::string file = Minimal(kChess);
  CHECK_THAT(LinesOfTensors(MustParse(file, "", {"tensors.both=null", "pad=null"})),
             !Catch::Contains("tensors.both"));
  CHECK(LinesOfTensors(MustParse(file, "", {"tensors=null", "pad=null", "output=null"})).empty());
  CHECK(LinesOfTensors(MustParse(file, "", {"tensors=null", "output=[data]"})) ==
        "output=[\"data\"]\npad.data={multiple: 8}\n");
  CHECK(LinesOfTensors(MustParse(file, "",
                                 {"tensors=null", "output=null", "pad.data.multiple=null",
                                  "pad.data.to=bound"})) == "pad.data={to: bound}\n");
  CHECK_THAT(LinesOfTensors(MustParse(file, "", {"pad=null", "tensors.bits.order=lsb"})),
             Catch::Contains("{bits: \"d\", order: lsb}"));
  CHECK_THAT(LinesOfTensors(MustParse(file, "", {"pad=null", "tensors.bits.order=null"})),
             Catch::Contains("{bits: \"d\"}"));
}

TEST_CASE("the names of tensors that are padded may have dots", "[tensors]") {
  CHECK(LinesOfTensors(MustParse(Minimal("pad: {target/y: {to: 3}, a.b.to: 4}\npad.c.d: {}\n"), "",
                                 {"pad.target.y.multiple=3"})) ==
        "pad.a.b={to: 4}\npad.c.d={}\npad.target.y={multiple: 3, to: 3}\n");
}

TEST_CASE("a layer that sets a key of a tensor twice is refused", "[tensors]") {
  CHECK(ErrorOf(Minimal("tensors: {a: {bits: d}}\ntensors.a.bits: e\n")) ==
        "p.yaml:6:1: duplicate key 'tensors.a.bits', 'tensors.a.bits' first written at line 5");
  CHECK(ErrorOf(Minimal("variants:\n  v: {tensors.a: null, tensors: {a: {bits: e}}}\n")) ==
        "p.yaml:6:38: duplicate key 'tensors.a.bits', 'tensors.a' first written at line 6");
  CHECK(ErrorOf(Minimal("variants:\n  v: {tensors: {a: {bits: e}}, tensors.a: null}\n")) ==
        "p.yaml:6:32: duplicate key 'tensors.a', 'tensors.a.bits' first written at line 6");
  CHECK(ErrorOf(Minimal("pad: {a: {to: 3}}\npad.a.to: 4\n")) ==
        "p.yaml:6:1: duplicate key 'pad.a.to', 'pad.a.to' first written at line 5");
}

TEST_CASE("a definition has exactly one operation that exists", "[tensors]") {
  CHECK(ErrorOf(Minimal("tensors:\n  a: {bit: d}\n")) ==
        "p.yaml:6:7: tensors.a: there is no operation 'bit' (did you mean bits?); expected one of "
        "bits, slice, take, reshape, transpose, cast, view, expr, one_hot, concat, stack, length, "
        "lookup, python");
  CHECK(ErrorOf(Minimal("tensors:\n  a: {dtype: int8, at: worker}\n"))
            .starts_with("p.yaml:6:3: tensors.a: names no operation; expected one of bits, "));
  CHECK(ErrorOf(Minimal("tensors:\n  a: {bits: d, cast: e}\n")) ==
        "p.yaml:6:16: tensors.a: has two operations, bits and cast; expected one, and another "
        "tensor for what the other one gives");
  CHECK(ErrorOf(Minimal(), "", {"tensors.a.dtype=int8"})
            .starts_with("override 'tensors.a.dtype=int8': tensors.a: names no operation"));
  CHECK(ErrorOf(Minimal("tensors: {a: {bits: d}}\n"), "", {"tensors.a.bits=null"})
            .find("tensors.a: names no operation") != std::string::npos);
}

TEST_CASE("an unknown key of a definition names those that there are", "[tensors]") {
  CHECK(ErrorOf(Minimal("tensors:\n  a: {bits: d, ordr: lsb}\n")) ==
        "p.yaml:6:16: unknown key 'tensors.a.ordr' (did you mean order?); expected one of order, "
        "squeeze, shape, scale, offset, dtype, at");
  CHECK(ErrorOf(Minimal("tensors:\n  a: {expr: d, wit: {}}\n")) ==
        "p.yaml:6:16: unknown key 'tensors.a.wit' (did you mean with?); expected one of with, "
        "squeeze, shape, scale, offset, dtype, at");
  CHECK(ErrorOf(Minimal("pad: {a: {too: 3}}\n")) ==
        "p.yaml:5:11: unknown key 'pad.a.too' (did you mean to?); expected one of value, multiple, "
        "to");
  CHECK(ErrorOf(Minimal("output.a: [b]\n")) ==
        "p.yaml:5:1: unknown key 'output.a'; output has no keys");
}

TEST_CASE("a wrong value of a definition names what is expected and what was found", "[tensors]") {
  const auto error = [](const std::string& definition) {
    return ErrorOf(Minimal("tensors:\n  a: {" + definition + "}\n"));
  };
  CHECK(error("bits: d, order: lbs") ==
        "p.yaml:6:23: tensors.a.order: expected one of msb, lsb, got 'lbs' (did you mean lsb?)");
  CHECK(error("one_hot: d, depth: 0") ==
        "p.yaml:6:26: tensors.a.depth: expected an integer from 1 to 2147483647, got '0'");
  CHECK(error("one_hot: d, depth: 1.0").starts_with("p.yaml:6:26: tensors.a.depth: expected an"));
  CHECK(error("take: d, axis: 1, index: [0, 1.5]") ==
        "p.yaml:6:36: tensors.a.index: expected a list of integers such as [9, 1], or an integer, "
        "got '1.5'");
  CHECK(error("slice: d, range: [0]") ==
        "p.yaml:6:24: tensors.a.range: expected a list of 2 integers such as [9, 1], got a list");
  CHECK(error("cast: d, dtype: float") ==
        "p.yaml:6:23: tensors.a.dtype: expected one of uint8, uint16, uint32, uint64, int8, int16, "
        "int32, int64, bool, float16, bfloat16, float32, float64, got 'float' (did you mean "
        "float16?)");
  CHECK(error("cast: d, dtype: int8, squeeze: 1") ==
        "p.yaml:6:38: tensors.a.squeeze: expected true or false, got '1'");
  CHECK(error("cast: d, dtype: null")
            .starts_with("p.yaml:6:23: tensors.a.dtype: expected one of uint8"));
  CHECK(error("bits: d, at: device") ==
        "p.yaml:6:20: tensors.a.at: expected worker or consumer, got 'device'");
  CHECK(error("lookup: d, table: t, at: consumer") ==
        "p.yaml:6:32: tensors.a.at: lookup runs at the worker only, got 'consumer'");
  CHECK(error("expr: d, with: {A: x}") ==
        "p.yaml:6:26: tensors.a.with: A: expected a number, got 'x'");
  CHECK(error("expr: d, with: {a.b: 1}") ==
        "p.yaml:6:23: tensors.a.with: a name is one word of at most 128 letters, digits and _");
  CHECK(error("expr: d, with: [1]").starts_with("p.yaml:6:22: tensors.a.with: expected names and"));
  CHECK(ErrorOf(Minimal("pad: {a: {multiple: 0}}\n"))
            .starts_with("p.yaml:5:21: pad.a.multiple: expected an integer"));
}

TEST_CASE("inputs are a name, or a list of names", "[tensors]") {
  const auto error = [](const std::string& definition) {
    return ErrorOf(Minimal("tensors:\n  a: {" + definition + "}\n"));
  };
  CHECK(error("bits: [d]") ==
        "p.yaml:6:13: tensors.a.bits: expected the name of a tensor, got a "
        "list");
  CHECK(error("bits: ''") ==
        "p.yaml:6:13: tensors.a.bits: expected the name of a tensor, got the text ''");
  CHECK(error("concat: d") ==
        "p.yaml:6:15: tensors.a.concat: expected a list of 1 to 1024 names "
        "such as [a, b], got 'd'");
  CHECK(error("concat: []") ==
        "p.yaml:6:15: tensors.a.concat: expected a list of 1 to 1024 names "
        "such as [a, b], got 0");
  CHECK(error("concat: [d, [e]]") ==
        "p.yaml:6:19: tensors.a.concat: expected the name of a tensor, got a list");
  CHECK(error("expr: [d]") == "p.yaml:6:13: tensors.a.expr: expected a text, got a list");
}

TEST_CASE("a required key that is missing in the end is named", "[tensors]") {
  const std::string file =
      Minimal("tensors:\n  a: {cast: d}\nvariants: {v: {tensors.a.dtype: int8}}\n");
  CHECK(ErrorOf(file).starts_with(
      "p.yaml:6:3: the key tensors.a.dtype is missing; expected one of uint8, "));
  CHECK(MustParse(file, "v").tensors().definitions.size() == 1);
}

TEST_CASE("definitions, outputs and pads have the forms of the page", "[tensors]") {
  CHECK(ErrorOf(Minimal("tensors: [a]\n")) ==
        "p.yaml:5:10: tensors: expected a map from names to definitions such as {cast: d, dtype: "
        "float32}, got a list");
  CHECK(
      ErrorOf(Minimal("tensors:\n  a: bits\n")) ==
      "p.yaml:6:6: tensors.a: expected a map with an operation and its parameters, such as {cast: "
      "d, dtype: float32}, got 'bits'");
  CHECK(ErrorOf(Minimal("tensors:\n")).starts_with("p.yaml:5:1: tensors has no value; expected a"));
  CHECK(ErrorOf(Minimal("tensors: {a: }\n")).starts_with("p.yaml:5:11: tensors.a has no value"));
  CHECK(ErrorOf(Minimal("tensors: {1a: {bits: d}}\n")) ==
        "p.yaml:5:11: tensors: a name is one word of at most 128 letters, digits and _ that begins "
        "with no digit, got '1a'");
  CHECK(ErrorOf(Minimal("tensors: {a/b: {bits: d}}\n")).find("got 'a/b'") != std::string::npos);
  const std::string longest(128, 'x');
  CHECK(
      MustParse(Minimal("tensors: {" + longest + ": {bits: d}}\n")).tensors().definitions.size() ==
      1);
  CHECK(ErrorOf(Minimal("tensors: {" + longest + "x: {bits: d}}\n"))
            .starts_with("p.yaml:5:11: tensors: a name is one word of at most 128 letters"));
  CHECK(ErrorOf(Minimal("output: a\n")) ==
        "p.yaml:5:9: output: expected a list of names such as [board, score], got 'a'");
  CHECK(ErrorOf(Minimal("output: []\n")).find("got none") != std::string::npos);
  CHECK(ErrorOf(Minimal("output: [a, [b]]\n")) ==
        "p.yaml:5:13: output: expected the name of a tensor, got a list");
  CHECK(ErrorOf(Minimal("output: [a.b, c, a/b]\n")) == "p.yaml:5:18: output: names 'a/b' twice");
  CHECK(ErrorOf(Minimal("pad: {a: 3}\n")) ==
        "p.yaml:5:10: pad.a: expected a map such as {value: 0, multiple: 8}, got '3'");
  CHECK(ErrorOf(Minimal("output: [a]\npad: {b: {}}\n")) ==
        "p.yaml:6:7: pad.b: expected the name of an output");
}

TEST_CASE("pad.graph has the size of every batch of graphs, and is about no tensor", "[tensors]") {
  const std::string padded = Minimal(
      "pad: {graph: {nodes: 64, graphs: 9, edges: 256}, a: {to: 3}, graph/x: {to: 4}}\n"
      "variants: {small: {pad.graph.nodes: 32}, plain: {pad.graph: null}}\n");
  const TensorsPart part = MustParse(padded).tensors();
  CHECK(part.graph_pad == GraphPad{64, 256, 9});
  CHECK(part.pads.size() == 2);
  CHECK(LinesOfTensors(MustParse(padded)) ==
        "pad.a={to: 3}\npad.graph.x={to: 4}\npad.graph={edges: 256, graphs: 9, nodes: 64}\n");
  CHECK(MustParse(padded, "small", {"pad.graph={graphs: 5}"}).tensors().graph_pad ==
        GraphPad{32, 256, 5});
  CHECK_FALSE(MustParse(padded, "plain").tensors().graph_pad.has_value());
  CHECK(MustParse(Minimal("pad.graph.nodes: 1\npad.graph.edges: 0\npad.graph.graphs: 1\n"))
            .tensors()
            .graph_pad == GraphPad{1, 0, 1});
}

TEST_CASE("errors in pad.graph have their place", "[tensors]") {
  const auto error = [](const std::string& keys) {
    return ErrorOf(Minimal("pad: {graph: " + keys + "}\n"));
  };
  CHECK(error("{nodes: 64, graphs: 9}") ==
        "p.yaml:5:7: the key pad.graph.edges is missing; expected an integer from 0 to 2147483647");
  CHECK(error("{}").starts_with("p.yaml:5:7: the key pad.graph.nodes is missing"));
  CHECK(error("{nodes: 0}") ==
        "p.yaml:5:22: pad.graph.nodes: expected an integer from 1 to 2147483647, got '0'");
  CHECK(error("{graphs: 2147483648}").starts_with("p.yaml:5:23: pad.graph.graphs: expected an in"));
  CHECK(error("{edges: 1.5}").starts_with("p.yaml:5:22: pad.graph.edges: expected an integer"));
  CHECK(error("{value: 3}") ==
        "p.yaml:5:15: unknown key 'pad.graph.value'; expected one of nodes, edges, graphs");
  CHECK(error("{nodes: 3, node: 3}") ==
        "p.yaml:5:25: unknown key 'pad.graph.node' (did you mean nodes?); expected one of nodes, "
        "edges, graphs");
  CHECK(error("8") ==
        "p.yaml:5:14: pad.graph: expected a map such as {nodes: 4096, edges: 16384, graphs: 65}, "
        "got '8'");
  CHECK(ErrorOf(Minimal("pad.graph: {nodes: 3}\npad.graph.nodes: 4\n")) ==
        "p.yaml:6:1: duplicate key 'pad.graph.nodes', 'pad.graph.nodes' first written at line 5");
  CHECK(
      ErrorOf(Minimal(), "", {"pad.graph.nodes=3"}) ==
      "override 'pad.graph.nodes=3': the key pad.graph.edges is missing; expected an integer from "
      "0 to 2147483647");
}

TEST_CASE("no tensor of a pipeline with pad.graph is called graph, or as a mask is", "[tensors]") {
  const std::string pad = "pad: {graph: {nodes: 64, edges: 256, graphs: 9}}\n";
  CHECK(
      ErrorOf(Minimal("tensors:\n  graph: {bits: d}\n" + pad)) ==
      "p.yaml:6:3: tensors.graph: pad.graph pads whole graphs, and no tensor; choose another name");
  for (const char* const mask : {"edge_mask", "graph_mask", "node_mask"}) {
    const std::string tensors = std::string("tensors:\n  ") + mask + ": {bits: d}\n";
    CHECK(ErrorOf(Minimal(tensors + pad)) ==
          std::string("p.yaml:6:3: tensors.") + mask +
              ": pad.graph delivers a tensor of this name; choose another one");
    MustParse(Minimal(tensors));
  }
  MustParse(Minimal("tensors:\n  graph: {bits: d}\n"));
}

TEST_CASE("the error in an expression has the place of its column", "[tensors]") {
  CHECK(ErrorOf(Minimal("tensors:\n  a: {expr: \"d + * e\"}\n")) ==
        "p.yaml:6:18: tensors.a.expr: column 5: expected a value, got '*'");
  CHECK(ErrorOf(Minimal("tensors:\n  a: {expr: 'd $'}\n"))
            .starts_with("p.yaml:6:16: tensors.a.expr: column 3: "));
  CHECK(ErrorOf(Minimal("tensors:\n  a:\n    expr: d + * e\n"))
            .starts_with("p.yaml:7:15: tensors.a.expr: column 5: "));
  // The text does not stand in the file as it is.
  CHECK(ErrorOf(Minimal("tensors:\n  a:\n    expr: |\n      d +\n      * e\n"))
            .starts_with("p.yaml:7:11: tensors.a.expr: column 5: "));
  CHECK(ErrorOf(Minimal("tensors:\n  a: {expr: \"\\u0064 + * e\"}\n"))
            .starts_with("p.yaml:6:13: tensors.a.expr: column 5: "));
  CHECK(ErrorOf(Minimal(), "", {"tensors={a: {expr: d + * e}}"})
            .starts_with("override 'tensors={a: {expr: d + * e}}': tensors.a.expr: column 5: "));
  CHECK(ErrorOf(Minimal("tensors:\n  a: {expr: ''}\n")) ==
        "p.yaml:6:14: tensors.a.expr: column 1: the expression is empty");
}

TEST_CASE("a tensor that is computed from itself is refused", "[tensors]") {
  CHECK(ErrorOf(Minimal("tensors:\n  a: {bits: b}\n  b: {stack: [d, c]}\n  c: {expr: a + 1}\n")) ==
        "p.yaml:6:3: tensors.a: is computed from itself: a <- b <- c <- a");
  CHECK(ErrorOf(Minimal("tensors:\n  a: {bits: d}\n  b: {cast: b.length, dtype: int8}\n")) ==
        "p.yaml:7:3: tensors.b: is computed from itself: b <- b");
  // A tensor of the source.
  MustParse(Minimal("tensors:\n  a: {bits: a.b}\n"));
}

TEST_CASE("a variant that is not chosen is checked as far as it goes", "[tensors]") {
  CHECK(ErrorOf(Minimal("tensors: {a: {bits: d}}\nvariants:\n  v: {tensors: {a: {odrer: lsb}}}\n"))
            .starts_with("p.yaml:7:21: unknown key 'tensors.a.odrer' (did you mean order?)"));
}

TEST_CASE("a pipeline defines at most 1024 tensors", "[tensors]") {
  std::string text = "tensors:\n";
  for (int i = 0; i < 1024; ++i) text += "  t" + std::to_string(i) + ": {bits: d}\n";
  CHECK(MustParse(Minimal(text)).tensors().definitions.size() == 1024);
  CHECK(ErrorOf(Minimal(text + "  more: {bits: d}\n")) ==
        "p.yaml:1030:10: tensors: expected at most 1024 definitions");
}

TEST_CASE("the tensors of a pipeline are a part of its plan", "[tensors]") {
  const Pipeline pipeline =
      MustParse(Minimal("tensors: {a: {bits: d, order: lsb, at: worker}}\n"
                        "output: [a]\npad: {a: {to: 3}}\n"));
  const TensorsPart part = PartsOfPipeline(pipeline)->Get<TensorsPart>();
  CHECK(part.definitions.size() == 1);
  CHECK(part.origins.contains("tensors.a.order"));
}

namespace {

/// Writes random definitions, each reading only those before it and tensors of the source.
class DefinitionWriter {
 public:
  explicit DefinitionWriter(std::uint64_t seed) : seed_(seed) {}

  std::string Write() {
    std::string text = "tensors:\n";
    const std::uint64_t count = 1 + Below(8);
    for (std::uint64_t i = 0; i < count; ++i) {
      text += "  t" + std::to_string(i) + ": " + Definition() + "\n";
      names_.push_back("t" + std::to_string(i));
    }
    if (Below(2) == 0) text += "output: [" + names_.back() + ", target/y]\n";
    if (Below(2) == 0) {
      text += "pad: {" + names_.back() + ": {value: " + Number() + ", multiple: 8}}\n";
    }
    return text;
  }

 private:
  std::uint64_t Below(std::uint64_t bound) {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return (seed_ >> 33) % bound;
  }
  std::string Name() { return names_[Below(names_.size())]; }
  std::string Number() {
    static const std::vector<std::string> numbers = {
        "0", "-7", "1.0", "1e-3", "0.1", "-0.0", "1e300", "9223372036854775807", "2.5e+10", ".5"};
    return numbers[Below(numbers.size())];
  }
  std::string After() {
    std::string keys;
    if (Below(3) == 0) keys += ", squeeze: " + std::string(Below(2) == 0 ? "true" : "false");
    if (Below(3) == 0) keys += ", shape: [2, -1]";
    if (Below(3) == 0) keys += ", scale: " + Number();
    if (Below(3) == 0) keys += ", offset: [" + Number() + ", " + Number() + "]";
    if (Below(4) == 0) keys += ", at: " + std::string(Below(2) == 0 ? "worker" : "consumer");
    return keys;
  }
  std::string Definition() {
    switch (Below(6)) {
      case 0:
        return "{bits: " + Name() + ", order: " + (Below(2) == 0 ? "msb" : "lsb") + After() + "}";
      case 1:
        return "{slice: " + Name() + ", range: [-3, 4]" + After() + "}";
      case 2:
        return "{concat: [" + Name() + ", " + Name() + "], axis: " + std::to_string(Below(3)) +
               After() + "}";
      case 3:
        return "{expr: \"" + Name() + " *\\t2 + 1\"" + After() + "}";
      case 4:
        return "{expr: " + Name() + " * K / " + Name() + ", with: {K: " + Number() + "}" + After() +
               "}";
      default:
        return "{cast: " + Name() + ", dtype: float32" + After() + "}";
    }
  }

  std::uint64_t seed_;
  std::vector<std::string> names_ = {"d", "data.length", "target/y"};
};

}  // namespace

TEST_CASE("definitions read back from the canonical text", "[tensors]") {
  rc::prop("random definitions", [](std::uint64_t seed) {
    const std::string text = DefinitionWriter(seed).Write();
    RC_LOG() << text;
    const auto parsed = ParsePipeline(Minimal(text));
    RC_ASSERT(parsed.ok());
    std::vector<std::string> overrides;
    std::string line;
    for (const char c : parsed->canonical_text()) {
      if (c != '\n') {
        line += c;
        continue;
      }
      if (!line.starts_with("semantics=")) overrides.push_back(line);
      line.clear();
    }
    // Lines in any order, because they do not depend on one another.
    std::reverse(overrides.begin(), overrides.end());
    const Pipeline again = MustParse("millrace: 1\ndataset: other\n", "", overrides);
    RC_ASSERT(again.canonical_text() == parsed->canonical_text());
    RC_ASSERT(again.digest() == parsed->digest());
  });
}

}  // namespace millrace::test
