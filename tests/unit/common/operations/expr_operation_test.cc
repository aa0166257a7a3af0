// Tests of the operation expr.
#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/common/expr/golden_expr.h"
#include "tests/unit/common/operations/run_graph.h"

namespace millrace {
namespace {

using test::Dense;
using test::Ints;
using test::NamedTensors;
using test::Ragged;
using test::RunGraph;
using test::Tensor;
using NamedNumbers = std::map<std::string, ParamNumber>;
using Reals = std::vector<float>;
using Doubles = std::vector<double>;

/// The tensor "out" of an expression. Its inputs are those that the text names.
Result<Tensor> RunExpr(const std::string& expression, const NamedTensors& sources,
                       std::map<std::string, ParamValue> params = {}) {
  params.emplace("expr", expression);
  TensorDefinition definition{"out", "expr", {}, Params(std::move(params))};
  const OperationType& operation = *OperationTable::Default().Find("expr");
  MILLRACE_ASSIGN_OR_RETURN(definition.inputs, operation.inputs_of(definition.params));
  TensorGraphText text;
  text.definitions.push_back(definition);
  text.outputs = {{"out"}};
  MILLRACE_ASSIGN_OR_RETURN(NamedTensors made, RunGraph(text, sources));
  return made.at("out");
}

std::string ExprError(const std::string& expression, const NamedTensors& sources,
                      std::map<std::string, ParamValue> params = {}) {
  const Result<Tensor> result = RunExpr(expression, sources, std::move(params));
  return result.ok() ? "no error" : result.status().message();
}

TEST_CASE("an expression names its inputs, and its numbers stand under with", "[operations]") {
  const NamedTensors sources = {{"s", Dense<std::int64_t>("int64", 3, {-400, 0, 7})},
                                {"mate", Dense<std::uint8_t>("uint8", 3, {0, 1, 1})}};
  const NamedNumbers with = {{"A", 0.5}, {"K", std::int64_t{400}}};
  const Tensor y = RunExpr("mate ? sign(s) : A * s / K", sources, {{"with", with}}).value();
  CHECK(y.TypeText() == "float64[batch]");
  CHECK(y.Values<double>() == Doubles{-0.5, 0, 1});
}

TEST_CASE("the steps after an expression are as after any operation", "[operations]") {
  const NamedTensors sources = {{"x", Dense<std::int32_t>("int32[1]", 2, {3, 4})}};
  const Tensor y = RunExpr("x * x", sources,
                           {{"squeeze", true}, {"scale", 0.5}, {"dtype", std::string("float32")}})
                       .value();
  CHECK(y.TypeText() == "float32[batch]");
  CHECK(y.Values<float>() == Reals{4.5, 8});
}

TEST_CASE("one value a row spreads over rows of any extents", "[operations]") {
  const Tensor factor = Dense<std::int64_t>("int64", 2, {10, 100});
  const Tensor wide = Dense<std::int16_t>("int16[2, 2]", 2, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor y = RunExpr("f * x", {{"f", factor}, {"x", wide}}).value();
  CHECK(y.TypeText() == "int64[batch, 2, 2]");
  CHECK(y.Values<std::int64_t>() == Ints{10, 20, 30, 40, 500, 600, 700, 800});
}

TEST_CASE("one value a row spreads over ragged rows of any elements", "[operations]") {
  const Tensor factor = Dense<std::int64_t>("int64", 4, {10, 20, 30, 40});
  const Tensor flat = Ragged<std::int64_t>("int64[*]", {{1, 2}, {}, {}, {3}});
  const Tensor y = RunExpr("f * x", {{"f", factor}, {"x", flat}}).value();
  CHECK(y.TypeText() == "int64[batch, *]");
  CHECK(y.splits == Ints{0, 2, 2, 2, 3});
  CHECK(y.Values<std::int64_t>() == Ints{10, 20, 120});

  const Tensor pairs = Ragged<std::int64_t>("int64[*, 2]", {{1, 2, 3, 4}, {}, {5, 6}, {7, 8}});
  const Tensor z = RunExpr("x + f", {{"f", factor}, {"x", pairs}}).value();
  CHECK(z.TypeText() == "int64[batch, *, 2]");
  CHECK(z.splits == pairs.splits);
  CHECK(z.Values<std::int64_t>() == Ints{11, 12, 13, 14, 35, 36, 47, 48});
}

TEST_CASE("lengths are names in an expression", "[operations]") {
  const Tensor data = Ragged<float>("float32[*]", {{1, 2}, {}, {3}});
  const Tensor y = RunExpr("data / data.length", {{"data", data}}).value();
  CHECK(y.TypeText() == "float64[batch, *]");
  CHECK(y.Values<double>() == Doubles{0.5, 1, 3});
}

TEST_CASE("an expression over no rows has none", "[operations]") {
  const Tensor y = RunExpr("x + 1", {{"x", Dense<std::int64_t>("int64[3]", 0, {})}}).value();
  CHECK(y.rows == 0);
  CHECK(y.TypeText() == "int64[batch, 3]");
  const Tensor z = RunExpr("x + 1", {{"x", Ragged<std::int64_t>("int64[*]", {})}}).value();
  CHECK(z.splits == Ints{0});
}

TEST_CASE("rows of an expression agree in their extents", "[operations]") {
  const NamedTensors sources = {{"a", Dense<std::int64_t>("int64[2]", 1, {1, 2})},
                                {"b", Dense<std::int64_t>("int64[3]", 1, {1, 2, 3})},
                                {"c", Ragged<std::int64_t>("int64[*]", {{1, 2}})},
                                {"d", Ragged<std::int64_t>("int64[*, 2]", {{1, 2, 3, 4}})}};
  CHECK(ExprError("a + b", sources) ==
        "out: expr: a is int64[batch, 2], and b is int64[batch, 3]; expected rows of the same "
        "extents, or of one value");
  CHECK(ExprError("c * a", sources) ==
        "out: expr: c is int64[batch, *], and a is int64[batch, 2]; expected rows of the same "
        "extents, or of one value");
  CHECK_THAT(ExprError("c * d", sources), Catch::Contains("d is int64[batch, *, 2]"));
  CHECK(ExprError("d - a", sources) ==
        "out: expr: d is int64[batch, *, 2], and a is int64[batch, 2]; expected rows of the same "
        "extents, or of one value");
}

TEST_CASE("ragged tensors of other lengths are found when values are there", "[operations]") {
  const NamedTensors sources = {{"n", Dense<std::int64_t>("int64", 2, {1, 2})},
                                {"a", Ragged<std::int64_t>("int64[*]", {{1, 2}, {3}})},
                                {"b", Ragged<std::int64_t>("int64[*]", {{1, 2}, {3, 4}})}};
  CHECK(ExprError("n + a * b", sources) ==
        "out: expr: a and b have different lengths from row 1 on");
  CHECK(RunExpr("n + a * a", sources).value().Values<std::int64_t>() == Ints{2, 5, 11});
}

TEST_CASE("rows of an expression's inputs are the same rows", "[operations]") {
  Tensor nodes = Dense<std::int64_t>("int64", 1, {1});
  nodes.type.rows = "nodes";
  const NamedTensors sources = {{"x", Dense<std::int64_t>("int64", 1, {1})}, {"n", nodes}};
  CHECK_THAT(ExprError("x + n", sources),
             Catch::StartsWith("out: expr: the inputs have different"));
}

TEST_CASE("errors in an expression have their columns", "[operations]") {
  const NamedTensors sources = {{"x", Dense<float>("float32", 1, {1})}};
  CHECK_THAT(ExprError("x + * 2", sources), Catch::StartsWith("expr: column 5: "));
  CHECK_THAT(ExprError("1 + x // 2", sources), Catch::StartsWith("out: expr: column 7: "));
  CHECK(ExprError("y + x", sources) == "out: there is no tensor 'y'");
}

TEST_CASE("an expression of numbers alone has a value for each example", "[operations]") {
  Tensor nodes = Dense<std::int64_t>("int64", 1, {1});
  nodes.type.rows = "nodes";
  const Tensor data = Ragged<std::int64_t>("int64[*]", {{1, 2}, {}});
  const Tensor y =
      RunExpr("1 + 2 * K", {{"a", nodes}, {"x", data}}, {{"with", NamedNumbers{{"K", 0.5}}}})
          .value();
  CHECK(y.TypeText() == "float64[batch]");
  CHECK(y.Values<double>() == Doubles{2, 2});
  CHECK(ExprError("1 + 2", {{"a", nodes}}) ==
        "out: names no tensor, and the source has none with a row for each example");
}

TEST_CASE("a number's name in with is one word", "[operations]") {
  const NamedTensors sources = {{"x", Dense<float>("float32", 1, {1})}};
  for (const char* name : {"a.b", "1", "a b", ""}) {
    const NamedNumbers with = {{name, std::int64_t{1}}};
    CHECK_THAT(ExprError("x", sources, {{"with", with}}), Catch::StartsWith("with: a name is one"));
  }
}

TEST_CASE("an expression is bound to as many inputs as it names", "[operations]") {
  const std::vector<TensorType> inputs(2);
  const auto bound = BindOperation(*OperationTable::Default().Find("expr"), inputs,
                                   Params({{"expr", std::string("x * x")}}));
  CHECK(bound.status().message() == "expr: the expression names 1 tensors, got 2 inputs");
}

TEST_CASE("the operation gives the recorded values of expressions", "[operations][golden]") {
  const test::GoldenJson golden = test::ReadGoldenExpressions();
  NamedTensors sources;
  for (const test::Column& column : test::GoldenColumns(golden)) {
    const TensorType type{column.input.dtype};
    Tensor& tensor = sources[column.input.name];
    tensor.type = type;
    tensor.rows = column.bytes.size() / type.UnitBytes();
    tensor.Resize(column.bytes.size());
    std::memcpy(tensor.data(), column.bytes.data(), column.bytes.size());
  }
  NamedNumbers with;
  for (const auto& [name, number] : test::GoldenConstants(golden)) with.emplace(name, number);
  for (const test::GoldenJson& one : golden["cases"]) {
    const auto expression = one["expr"].get<std::string>();
    INFO(expression);
    const Result<Tensor> made = RunExpr(expression, sources, {{"with", with}});
    REQUIRE(made.status() == OkStatus());
    CHECK(DTypeName(made->type.dtype) == one["dtype"].get<std::string>());
    test::CheckValues(one, made->type.dtype, {made->data(), made->data() + made->bytes});
  }
  for (const test::GoldenJson& one : golden["errors"]) {
    const auto expression = one["expr"].get<std::string>();
    INFO(expression);
    const std::string error = ExprError(expression, sources, {{"with", with}});
    CHECK_THAT(error, Catch::Contains(one["about"].get<std::string>()));
  }
}

}  // namespace
}  // namespace millrace
