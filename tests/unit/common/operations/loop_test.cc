// Chains of operations give the same values fused into loops as plain loops do, one operation after
// another.
#include "common/operations/loop.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/operations/after_steps.h"
#include "common/operations/program.h"
#include "tests/unit/common/operations/reference.h"
#include "tests/unit/common/operations/run_graph.h"

namespace millrace {
namespace {

using test::PlainTensor;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// In [begin, end).
  std::int64_t In(std::int64_t begin, std::int64_t end) {
    return begin + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(end - begin));
  }
  bool One(std::int64_t in) { return In(0, in) == 0; }
  std::uint64_t Word() { return engine_(); }
  DType AnyType() { return static_cast<DType>(In(0, kDTypes)); }

 private:
  std::mt19937_64 engine_;
};

/// Numbers64 that differ a lot, with ties, bounds and numbers that no other type has.
std::uint64_t AnyValue(Random& random, DType dtype) {
  const std::uint64_t word = random.Word();
  const std::uint64_t any = DTypeSize(dtype) == 8 ? word : word >> (64 - 8 * DTypeSize(dtype));
  if (dtype == DType::kBool) return word % 2;
  if (!IsFloat(dtype) || random.One(2)) {
    const std::uint64_t bits =
        random.One(2) ? any : test::PlainConvert(word % 7, DType::kInt8, dtype);
    // Payloads of NaN are of no interest.
    const bool is_nan =
        IsFloat(dtype) &&
        test::PlainConvert(bits, dtype, DType::kFloat64) ==
            test::PlainConvert(bits, dtype, DType::kFloat64) &&
        std::isnan(std::bit_cast<double>(test::PlainConvert(bits, dtype, DType::kFloat64)));
    return is_nan ? 0 : bits;
  }
  const double value = static_cast<double>(random.In(-3000, 3000)) / 8;
  return test::PlainConvert(std::bit_cast<std::uint64_t>(value), DType::kFloat64, dtype);
}

PlainTensor AnyTensor(Random& random) {
  PlainTensor tensor;
  tensor.type.dtype = random.One(2) ? DType::kUint8 : random.AnyType();
  tensor.type.ragged = random.One(3);
  const std::int64_t axes = random.In(0, 4);
  for (std::int64_t i = 0; i < axes; ++i) {
    tensor.type.inner.push_back(
        static_cast<std::uint32_t>(random.One(4) ? random.In(1, 40) : random.In(1, 6)));
  }
  tensor.rows = static_cast<std::uint64_t>(random.In(0, 7));
  std::uint64_t units = tensor.rows;
  if (tensor.type.ragged) {
    tensor.splits.push_back(0);
    for (std::uint64_t row = 0; row < tensor.rows; ++row) {
      tensor.splits.push_back(tensor.splits.back() + random.In(0, 5));
    }
    units = static_cast<std::uint64_t>(tensor.splits.back());
  }
  for (std::uint64_t i = 0; i < units * tensor.type.UnitElements(); ++i) {
    tensor.values.push_back(AnyValue(random, tensor.type.dtype));
  }
  return tensor;
}

/// One operation, and the tensor that it has to give.
struct Made {
  TensorDefinition definition;
  PlainTensor expected;
};

std::string Name(std::size_t i) { return "t" + std::to_string(i); }

/// Appends scale and dtype to an operation, now and then.
void AddValues(Random& random, std::map<std::string, ParamValue>& params, PlainTensor& out) {
  const DType from = out.type.dtype;
  const DType to = random.One(2) ? random.AnyType() : from;
  const DType compute = CommonType(from, to);
  if (to != from) params["dtype"] = std::string(DTypeName(to));
  if (compute != DType::kBool && random.One(2)) {
    const std::size_t last = out.type.inner.empty() ? 0 : out.type.inner.back();
    const std::size_t count = last != 0 && random.One(2) ? last : 1;
    std::vector<ParamNumber> scale;
    std::vector<std::uint64_t> bits;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t number = random.In(0, 4);
      const bool half = IsFloat(compute) && random.One(2);
      scale.push_back(half ? ParamNumber(-0.1 * static_cast<double>(number)) : ParamNumber(number));
      bits.push_back(
          half
              ? test::PlainConvert(std::bit_cast<std::uint64_t>(-0.1 * static_cast<double>(number)),
                                   DType::kFloat64, compute)
              : test::PlainConvert(static_cast<std::uint64_t>(number), DType::kInt64, compute));
    }
    const std::int64_t offset = random.One(2) ? 0 : 5;
    if (count == last) {
      params["scale"] = scale;
    } else if (std::holds_alternative<double>(scale[0])) {
      params["scale"] = std::get<double>(scale[0]);
    } else {
      params["scale"] = std::get<std::int64_t>(scale[0]);
    }
    if (offset != 0) params["offset"] = offset;
    const std::uint64_t plus =
        test::PlainConvert(static_cast<std::uint64_t>(offset), DType::kInt64, compute);
    for (std::size_t i = 0; i < out.values.size(); ++i) {
      const std::uint64_t value = test::PlainConvert(out.values[i], from, compute);
      out.values[i] =
          test::PlainConvert(test::PlainScale(value, bits[i % count], plus, compute), compute, to);
    }
  } else {
    out = PlainCast(out, to);
  }
  out.type.dtype = to;
}

Made AnyLayout(Random& random, const PlainTensor& in) {
  Made made{{}, in};
  std::map<std::string, ParamValue> params;
  const std::vector<std::uint32_t>& inner = in.type.inner;
  const auto first = static_cast<std::int64_t>(in.type.ragged ? 2 : 1);
  const bool has_axes = !inner.empty();
  const auto axis = static_cast<std::size_t>(
      has_axes ? random.In(0, static_cast<std::int64_t>(inner.size())) : 0);
  const std::int64_t extent = has_axes ? inner[axis] : 0;
  switch (random.In(0, 6)) {
    case 0:
      if (in.type.dtype == DType::kUint8 && in.type.rank() > 1 && in.type.UnitElements() < 4000) {
        const bool lsb = random.One(2);
        made.definition.operation = "bits";
        params["order"] = std::string(lsb ? "lsb" : "msb");
        made.expected = PlainBits(in, lsb);
      }
      break;
    case 1:
      if (has_axes) {
        const std::int64_t a = random.In(0, extent);
        const std::int64_t b = random.In(a + 1, extent + 1);
        std::vector<std::int64_t> index(static_cast<std::size_t>(b - a));
        std::iota(index.begin(), index.end(), a);
        made.definition.operation = "slice";
        params["range"] = std::vector<std::int64_t>{a - extent, b};
        params["axis"] = first + static_cast<std::int64_t>(axis);
        made.expected = PlainTake(in, axis, index);
      }
      break;
    case 2:
      if (has_axes) {
        std::vector<std::int64_t> index(static_cast<std::size_t>(random.In(1, 12)));
        for (std::int64_t& place : index) place = random.In(-extent, extent);
        made.definition.operation = "take";
        params["index"] = index;
        params["axis"] = first + static_cast<std::int64_t>(axis);
        made.expected = PlainTake(in, axis, index);
      }
      break;
    case 3: {
      std::vector<std::size_t> axes(inner.size());
      std::iota(axes.begin(), axes.end(), std::size_t{0});
      std::shuffle(axes.begin(), axes.end(), std::mt19937_64(random.Word()));
      std::vector<std::int64_t> all;
      for (std::int64_t i = 0; i < first; ++i) all.push_back(i);
      for (const std::size_t i : axes) all.push_back(first + static_cast<std::int64_t>(i));
      made.definition.operation = "transpose";
      params["axes"] = all;
      made.expected = PlainTranspose(in, axes);
      break;
    }
    case 4: {
      const DType dtype = random.AnyType();
      const std::uint64_t bytes =
          has_axes ? std::uint64_t{inner.back()} * DTypeSize(in.type.dtype) : 0;
      const bool fits = DTypeSize(dtype) == DTypeSize(in.type.dtype) ||
                        (has_axes && bytes % DTypeSize(dtype) == 0);
      if (fits && IsInteger(in.type.dtype) && IsInteger(dtype)) {
        made.definition.operation = "view";
        params["dtype"] = std::string(DTypeName(dtype));
        made.expected = PlainView(in, dtype);
      }
      break;
    }
    default:
      break;
  }
  if (made.definition.operation.empty()) {
    made.definition.operation = "reshape";
    made.expected.type.inner = {1, static_cast<std::uint32_t>(in.type.UnitElements())};
    params["shape"] = std::vector<std::int64_t>{1, -1};
  }
  if (made.definition.operation != "view" && random.One(2)) {
    AddValues(random, params, made.expected);
  }
  made.definition.params = Params(std::move(params));
  return made;
}

bool HasNan(const PlainTensor& tensor) {
  return IsFloat(tensor.type.dtype) &&
         std::any_of(tensor.values.begin(), tensor.values.end(), [&](std::uint64_t value) {
           return std::isnan(std::bit_cast<double>(
               test::PlainConvert(value, tensor.type.dtype, DType::kFloat64)));
         });
}

/// Compares values; any NaN is as good as another.
void CheckEqual(const test::Tensor& tensor, const PlainTensor& expected, const std::string& name) {
  const PlainTensor got = PlainTensor::From(tensor);
  if (got.type != expected.type) {
    RC_FAIL(name + ": " + DescribeTensorType(got.type) + ", not " +
            DescribeTensorType(expected.type));
  }
  RC_ASSERT(got.rows == expected.rows);
  RC_ASSERT(got.splits == expected.splits);
  RC_ASSERT(got.values.size() == expected.values.size());
  const auto is_nan = [&](std::uint64_t value) {
    return IsFloat(expected.type.dtype) && std::isnan(std::bit_cast<double>(test::PlainConvert(
                                               value, expected.type.dtype, DType::kFloat64)));
  };
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    if (got.values[i] == expected.values[i]) continue;
    if (is_nan(got.values[i]) && is_nan(expected.values[i])) continue;
    RC_FAIL(name + ": value " + std::to_string(i) + " of " + DescribeTensorType(expected.type) +
            " is " + std::to_string(got.values[i]) + ", not " + std::to_string(expected.values[i]));
  }
}

TEST_CASE("fused operations give what plain loops give one after another", "[loop]") {
  rc::prop("every chain of operations", [] {
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    const PlainTensor source = AnyTensor(random);
    std::vector<PlainTensor> expected = {source};
    TensorGraphText text;
    const std::int64_t count = random.In(1, 6);
    for (std::int64_t i = 0; i < count; ++i) {
      // A tree: most operations read the last tensor, and some an earlier one.
      const std::size_t last = expected.size() - 1;
      const std::size_t from =
          random.One(4)
              ? static_cast<std::size_t>(random.In(0, static_cast<std::int64_t>(last) + 1))
              : last;
      if (HasNan(expected[from]) || expected[from].values.size() > 100'000) break;
      Made made = AnyLayout(random, expected[from]);
      made.definition.name = Name(expected.size());
      made.definition.inputs = {from == 0 ? "source" : Name(from)};
      text.definitions.push_back(std::move(made.definition));
      expected.push_back(std::move(made.expected));
    }
    RC_PRE(!text.definitions.empty());
    const bool all = random.One(2);
    text.outputs.emplace();
    for (std::size_t i = 1; i < expected.size(); ++i) {
      if (all || i + 1 == expected.size()) text.outputs->push_back(Name(i));
    }
    const Result<test::NamedTensors> made =
        test::RunGraph(std::move(text), {{"source", source.ToTensor()}});
    if (!made.ok()) RC_FAIL(made.status().message());
    for (const auto& [name, tensor] : *made) {
      CheckEqual(tensor, expected[std::stoul(name.substr(1))], name);
    }
  });
}

TEST_CASE("every type is converted to every other as a plain loop does", "[loop]") {
  Random random(11);
  for (std::size_t a = 0; a < kDTypes; ++a) {
    PlainTensor in;
    in.type.dtype = static_cast<DType>(a);
    in.rows = 2500;
    for (std::uint64_t i = 0; i < in.rows; ++i)
      in.values.push_back(AnyValue(random, in.type.dtype));
    for (std::size_t b = 0; b < kDTypes; ++b) {
      const auto to = static_cast<DType>(b);
      const test::Tensor out =
          test::RunOperation("cast", {in.ToTensor()}, {{"dtype", std::string(DTypeName(to))}})
              .value();
      if (PlainTensor::From(out).values != PlainCast(in, to).values) {
        FAIL(DTypeName(in.type.dtype) << " to " << DTypeName(to));
      }
    }
  }
}

TEST_CASE("units larger than a block are done in parts", "[loop]") {
  Random random(3);
  PlainTensor in;
  in.type = ParseTensorType("uint8[3, 50, 40]").value();
  in.rows = 2;
  for (int i = 0; i < 12'000; ++i) in.values.push_back(random.Word() % 256);
  const auto run = [&](const std::string& operation, std::map<std::string, ParamValue> params) {
    return PlainTensor::From(
        test::RunOperation(operation, {in.ToTensor()}, std::move(params)).value());
  };
  const auto weights = std::vector<ParamNumber>(40, ParamNumber(0.5));
  PlainTensor scaled = PlainCast(in, DType::kFloat32);
  const std::uint64_t half = std::bit_cast<std::uint32_t>(0.5F);
  for (std::uint64_t& value : scaled.values) {
    value = test::PlainScale(value, half, 0, DType::kFloat32);
  }
  CHECK(run("cast", {{"dtype", std::string("float32")}, {"scale", weights}}).values ==
        scaled.values);
  CHECK(run("transpose", {{"axes", test::Ints{0, 2, 3, 1}}}).values ==
        PlainTranspose(in, {1, 2, 0}).values);
  CHECK(run("slice", {{"range", test::Ints{1, 3}}}).values == PlainTake(in, 0, {1, 2}).values);
  CHECK(run("bits", {}).values == PlainBits(in, false).values);
  CHECK(run("bits", {{"order", std::string("lsb")}, {"dtype", std::string("float32")}}).values ==
        PlainCast(PlainBits(in, true), DType::kFloat32).values);
}

/// Runs definitions t1, t2, … of which each reads the one before; gives the last one.
PlainTensor RunChain(const test::Tensor& source, std::vector<TensorDefinition> chain) {
  TensorGraphText text;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i].name = Name(i + 1);
    chain[i].inputs = {i == 0 ? "source" : Name(i)};
  }
  text.definitions = chain;
  text.outputs = {{Name(chain.size())}};
  return PlainTensor::From(
      test::RunGraph(text, {{"source", source}}).value().at(Name(chain.size())));
}

TensorDefinition Step(std::string operation, std::map<std::string, ParamValue> params) {
  return {"", std::move(operation), {}, Params(std::move(params))};
}

using Numbers64 = std::vector<std::uint64_t>;

TEST_CASE("offsets go with the values that are moved after them", "[loop]") {
  const test::Tensor in = test::Dense<std::uint8_t>("uint8[3]", 2, {0, 0, 0, 1, 1, 1});
  CHECK(RunChain(in, {Step("cast",
                           {{"dtype", std::string("int16")}, {"offset", test::Ints{10, 20, 30}}}),
                      Step("take", {{"index", test::Ints{2, 0, -1}}})})
            .values == Numbers64{30, 10, 30, 31, 11, 31});
}

TEST_CASE("bits of bits are bits of the bytes 0 and 1", "[loop]") {
  const test::Tensor in = test::Dense<std::uint8_t>("bytes[1]", 1, {0xa0});
  Numbers64 expected(64, 0);
  expected[7] = expected[23] = 1;
  CHECK(RunChain(in, {Step("bits", {}), Step("bits", {})}).values == expected);
}

TEST_CASE("bits of a ragged tensor are moved within a bit, not within a byte", "[loop]") {
  const test::Tensor in = test::Ragged<std::uint8_t>("bytes[*]", {{0x81}, {}, {0x7f, 0}});
  const PlainTensor out =
      RunChain(in, {Step("bits", {{"shape", test::Ints{1}}}),
                    Step("take", {{"index", test::Ints{0, 0}}, {"axis", std::int64_t{2}}})});
  CHECK(out.splits == test::Ints{0, 8, 8, 24});
  Numbers64 expected;
  for (const std::uint64_t byte : {0x81, 0x7f, 0}) {
    for (int bit = 7; bit >= 0; --bit) expected.insert(expected.end(), 2, byte >> bit & 1);
  }
  CHECK(out.values == expected);
}

TEST_CASE("bits are taken from any places, of which groups are alike or not", "[loop]") {
  Random random(8);
  PlainTensor in;
  in.type = ParseTensorType("bytes[9]").value();
  in.rows = 3;
  for (int i = 0; i < 27; ++i) in.values.push_back(random.Word() % 256);
  // Groups of eight bits: each a byte on, or a bit on, or somewhere else.
  for (const std::int64_t step : {8, 9, 1, 16, 7}) {
    test::Ints index;
    for (std::int64_t group = 0; group < 4; ++group) {
      for (std::int64_t bit = 0; bit < 8; ++bit) index.push_back(step * group + bit);
    }
    for (const std::string order : {"msb", "lsb"}) {
      for (const std::string dtype : {"uint8", "float32", "int64"}) {
        const PlainTensor out = RunChain(
            in.ToTensor(),
            {Step("bits", {{"order", order}}), Step("take", {{"index", index}, {"dtype", dtype}})});
        const PlainTensor bits = PlainTake(PlainBits(in, order == "lsb"), 0, index);
        CHECK(out.values == PlainCast(bits, *DTypeFromName(dtype)).values);
      }
    }
  }
}

TEST_CASE("values are taken from near and from far", "[loop]") {
  Random random(9);
  for (const char* const text : {"uint8[96]", "uint16[96]", "uint32[96]"}) {
    PlainTensor in;
    in.type = ParseTensorType(text).value();
    in.rows = 70;  // so that tiles are whole
    for (int i = 0; i < 70 * 96; ++i) in.values.push_back(random.Word() % 256);
    const auto bytes = static_cast<std::int64_t>(DTypeSize(in.type.dtype));
    // The last of 16 bytes lies 15, 16, 31, 32 or 33 bytes after the first.
    for (const std::int64_t last : {15, 16, 31, 32, 33}) {
      test::Ints index;
      for (std::int64_t group = 0; group < 3; ++group) {
        for (std::int64_t i = 0; i < 16 / bytes; ++i) index.push_back(8 * group + (i * 3) % 4);
        index.back() = 8 * group + (last + bytes - 1) / bytes;
        std::swap(index.back(), index[index.size() - 2]);
      }
      CHECK(RunChain(in.ToTensor(), {Step("take", {{"index", index}})}).values ==
            PlainTake(in, 0, index).values);
    }
  }
}

TEST_CASE("neighbours and groups of bits go on from block to block", "[loop]") {
  Random random(10);
  PlainTensor in;
  in.type = ParseTensorType("uint8[16, 16, 72]").value();
  in.rows = 2;
  for (int i = 0; i < 2 * 16 * 16 * 72; ++i) in.values.push_back(random.Word() % 256);
  test::Ints whole(15);
  std::iota(whole.begin(), whole.end(), 1);
  CHECK(RunChain(in.ToTensor(), {Step("slice", {{"range", test::Ints{1, 16}}})}).values ==
        PlainTake(in, 0, whole).values);
  CHECK(RunChain(in.ToTensor(),
                 {Step("slice", {{"range", test::Ints{1, 16}}, {"dtype", std::string("float64")}})})
            .values == PlainCast(PlainTake(in, 0, whole), DType::kFloat64).values);
  // 24 bits of each three bytes in an order of their own: no block has whole groups of that.
  test::Ints order;
  for (std::int64_t i = 0; i < 24; ++i) order.push_back(i * 7 % 24);
  const PlainTensor bits = PlainBits(in, false);
  PlainTensor groups = bits;
  groups.type.inner = {16, 16, 24, 24};
  for (const char* const dtype : {"uint8", "float32"}) {
    CHECK(RunChain(in.ToTensor(), {Step("bits", {{"shape", test::Ints{16, 16, 24, 24}}}),
                                   Step("take", {{"index", order},
                                                 {"axis", std::int64_t{-1}},
                                                 {"dtype", std::string(dtype)}})})
              .values == PlainCast(PlainTake(groups, 3, order), *DTypeFromName(dtype)).values);
  }
}

TEST_CASE("a large output may begin at any multiple of 8 bytes", "[loop]") {
  Random random(6);
  test::Tensor in{ParseTensorType("bytes[194]").value(), 200};
  in.Resize(200 * 194);
  for (std::uint64_t& word : in.words) word = random.Word();
  TensorGraphText text;
  text.definitions = {
      {"bits", "bits", {"source"}, Params({{"dtype", std::string("float32")}})}};
  const std::vector<float> expected =
      test::RunGraph(text, {{"source", in}}).value().at("bits").Values<float>();
  REQUIRE(expected.size() * sizeof(float) > 1 << 20);
  text.sources = {{"source", in.type}};
  const TensorGraph graph = TensorGraph::Bind(text).value();
  const std::vector<std::size_t> inputs = {0};
  const std::vector<ProgramOutput> outputs = {{1}};
  const Program program = Program::Compile(graph, inputs, outputs);
  std::vector<std::uint64_t> words(expected.size() / 2 + 2);
  for (const std::size_t first : {0, 1}) {
    ProgramRun run;
    run.read_soon = false;
    run.room = [&](std::size_t, const TensorView&) -> Result<std::span<std::byte>> {
      return std::as_writable_bytes(std::span(words))
          .subspan(8 * first, expected.size() * sizeof(float));
    };
    const std::vector<TensorView> views = {in.View()};
    ProgramMemory memory;
    REQUIRE(program.Run(views, run, memory) == OkStatus());
    CHECK(std::memcmp(words.data() + first, expected.data(), expected.size() * sizeof(float)) == 0);
  }
}

/// One row of a dense tensor.
test::Tensor RowOf(const test::Tensor& in, std::size_t row) {
  test::Tensor one{in.type, 1};
  one.Resize(in.type.UnitBytes());
  std::memcpy(one.data(), in.data() + row * one.bytes, one.bytes);
  return one;
}

TEST_CASE("a large output, which is written past the caches, is that of its rows", "[loop]") {
  Random random(5);
  const auto check = [&](const std::string& type, std::size_t rows,
                         std::vector<TensorDefinition> definitions) {
    test::Tensor in{ParseTensorType(type).value(), rows};
    in.Resize(rows * in.type.UnitBytes());
    // Small numbers, so that all of them are finite floats too.
    for (std::uint64_t& word : in.words) word = random.Word() & 0x3f3f'3f3f'3f3f'3f3f;
    const auto run = [&](const test::Tensor& tensor) {
      TensorGraphText text;
      text.definitions = definitions;
      text.outputs = {{definitions.back().name}};
      return test::RunGraph(text, {{"x", tensor}}).value().at(definitions.back().name);
    };
    const test::Tensor whole = run(in);
    REQUIRE(whole.bytes > 1 << 20);
    std::vector<std::uint8_t> joined;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::vector<std::uint8_t> values = run(RowOf(in, row)).Values<std::uint8_t>();
      joined.insert(joined.end(), values.begin(), values.end());
    }
    CHECK(whole.Values<std::uint8_t>() == joined);
  };
  const auto float32 = std::string("float32");
  for (const ParamNumber offset : {ParamNumber(std::int64_t{0}), ParamNumber(0.25)}) {
    check("bytes[194]", 401,
          {{"bits", "bits", {"x"}},
           {"planes",
            "slice",
            {"bits"},
            Params({{"range", test::Ints{0, 1536}}, {"shape", test::Ints{64, 24}}})},
           {"board",
            "take",
            {"planes"},
            Params({{"axis", std::int64_t{-1}},
                             {"index", test::Ints{3, 21, 9, 0, 4, 8, 12, 16, 20, 1, 5, 23}},
                             {"offset", std::vector<ParamNumber>(12, offset)},
                             {"dtype", float32}})}});
  }
  test::Ints places;
  for (int i = 0; i < 960; ++i) places.push_back(random.In(0, 960));
  check("float32[960]", 401, {{"y", "take", {"x"}, Params({{"index", places}})}});
  check("uint8[960]", 401, {{"y", "cast", {"x"}, Params({{"dtype", float32}})}});
  check(
      "uint8[3, 50, 40]", 67,
      {{"y",
        "transpose",
        {"x"},
        Params({{"axes", test::Ints{0, 2, 3, 1}}, {"scale", 0.5}, {"dtype", float32}})}});
  check("int16[7]", 80'003,
        {{"y",
          "reshape",
          {"x"},
          Params({{"shape", test::Ints{7}}, {"scale", std::int64_t{3}}})}});
}

}  // namespace
}  // namespace millrace
