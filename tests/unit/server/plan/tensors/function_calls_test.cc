#include "server/plan/tensors/function_calls.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "tests/unit/server/plan/text/pipeline_text.h"

namespace millrace {
namespace {

using Catch::Contains;
using Names = std::vector<std::string>;

TensorsPart PartOf(const std::string& tensors) {
  return test::MustParse(
             "millrace: 1\ndataset: d\nsource: {records: {a: 'float32[*]', n: int64}}\n"
             "batch: {size: 2, remainder: drop}\n" +
             tensors)
      .tensors();
}

FunctionCalls Found(const TensorsPart& part, const TensorReaders& readers = {}) {
  auto calls = FunctionCalls::Find(part, readers);
  INFO(calls.status().message());
  REQUIRE(calls.ok());
  return *std::move(calls);
}

Names Called(const FunctionCalls& calls) {
  Names names;
  for (const FunctionCall& call : calls.calls()) names.push_back(call.tensor);
  return names;
}

Names Defined(const TensorsPart& part) {
  Names names;
  for (const TensorDefinition& definition : part.definitions) names.push_back(definition.name);
  return names;
}

/// The tensors of the source.
std::vector<TensorSpec> Source() {
  std::vector<TensorSpec> specs(2);
  specs[0].path = "a";
  specs[1].path = "n";
  return specs;
}

const std::string kChain = R"(tensors:
  first: {python: "m:f", inputs: [z], type: "float32[*]"}
  z: {python: "m:g", inputs: [middle], type: "float32[*]"}
  middle: {expr: "b * 2"}
  b: {python: "m:h", inputs: [a], type: "float32[*]"}
)";

TEST_CASE("a pipeline without functions is left as it is", "[function_calls]") {
  const TensorsPart part = PartOf("tensors: {twice: {expr: 'a * 2'}}\n");
  const FunctionCalls calls = Found(part);
  CHECK(calls.empty());
  CHECK(Defined(calls.Rest(Source())) == Names{"twice"});
  CHECK_FALSE(calls.Rest(Source()).outputs);
}

TEST_CASE("a function comes after those that it needs, whatever their names", "[function_calls]") {
  const FunctionCalls calls = Found(PartOf(kChain));
  CHECK(Called(calls) == Names{"b", "z", "first"});
  CHECK(calls.calls()[2].needs == std::set<std::string>{"b", "z"});
  CHECK(Defined(calls.others()) == Names{"middle"});
}

TEST_CASE("what functions make is delivered unless something reads it", "[function_calls]") {
  CHECK(*Found(PartOf(kChain)).Rest(Source()).outputs == Names{"n", "first"});
}

TEST_CASE("a function whose tensors nothing reads is not called", "[function_calls]") {
  const FunctionCalls calls = Found(PartOf(kChain + "output: [b, n]\n"));
  CHECK(Called(calls) == Names{"b"});
  CHECK(Defined(calls.others()).empty());
  CHECK(*calls.Rest(Source()).outputs == Names{"b", "n"});
}

TEST_CASE("columns and mixes count as readers of what functions make", "[function_calls]") {
  const TensorsPart part = PartOf(kChain + "output: [n]\n");
  CHECK(Called(Found(part)).empty());
  CHECK(Called(Found(part, {{"b.length"}, {}})) == Names{"b"});
  CHECK(Called(Found(PartOf(kChain), {{}, std::set<std::string>{"z"}})) == Names{"b", "z"});
}

TEST_CASE("several tensors of one function have its name before theirs", "[function_calls]") {
  const FunctionCalls calls = Found(
      PartOf("tensors:\n  f: {python: 'm:f', inputs: [a], types: {x: int64, y: 'float32[*]'}}\n"
             "  g: {expr: 'f.x + 1'}\n"));
  CHECK(calls.calls().front().paths == Names{"f/x", "f/y"});
  CHECK(*calls.Rest(Source()).outputs == Names{"n", "f/y", "g"});
}

TEST_CASE("steps that follow a function become an operation of their own", "[function_calls]") {
  const FunctionCalls calls =
      Found(PartOf("tensors: {f: {python: 'm:f', inputs: [a], type: 'int16[*]', scale: 0.5, "
                   "dtype: float32}}\n"));
  CHECK(calls.calls().front().paths == Names{"f/raw"});
  REQUIRE(calls.others().definitions.size() == 1);
  const TensorDefinition& steps = calls.others().definitions.front();
  CHECK(steps.name == "f");
  CHECK(steps.operation == "cast");
  CHECK(steps.inputs == Names{"f/raw"});
  CHECK(steps.params.GetText("dtype") == "float32");
  CHECK(*calls.Rest(Source()).outputs == Names{"n", "f"});
}

TEST_CASE("steps cannot follow a function of several tensors", "[function_calls]") {
  const TensorsPart part =
      PartOf("tensors: {f: {python: 'm:f', inputs: [a], types: {x: int64, y: int64}, scale: 2}}\n");
  CHECK_THAT(FunctionCalls::Find(part, {}).status().message(),
             Contains("f.scale: several tensors"));
}

TEST_CASE("the keys of a function read back from canonical text", "[function_calls]") {
  const std::string text =
      "tensors: {f: {python: 'm:f', inputs: {x: a, y: n}, types: {p: int64}, args: {b: [1, {c: "
      "'7'}], a: 0.5}, drop: [KeyError, ValueError], timeout: 7, random: true, seed: 3}}\n";
  const TensorsPart part = PartOf(text);
  const PythonFunction function = ReadPythonFunction(part.definitions.front().params).value();
  CHECK(function.object == "m:f");
  CHECK(function.inputs.size() == 2);
  CHECK(function.args == R"({"a": 0.5, "b": [1, {"c": "7"}]})");
  CHECK(function.drop == Names{"KeyError", "ValueError"});
  CHECK(function.timeout_seconds == 7);
  CHECK(function.random);
  CHECK(function.seed == 3);
}

}  // namespace
}  // namespace millrace
