// Tests of bits, slice, take, reshape, transpose and view.
#include <catch2/catch.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/common/operations/run_graph.h"

namespace millrace {
namespace {

using test::Dense;
using test::ErrorOf;
using test::Ints;
using test::Ragged;
using test::RunOperation;
using test::Tensor;
using Bytes = std::vector<std::uint8_t>;
using Int32s = std::vector<std::int32_t>;

Tensor Counting(const std::string& text, std::uint64_t rows) {
  const std::uint64_t unit = ParseTensorType(text).value().UnitElements();
  Int32s values(rows * unit);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
  return Dense(text, rows, values);
}

TEST_CASE("bits come with the most significant one first, or the least", "[operations]") {
  const Tensor bytes = Dense<std::uint8_t>("bytes[2]", 1, {0x81, 0x03});
  const Tensor msb = RunOperation("bits", {bytes}).value();
  CHECK(msb.TypeText() == "uint8[batch, 16]");
  CHECK(msb.Values<std::uint8_t>() == Bytes{1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1});
  const Tensor lsb = RunOperation("bits", {bytes}, {{"order", std::string("lsb")}}).value();
  CHECK(lsb.Values<std::uint8_t>() == Bytes{1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("bits of a ragged row make it eight times as long", "[operations]") {
  const Tensor bytes = Ragged<std::uint8_t>("bytes[*]", {{}, {0x80}, {1, 2}});
  const Tensor bits = RunOperation("bits", {bytes}).value();
  CHECK(bits.TypeText() == "uint8[batch, *]");
  CHECK(bits.splits == Ints{0, 0, 8, 24});
  CHECK(bits.Values<std::uint8_t>() ==
        Bytes{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0});
}

TEST_CASE("bits are of bytes, in one of two orders", "[operations]") {
  CHECK(ErrorOf("bits", {Counting("int32[2]", 1)}) ==
        "out: bits: expected uint8 with an axis besides the rows, got int32[batch, 2]");
  CHECK(ErrorOf("bits", {Dense<std::uint8_t>("uint8", 1, {1})}) ==
        "out: bits: expected uint8 with an axis besides the rows, got uint8[batch]");
  CHECK(ErrorOf("bits", {Dense<std::uint8_t>("bytes[1]", 1, {1})},
                {{"order", std::string("middle")}}) == "out: order: expected one of msb, lsb");
}

TEST_CASE("a slice counts from the end, and is not clipped", "[operations]") {
  const Tensor x = Counting("int32[4]", 2);
  CHECK(RunOperation("slice", {x}, {{"range", Ints{1, 3}}}).value().Values<std::int32_t>() ==
        Int32s{1, 2, 5, 6});
  CHECK(RunOperation("slice", {x}, {{"range", Ints{-2, 4}}}).value().Values<std::int32_t>() ==
        Int32s{2, 3, 6, 7});
  CHECK(RunOperation("slice", {x}, {{"range", Ints{-4, -3}}}).value().TypeText() ==
        "int32[batch, 1]");
  CHECK(ErrorOf("slice", {x}, {{"range", Ints{1, 5}}}) ==
        "out: range: [1, 5] is outside an axis of 4");
  CHECK(ErrorOf("slice", {x}, {{"range", Ints{-5, 2}}}) ==
        "out: range: [-5, 2] is outside an axis of 4");
  CHECK(ErrorOf("slice", {x}, {{"range", Ints{2, 2}}}) == "out: range: [2, 2] is empty");
  CHECK(ErrorOf("slice", {x}, {{"range", Ints{1}}}) ==
        "out: range: expected a list of 2 integers such as [9, 1]");
  CHECK(ErrorOf("slice", {x}) ==
        "out: range: is missing; expected a list of 2 integers such as [9, 1]");
  CHECK(ErrorOf("slice", {x}, {{"range", Ints{0, 1}}, {"axis", std::int64_t{0}}}) ==
        "out: axis: axis 0 is the rows, which stay as they are");
  CHECK(ErrorOf("slice", {x}, {{"range", Ints{0, 1}}, {"axis", std::int64_t{-2}}}) ==
        "out: axis: axis 0 is the rows, which stay as they are");
  CHECK(ErrorOf("slice", {x}, {{"range", Ints{0, 1}}, {"axis", std::int64_t{2}}}) ==
        "out: axis: int32[batch, 4] has no axis 2");
}

TEST_CASE("a slice of a ragged axis is Python's slice of each row", "[operations]") {
  const Tensor x = Ragged<std::int32_t>("int32[*]", {{}, {1}, {1, 2}, {1, 2, 3, 4, 5}});
  const Tensor head = RunOperation("slice", {x}, {{"range", Ints{0, 2}}}).value();
  CHECK(head.splits == Ints{0, 0, 1, 3, 5});
  CHECK(head.Values<std::int32_t>() == Int32s{1, 1, 2, 1, 2});
  const Tensor tail = RunOperation("slice", {x}, {{"range", Ints{-2, 100}}}).value();
  CHECK(tail.Values<std::int32_t>() == Int32s{1, 1, 2, 4, 5});
  const Tensor middle = RunOperation("slice", {x}, {{"range", Ints{1, -1}}}).value();
  CHECK(middle.splits == Ints{0, 0, 0, 0, 3});
  CHECK(middle.Values<std::int32_t>() == Int32s{2, 3, 4});
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  CHECK(RunOperation("slice", {x}, {{"range", Ints{least, 1}}}).value().splits ==
        Ints{0, 0, 1, 2, 3});
}

TEST_CASE("a ragged tensor's elements are sliced along their own axes", "[operations]") {
  const Tensor x = Ragged<std::int32_t>("int32[*, 3]", {{1, 2, 3}, {}, {4, 5, 6, 7, 8, 9}});
  const Tensor y =
      RunOperation("slice", {x}, {{"range", Ints{1, 3}}, {"axis", std::int64_t{-1}}}).value();
  CHECK(y.TypeText() == "int32[batch, *, 2]");
  CHECK(y.splits == Ints{0, 1, 1, 3});
  CHECK(y.Values<std::int32_t>() == Int32s{2, 3, 5, 6, 8, 9});
}

TEST_CASE("take gives places in any order, as numpy.take", "[operations]") {
  const Tensor x = Counting("int32[2, 3]", 1);
  const auto take = [&](ParamValue index, std::int64_t axis) {
    return RunOperation("take", {x}, {{"index", std::move(index)}, {"axis", axis}}).value();
  };
  CHECK(take(Ints{2, 0, 0, -1}, -1).Values<std::int32_t>() == Int32s{2, 0, 0, 2, 5, 3, 3, 5});
  CHECK(take(Ints{2, 0, 0, -1}, -1).TypeText() == "int32[batch, 2, 4]");
  CHECK(take(Ints{1}, 1).Values<std::int32_t>() == Int32s{3, 4, 5});
  CHECK(take(std::int64_t{-2}, 1).TypeText() == "int32[batch, 3]");
  CHECK(ErrorOf("take", {x}, {{"index", Ints{0, 2}}}) == "out: index: 2 is outside an axis of 2");
  CHECK(ErrorOf("take", {x}, {{"index", Ints{-3}}}) == "out: index: -3 is outside an axis of 2");
  CHECK(ErrorOf("take", {x}, {{"index", Ints{}}}) == "out: index: expected at least one place");
  CHECK(ErrorOf("take", {Ragged<std::int32_t>("int32[*]", {{1}})}, {{"index", Ints{0}}})
            .rfind("out: axis: axis 1 of int32[batch, *] is ragged", 0) == 0);
}

TEST_CASE("reshape keeps the values, and finds one extent", "[operations]") {
  const Tensor x = Counting("int32[2, 6]", 2);
  const Tensor y = RunOperation("reshape", {x}, {{"shape", Ints{3, -1, 2}}}).value();
  CHECK(y.TypeText() == "int32[batch, 3, 2, 2]");
  CHECK(y.Values<std::int32_t>() == x.Values<std::int32_t>());
  CHECK(
      RunOperation("reshape", {Counting("int32[1]", 2)}, {{"shape", Ints{}}}).value().TypeText() ==
      "int32[batch]");
  CHECK(ErrorOf("reshape", {x}, {{"shape", Ints{5, 2}}}) ==
        "out: shape: the fixed axes of int32[batch, 2, 6] have 12 values, and [5, 2] has another "
        "number");
  CHECK(ErrorOf("reshape", {x}, {{"shape", Ints{-1, 5}}}).find("has another number") !=
        std::string::npos);
  CHECK(ErrorOf("reshape", {x}, {{"shape", Ints{-1, -1}}}) ==
        "out: shape: extents are at least 1; one may be -1");
  CHECK(ErrorOf("reshape", {x}).rfind("out: shape: is missing", 0) == 0);
}

TEST_CASE("transpose orders the axes behind the rows", "[operations]") {
  const Tensor x = Counting("int32[2, 3]", 2);
  const Tensor y = RunOperation("transpose", {x}, {{"axes", Ints{0, 2, 1}}}).value();
  CHECK(y.TypeText() == "int32[batch, 3, 2]");
  CHECK(y.Values<std::int32_t>() == Int32s{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11});
  CHECK(
      RunOperation("transpose", {x}, {{"axes", Ints{0, -1, -2}}}).value().Values<std::int32_t>() ==
      y.Values<std::int32_t>());
  CHECK(ErrorOf("transpose", {x}, {{"axes", Ints{1, 0, 2}}}) ==
        "out: axes: axis 0 is the rows, which come first");
  CHECK(ErrorOf("transpose", {x}, {{"axes", Ints{0, 1}}}) ==
        "out: axes: expected each of the 3 axes of int32[batch, 2, 3] once");
  CHECK(ErrorOf("transpose", {x}, {{"axes", Ints{0, 1, 1}}}) ==
        "out: axes: expected each of the 3 axes of int32[batch, 2, 3] once");
  const Tensor ragged = Ragged<std::int32_t>("int32[*, 1]", {{1}});
  CHECK(ErrorOf("transpose", {ragged}, {{"axes", Ints{0, 2, 1}}}) ==
        "out: axes: axis 1 is ragged, so it stays after the rows");
}

TEST_CASE("a view reads the same bytes as another type", "[operations]") {
  const auto view = [](const Tensor& x, const std::string& dtype) {
    return RunOperation("view", {x}, {{"dtype", dtype}});
  };
  const Tensor bytes = Dense<std::uint8_t>("bytes[4]", 2, {1, 2, 3, 4, 0, 0, 0x80, 0x3f});
  CHECK(view(bytes, "uint16").value().Values<std::uint16_t>() ==
        std::vector<std::uint16_t>{0x0201, 0x0403, 0, 0x3f80});
  CHECK(view(bytes, "float32").value().Values<float>()[1] == 1);
  CHECK(view(bytes, "float32").value().TypeText() == "float32[batch, 1]");
  const Tensor words = Dense<std::int32_t>("int32[1]", 1, {-1});
  CHECK(view(words, "uint8").value().Values<std::uint8_t>() == Bytes{255, 255, 255, 255});
  CHECK(view(Counting("int32", 2), "uint32").value().TypeText() == "uint32[batch]");
  CHECK(view(Ragged<std::uint8_t>("bytes[*]", {{200}}), "int8").value().Values<std::int8_t>() ==
        std::vector<std::int8_t>{-56});
  CHECK(ErrorOf("view", {bytes}, {{"dtype", std::string("int64")}}) ==
        "out: dtype: int64 needs a fixed last axis of a multiple of 8 bytes, got uint8[batch, 4]");
  CHECK(ErrorOf("view", {bytes}, {{"dtype", std::string("int")}}) ==
        "out: dtype: 'int' is no type");
}

TEST_CASE("a view as bools is whether each byte differs from 0", "[operations]") {
  const Tensor words = Dense<std::uint16_t>("uint16[2]", 2, {0x0200, 0, 1, 0xff80});
  const Tensor bools = RunOperation("view", {words}, {{"dtype", std::string("bool")}}).value();
  CHECK(bools.TypeText() == "bool[batch, 4]");
  CHECK(bools.Values<std::uint8_t>() == Bytes{0, 1, 0, 0, 1, 0, 1, 1});
  const Tensor bytes = Ragged<std::uint8_t>("bytes[*]", {{2, 0}, {}, {255}});
  CHECK(RunOperation("view", {bytes}, {{"dtype", std::string("bool")}})
            .value()
            .Values<std::uint8_t>() == Bytes{1, 0, 1});
}

/// The error of an operation on inputs of this type, whatever their values.
std::string BindingError(const std::string& operation, TensorType type, std::size_t inputs,
                         std::map<std::string, ParamValue> params) {
  const std::vector<TensorType> types(inputs, type);
  const auto bound = BindOperation(*OperationTable::Default().Find(operation), types,
                                   Params(std::move(params)));
  return bound.ok() ? "no error" : bound.status().message();
}

TEST_CASE("an axis that would be too long is refused, also if its length wraps", "[operations]") {
  // A row of a source may have more values than one of an operation.
  TensorType type;
  type.inner = {(1U << 29) + 1};
  CHECK(BindingError("bits", type, 1, {}) ==
        "bits: expected at most 33554432 bytes in a row or element");
  type.dtype = DType::kUint64;
  CHECK(BindingError("view", type, 1, {{"dtype", std::string("uint8")}})
            .starts_with("dtype: uint8 needs a fixed last axis"));
  type.inner = {1U << 28};
  CHECK(BindingError("concat", type, 17, {}) == "concat: an axis of 4563402752 is too long");
}

TEST_CASE("operations work on no rows", "[operations]") {
  const Tensor none = Dense<std::uint8_t>("bytes[2]", 0, {});
  CHECK(RunOperation("bits", {none}).value().TypeText() == "uint8[batch, 16]");
  CHECK(RunOperation("slice", {none}, {{"range", Ints{0, 1}}}).value().bytes == 0);
  CHECK(RunOperation("take", {none}, {{"index", Ints{1, 1, 1}}}).value().bytes == 0);
  CHECK(RunOperation("transpose", {none}, {{"axes", Ints{0, 1}}}).value().bytes == 0);
  const Tensor ragged = Ragged<std::uint8_t>("bytes[*]", {});
  CHECK(RunOperation("bits", {ragged}).value().splits == Ints{0});
  CHECK(RunOperation("slice", {ragged}, {{"range", Ints{0, 1}}}).value().splits == Ints{0});
  CHECK(RunOperation("length", {ragged}).value().bytes == 0);
  CHECK(RunOperation("concat", {ragged, ragged}).value().splits == Ints{0});
  CHECK(RunOperation("stack", {none, none}).value().TypeText() == "uint8[batch, 2, 2]");
  CHECK(RunOperation("one_hot", {none}, {{"depth", std::int64_t{3}}}).value().bytes == 0);
}

}  // namespace
}  // namespace millrace
