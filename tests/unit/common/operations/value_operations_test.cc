// Tests of cast, one_hot, concat, stack, length, lookup and pad, and of the steps after operations.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/operations/after_steps.h"
#include "common/operations/pad.h"
#include "tests/unit/common/operations/run_graph.h"

namespace millrace {
namespace {

using test::Dense;
using test::ErrorOf;
using test::Ints;
using test::Ragged;
using test::RunGraph;
using test::RunOperation;
using test::Tensor;
using Bytes = std::vector<std::uint8_t>;
using Int32s = std::vector<std::int32_t>;
using Reals = std::vector<float>;
using Weights = std::vector<ParamNumber>;

const std::string kFloat32 = "float32";

TEST_CASE("cast converts by the rules of values", "[operations]") {
  const Tensor x = Dense<double>("float64", 4, {-1.9, 300, std::nan(""), 7.5});
  CHECK(
      RunOperation("cast", {x}, {{"dtype", std::string("uint8")}}).value().Values<std::uint8_t>() ==
      Bytes{0, 255, 0, 7});
  const Tensor y = Dense<std::int32_t>("int32", 3, {-1, 256, 3});
  CHECK(
      RunOperation("cast", {y}, {{"dtype", std::string("uint8")}}).value().Values<std::uint8_t>() ==
      Bytes{255, 0, 3});
  CHECK(
      RunOperation("cast", {y}, {{"dtype", std::string("bool")}}).value().Values<std::uint8_t>() ==
      Bytes{1, 1, 1});
  CHECK(ErrorOf("cast", {y}).rfind("out: dtype: is missing", 0) == 0);
  CHECK(ErrorOf("cast", {y}, {{"dtype", std::string("float")}}).rfind("out: dtype: expected", 0) ==
        0);
}

TEST_CASE("the common type of two has the values of both", "[operations]") {
  const auto common = [](const char* a, const char* b) {
    const DType type = CommonType(*DTypeFromName(a), *DTypeFromName(b));
    CHECK(type == CommonType(*DTypeFromName(b), *DTypeFromName(a)));
    return std::string(DTypeName(type));
  };
  CHECK(common("uint8", "uint8") == "uint8");
  CHECK(common("uint8", "int8") == "int16");
  CHECK(common("uint16", "int32") == "int32");
  CHECK(common("uint32", "int8") == "int64");
  CHECK(common("uint64", "int64") == "int64");
  CHECK(common("bool", "int8") == "int8");
  CHECK(common("uint16", "float32") == "float32");
  CHECK(common("int32", "float32") == "float64");
  CHECK(common("bool", "float32") == "float32");
  CHECK(common("int64", "float16") == "float64");
  CHECK(common("float16", "bfloat16") == "float32");
  CHECK(common("float32", "float64") == "float64");
}

TEST_CASE("a scale and an offset are computed in the common type", "[operations]") {
  const Tensor x = Dense<std::uint8_t>("uint8[2]", 2, {0, 1, 2, 255});
  const Tensor y = RunOperation("cast", {x},
                                {{"dtype", kFloat32},
                                 {"scale", Weights{std::int64_t{-1}, 0.5}},
                                 {"offset", std::int64_t{1}}})
                       .value();
  CHECK(y.Values<float>() == Reals{1, 1.5, -1, 128.5});
  // The product wraps in the tensor's type, as there is no other.
  const Tensor z =
      RunOperation("reshape", {x}, {{"shape", Ints{2}}, {"scale", std::int64_t{2}}}).value();
  CHECK(z.Values<std::uint8_t>() == Bytes{0, 2, 4, 254});
  const Tensor w = Dense<std::int32_t>("int32", 1, {16777217});
  CHECK(RunOperation("cast", {w}, {{"dtype", kFloat32}, {"scale", std::int64_t{3}}})
            .value()
            .Values<float>() == Reals{50331652});
}

TEST_CASE("a scale leaves no negative zero", "[operations]") {
  const Tensor x = Dense<std::uint8_t>("uint8", 2, {0, 1});
  const Reals scaled = RunOperation("cast", {x}, {{"dtype", kFloat32}, {"scale", std::int64_t{-1}}})
                           .value()
                           .Values<float>();
  CHECK(scaled == Reals{0, -1});
  CHECK_FALSE(std::signbit(scaled[0]));
  const Tensor bits = RunOperation("bits", {Dense<std::uint8_t>("bytes[1]", 1, {1})},
                                   {{"dtype", kFloat32}, {"scale", std::int64_t{-1}}})
                          .value();
  CHECK_FALSE(std::signbit(bits.Values<float>()[0]));
  CHECK(bits.Values<float>()[7] == -1);
  const Tensor negative = Dense<float>("float32", 1, {-0.F});
  CHECK(std::signbit(RunOperation("cast", {negative}, {{"dtype", std::string("float64")}})
                         .value()
                         .Values<double>()[0]));
}

TEST_CASE("a NaN that is computed is always the same one", "[operations]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = Dense<double>("float64", 4, {infinity, -infinity, std::nan("7"), -std::nan("")});
  const auto bits = [&](ParamValue scale) {
    return RunOperation("cast", {x},
                        {{"dtype", std::string("float64")}, {"scale", std::move(scale)}})
        .value()
        .Values<std::uint64_t>();
  };
  const std::vector<std::uint64_t> all(4, 0x7ff8000000000000);
  CHECK(bits(std::int64_t{0}) == all);
  CHECK(bits(1.5)[2] == all[2]);
  CHECK(bits(1.5)[3] == all[3]);
  const Tensor y = Dense<float>("float32", 1, {std::numeric_limits<float>::infinity()});
  CHECK(RunOperation("cast", {y}, {{"dtype", kFloat32}, {"scale", std::int64_t{0}}})
            .value()
            .Values<std::uint32_t>() == std::vector<std::uint32_t>{0x7fc00000});
}

TEST_CASE("squeeze, shape, scale and dtype come in this order", "[operations]") {
  const Tensor x = Dense<std::int32_t>("int32[2, 2, 1]", 1, {1, 2, 3, 4});
  const Tensor y = RunOperation("cast", {x},
                                {{"squeeze", true},
                                 {"shape", Ints{1, 4}},
                                 {"scale", Ints{1, 10, 100, 1000}},
                                 {"dtype", std::string("int64")}})
                       .value();
  CHECK(y.TypeText() == "int64[batch, 1, 4]");
  CHECK(y.Values<std::int64_t>() == Ints{1, 20, 300, 4000});
  CHECK(ErrorOf(
            "cast", {x},
            {{"shape", Ints{4}}, {"squeeze", true}, {"dtype", kFloat32}, {"scale", Ints{1, 2}}}) ==
        "out: scale: expected one number, or one for each element of the last axis of int32[batch, "
        "4], got 2");
  CHECK(ErrorOf("reshape", {x}, {{"shape", Ints{4}}, {"scale", 0.5}}) ==
        "out: scale: the values are computed as int32, which has no 0.5; write another dtype");
  CHECK(ErrorOf("reshape", {Dense<std::uint8_t>("uint8[1]", 1, {1})},
                {{"shape", Ints{1}}, {"offset", std::int64_t{-1}}}) ==
        "out: offset: the values are computed as uint8, which has no -1; write another dtype");
  CHECK(ErrorOf("reshape", {Dense<std::uint8_t>("bool[1]", 1, {1})},
                {{"shape", Ints{1}}, {"scale", std::int64_t{1}}}) ==
        "out: scale: a bool has no products and sums; write a dtype");
  CHECK(ErrorOf("cast", {Dense<std::uint8_t>("uint8[2]", 1, {1, 2})},
                {{"dtype", kFloat32}, {"squeeze", true}}) ==
        "out: squeeze: expected a last fixed axis of extent 1, got uint8[batch, 2]");
  CHECK(ErrorOf("cast", {x}, {{"dtype", kFloat32}, {"size", std::int64_t{1}}}) ==
        "out: size: there is no such parameter");
}

TEST_CASE("a scale may be any number of the type that it is computed in", "[operations]") {
  const Tensor x = Dense<std::int8_t>("int8[2]", 1, {1, 0});
  const auto scaled = [&](const char* name, std::int64_t number) {
    return RunOperation("reshape", {x}, {{"shape", Ints{2}}, {name, number}});
  };
  CHECK(scaled("scale", -128).value().Values<std::int8_t>() == std::vector<std::int8_t>{-128, 0});
  CHECK(scaled("offset", 127).value().Values<std::int8_t>() == std::vector<std::int8_t>{-128, 127});
  CHECK(scaled("scale", -129).status().message().starts_with("out: scale: the values"));
  CHECK(scaled("offset", 128).status().message().starts_with("out: offset: the values"));
}

TEST_CASE("a scale is a finite number, or a list of such that is not empty", "[operations]") {
  const Tensor x = Dense<float>("float32[2]", 1, {1, 2});
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string expected = "out: scale: expected a number, or a list of numbers";
  CHECK(ErrorOf("cast", {x}, {{"dtype", kFloat32}, {"scale", Weights{}}}) == expected);
  CHECK(ErrorOf("cast", {x}, {{"dtype", kFloat32}, {"scale", Ints{}}}) == expected);
  CHECK(ErrorOf("cast", {x}, {{"dtype", kFloat32}, {"scale", infinity}}) == expected);
  CHECK(ErrorOf("cast", {x}, {{"dtype", kFloat32}, {"scale", Weights{0.5, -infinity}}}) ==
        expected);
  CHECK(ErrorOf("cast", {x}, {{"dtype", kFloat32}, {"offset", std::nan("")}}) ==
        "out: offset: expected a number, or a list of numbers");
}

TEST_CASE("one_hot gives zeros for -1, and refuses other numbers outside", "[operations]") {
  const Tensor x = Dense<std::int32_t>("int32[2]", 2, {0, 2, -1, 1});
  const Tensor y = RunOperation("one_hot", {x}, {{"depth", std::int64_t{3}}}).value();
  CHECK(y.TypeText() == "uint8[batch, 2, 3]");
  CHECK(y.Values<std::uint8_t>() == Bytes{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0});
  CHECK(RunOperation("one_hot", {x}, {{"depth", std::int64_t{3}}, {"dtype", kFloat32}})
            .value()
            .Values<float>()[0] == 1);
  CHECK(ErrorOf("one_hot", {x}, {{"depth", std::int64_t{2}}}) ==
        "out: one_hot: expected numbers from -1 to 1, got 2");
  CHECK(ErrorOf("one_hot", {Dense<std::int32_t>("int32", 1, {-2})}, {{"depth", std::int64_t{2}}}) ==
        "out: one_hot: expected numbers from -1 to 1, got -2");
  CHECK(ErrorOf("one_hot", {Dense<std::uint64_t>("uint64", 1, {~std::uint64_t{0}})},
                {{"depth", std::int64_t{2}}}) ==
        "out: one_hot: expected numbers from -1 to 1, got 18446744073709551615");
  CHECK(ErrorOf("one_hot", {Dense<float>("float32", 1, {1})}, {{"depth", std::int64_t{2}}}) ==
        "out: one_hot: expected integers, got float32[batch]");
  CHECK(ErrorOf("one_hot", {x}, {{"depth", std::int64_t{0}}}) ==
        "out: depth: expected an integer from 1 to 2147483647");
}

TEST_CASE("concat puts tensors one after another along any axis but the rows", "[operations]") {
  const Tensor a = Dense<std::int32_t>("int32[2, 1]", 2, {1, 2, 3, 4});
  const Tensor b = Dense<std::int32_t>("int32[2, 2]", 2, {10, 11, 12, 13, 14, 15, 16, 17});
  const Tensor wide = RunOperation("concat", {a, b}, {{"axis", std::int64_t{-1}}}).value();
  CHECK(wide.TypeText() == "int32[batch, 2, 3]");
  CHECK(wide.Values<std::int32_t>() == Int32s{1, 10, 11, 2, 12, 13, 3, 14, 15, 4, 16, 17});
  const Tensor high = RunOperation("concat", {a, a}).value();
  CHECK(high.Values<std::int32_t>() == Int32s{1, 2, 1, 2, 3, 4, 3, 4});
  CHECK(ErrorOf("concat", {a, b}) ==
        "out: concat: int32[batch, 2, 1] and int32[batch, 2, 2] differ in more than the extent of "
        "the axis");
}

TEST_CASE("concat along a ragged axis joins the rows", "[operations]") {
  const Tensor a = Ragged<std::int32_t>("int32[*]", {{1}, {}, {2, 3}});
  const Tensor b = Ragged<std::int32_t>("int32[*]", {{4, 5}, {6}, {}});
  const Tensor joined = RunOperation("concat", {a, b}).value();
  CHECK(joined.splits == Ints{0, 3, 4, 6});
  CHECK(joined.Values<std::int32_t>() == Int32s{1, 4, 5, 6, 2, 3});
  const Tensor pairs = Ragged<std::int32_t>("int32[*, 2]", {{1, 2}, {}, {3, 4}});
  const Tensor triples = Ragged<std::int32_t>("int32[*, 3]", {{1, 2, 3}, {}, {}});
  CHECK(ErrorOf("concat", {pairs, triples}) ==
        "out: concat: int32[batch, *, 2] and int32[batch, *, 3] differ in more than the extent of "
        "the axis");
}

TEST_CASE("stack makes a new axis", "[operations]") {
  const Tensor a = Dense<std::int32_t>("int32[2]", 2, {1, 2, 3, 4});
  const Tensor b = Dense<std::int32_t>("int32[2]", 2, {5, 6, 7, 8});
  CHECK(RunOperation("stack", {a, b}).value().Values<std::int32_t>() ==
        Int32s{1, 2, 5, 6, 3, 4, 7, 8});
  CHECK(
      RunOperation("stack", {a, b}, {{"axis", std::int64_t{-1}}}).value().Values<std::int32_t>() ==
      Int32s{1, 5, 2, 6, 3, 7, 4, 8});
  CHECK(ErrorOf("stack", {a, b}, {{"axis", std::int64_t{0}}}) ==
        "out: axis: expected an axis from 1 to 2, got 0");
  CHECK(ErrorOf("stack", {a, Dense<float>("float32[2]", 2, {1, 2, 3, 4})}) ==
        "out: stack: expected inputs of one type, got int32[batch, 2] and float32[batch, 2]");
  CHECK(ErrorOf("stack", {a, Dense<std::int32_t>("int32[3]", 2, {1, 2, 3, 4, 5, 6})}) ==
        "out: stack: expected inputs of one type, got int32[batch, 2] and int32[batch, 3]");
  CHECK(ErrorOf("stack", {a, b}, {{"axis", std::int64_t{3}}}) ==
        "out: axis: expected an axis from 1 to 2, got 3");
}

TEST_CASE("ragged tensors are stacked if their rows are as long", "[operations]") {
  const Tensor a = Ragged<std::int32_t>("int32[*]", {{1}, {2, 3}});
  const Tensor b = Ragged<std::int32_t>("int32[*]", {{4}, {5, 6}});
  const Tensor c = Ragged<std::int32_t>("int32[*]", {{4, 5}, {6}});
  const Tensor both = RunOperation("stack", {a, b}, {{"axis", std::int64_t{2}}}).value();
  CHECK(both.TypeText() == "int32[batch, *, 2]");
  CHECK(both.splits == Ints{0, 1, 3});
  CHECK(both.Values<std::int32_t>() == Int32s{1, 4, 2, 5, 3, 6});
  CHECK(ErrorOf("stack", {a, c}, {{"axis", std::int64_t{2}}}) ==
        "out: stack: the inputs have different lengths from row 0 on");
}

TEST_CASE("length is the number of elements of each row", "[operations]") {
  const Tensor x = Ragged<std::int32_t>("int32[*, 2]", {{}, {1, 2}, {1, 2, 3, 4}});
  const Tensor y = RunOperation("length", {x}).value();
  CHECK(y.TypeText() == "int64[batch]");
  CHECK(y.Values<std::int64_t>() == Ints{0, 1, 2});
  CHECK(ErrorOf("length", {y}) == "out: length: expected a ragged tensor, got int64[batch]");
}

TEST_CASE("lookup gives rows of a table by number", "[operations]") {
  const Tensor table = Dense<float>("float32[2]", 3, {0, 1, 10, 11, 20, 21});
  const LookupTables tables = {{"weights", table.View()}};
  const auto lookup = [&](const Tensor& x, const std::string& name) {
    return RunOperation("lookup", {x}, {{"table", name}}, tables);
  };
  const Tensor y = lookup(Dense<std::uint8_t>("uint8", 2, {2, 0}), "weights").value();
  CHECK(y.TypeText() == "float32[batch, 2]");
  CHECK(y.Values<float>() == Reals{20, 21, 0, 1});
  CHECK(lookup(Dense<std::uint8_t>("uint8", 1, {3}), "weights").status().message() ==
        "out: lookup: 'weights' has 3 rows, and a number is 3");
  CHECK(lookup(Dense<std::int8_t>("int8", 1, {-1}), "weights").status().message() ==
        "out: lookup: 'weights' has 3 rows, and a number is -1");
  CHECK(lookup(Dense<std::int8_t>("int8", 1, {0}), "other").status().message() ==
        "out: table: there is no table or array 'other'");
  CHECK(lookup(Dense<float>("float32", 1, {0}), "weights").status().message() ==
        "out: lookup: expected integers, got float32[batch]");
  const Tensor ragged = Ragged<float>("float32[*]", {{1}, {}});
  CHECK(RunOperation("lookup", {Dense<std::int8_t>("int8", 1, {0})},
                     {{"table", std::string("words")}}, {{"words", ragged.View()}})
            .status()
            .message() == "out: table: the rows of 'words' are ragged");
}

TEST_CASE("lookup finds bools that are neither 0 nor 1", "[operations]") {
  const Tensor flags = Dense<std::uint8_t>("bool[2]", 3, {0, 1, 1, 2, 0, 0});
  const LookupTables tables = {{"flags", flags.View()}};
  const auto lookup = [&](std::int32_t row) {
    return RunOperation("lookup", {Dense<std::int32_t>("int32", 1, {row})},
                        {{"table", std::string("flags")}}, tables);
  };
  CHECK(lookup(0).value().Values<std::uint8_t>() == Bytes{0, 1});
  CHECK(lookup(2).ok());
  CHECK(lookup(1).status().message() ==
        "out: lookup: row 1 of 'flags' has a bool that is neither 0 nor 1");
}

/// Pads the tensor "x"; gives x and x.length.
Result<test::NamedTensors> RunPad(const Tensor& x, std::map<std::string, ParamValue> params,
                                  std::optional<std::uint32_t> bound = std::nullopt) {
  TensorGraphText text;
  text.pads.emplace("x", Params(std::move(params)));
  return RunGraph(text, {{"x", x}}, {}, bound);
}

TEST_CASE("pad makes a ragged tensor dense and keeps its lengths", "[operations]") {
  const Tensor x = Ragged<std::int32_t>("int32[*]", {{1, 2, 3}, {}, {4}});
  const test::NamedTensors plain = RunPad(x, {}).value();
  CHECK(plain.at("x").TypeText() == "int32[batch, 3]");
  CHECK(plain.at("x").Values<std::int32_t>() == Int32s{1, 2, 3, 0, 0, 0, 4, 0, 0});
  CHECK(plain.at("x.length").Values<std::int64_t>() == Ints{3, 0, 1});
  const test::NamedTensors four =
      RunPad(x, {{"value", std::int64_t{-1}}, {"multiple", std::int64_t{4}}}).value();
  CHECK(four.at("x").Values<std::int32_t>() == Int32s{1, 2, 3, -1, -1, -1, -1, -1, 4, -1, -1, -1});
  const test::NamedTensors five = RunPad(x, {{"to", std::int64_t{5}}}).value();
  CHECK(five.at("x").TypeText() == "int32[batch, 5]");
  CHECK(RunPad(x, {{"to", std::string("bound")}}, 4).value().at("x").TypeText() ==
        "int32[batch, 4]");
  // The longest row may be as long as that.
  CHECK(RunPad(x, {{"to", std::int64_t{3}}}).value().at("x").Values<std::int32_t>() ==
        plain.at("x").Values<std::int32_t>());
  CHECK(RunPad(x, {{"to", std::string("bound")}}, 3).value().at("x").TypeText() ==
        "int32[batch, 3]");
}

TEST_CASE("pad refuses an extent beyond any axis", "[operations]") {
  const TensorType type = ParseTensorType("uint8[*]").value();
  const Ints splits = {0, kMaxExtent};
  const TensorView view = {&type, 1, {}, splits};
  const auto extent = [&](std::int64_t multiple) {
    return Pad::Bind(type, Params({{"multiple", multiple}})).value().Extent(view, {});
  };
  CHECK(extent(1).value() == kMaxExtent);
  CHECK(extent(2).status().message() == "pad: the multiple is beyond any extent");
}

TEST_CASE("padding of wide elements and of no rows", "[operations]") {
  const Tensor x = Ragged<std::uint8_t>("uint8[*, 3]", {{1, 2, 3}, {}});
  CHECK(RunPad(x, {{"value", std::int64_t{7}}, {"to", std::int64_t{2}}})
            .value()
            .at("x")
            .Values<std::uint8_t>() == Bytes{1, 2, 3, 7, 7, 7, 7, 7, 7, 7, 7, 7});
  const Tensor none = Ragged<std::uint8_t>("uint8[*]", {});
  CHECK(RunPad(none, {}).value().at("x").TypeText() == "uint8[batch, 0]");
  CHECK(RunPad(none, {{"to", std::int64_t{8}}}).value().at("x").TypeText() == "uint8[batch, 8]");
  CHECK(RunPad(none, {{"to", std::string("bound")}}).value().at("x").TypeText() ==
        "uint8[batch, 0]");
  CHECK(RunPad(none, {{"to", std::string("bound")}}, 5).value().at("x").TypeText() ==
        "uint8[batch, 0]");
  const Tensor empty = Ragged<std::uint8_t>("uint8[*]", {{}, {}});
  CHECK(RunPad(empty, {}).value().at("x").TypeText() == "uint8[batch, 0]");
}

TEST_CASE("pad refuses rows and values that do not fit", "[operations]") {
  const Tensor x = Ragged<std::uint8_t>("uint8[*]", {{1}, {1, 2, 3}});
  const auto error = [&](std::map<std::string, ParamValue> params) {
    return RunPad(x, std::move(params)).status().message();
  };
  CHECK(error({{"to", std::int64_t{2}}}) ==
        "x: pad: row 1 of the batch has 3 elements, more than 2");
  CHECK(error({{"to", std::string("bound")}}) ==
        "x: pad: to: bound: no bucket holds all examples of the batch");
  CHECK(RunPad(x, {{"to", std::string("bound")}}, 2).status().message() ==
        "x: pad: row 1 of the batch has 3 elements, more than 2, the bound of its bucket");
  CHECK(error({{"value", std::int64_t{256}}}) == "x: value: is no uint8");
  CHECK(error({{"value", 0.5}}) == "x: value: is no uint8");
  CHECK(error({{"to", std::int64_t{9}}, {"multiple", std::int64_t{8}}}) ==
        "x: to: 9 is no multiple of 8");
  CHECK(RunPad(Dense<float>("float32[2]", 1, {1, 2}), {}).status().message() ==
        "x: pad: expected a ragged tensor, got float32[batch, 2]");
}

}  // namespace
}  // namespace millrace
