// Functions in Python that make tensors from others.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/plugin_fixture.h"

namespace millrace {
namespace {

using test::MakeTensor;
using test::PluginFixture;
using test::RowText;

/// Two inputs of three rows: x, ragged, has 2, 0 and 1 elements of two values; n has 5, 6, 7.
struct Inputs {
  TensorType x_type = MakeTensor("x", "float32[*, 2]").type;
  TensorType n_type = MakeTensor("n", "int64").type;
  std::vector<float> x{1, 2, 3, 4, 5, 6};
  std::vector<std::int64_t> splits{0, 2, 2, 3};
  std::vector<std::int64_t> n{5, 6, 7};

  PluginRequest Request() const {
    PluginRequest request;
    request.ids = {10, 11, 12};
    request.inputs = {{&x_type, 3, std::as_bytes(std::span(x)), splits},
                      {&n_type, 3, std::as_bytes(std::span(n))}};
    return request;
  }
};

std::vector<PluginTensor> TwoInputs() {
  return {MakeTensor("x", "float32[*, 2]"), MakeTensor("n", "int64")};
}

TEST_CASE("a function makes tensors of each example", "[plugin]") {
  PluginFixture fixture(R"(
      __all__ = ["f"]

      def f(x, n, factor):
          assert x.dtype == np.float32 and x.shape[1:] == (2,) and n.dtype == np.int64
          return {"y": x[::-1] * np.float32(factor), "sum": np.float64(x.sum() + n)}
  )");
  fixture.UseFunction("f", TwoInputs(),
                      {MakeTensor("y", "float32[*, 2]"), MakeTensor("sum", "float64")});
  fixture.options().object.args = R"({"factor": 10})";
  const auto pool = fixture.Start();
  const Inputs inputs;
  const auto reply = pool->Build(inputs.Request());
  REQUIRE(reply.ok());
  REQUIRE(reply->failed() == 0);
  const auto& tensors = pool->facts().tensors;
  CHECK(RowText(*reply, tensors, 0, 0) == "30 40 10 20");
  CHECK(reply->extent(0, 1) == 0);
  CHECK(RowText(*reply, tensors, 0, 2) == "50 60");
  CHECK(RowText(*reply, tensors, 1, 0) == "15");
  CHECK_FALSE(pool->facts().uses_chance);
}

TEST_CASE("a function with one result need not name it", "[plugin]") {
  PluginFixture fixture(R"(
      __all__ = ["f"]

      def f(x, n):
          return n + np.int64(1)
  )");
  fixture.UseFunction("f", TwoInputs(), {MakeTensor("m", "int64")});
  const auto pool = fixture.Start();
  const Inputs inputs;
  const auto reply = pool->Build(inputs.Request());
  REQUIRE(reply.ok());
  CHECK(RowText(*reply, pool->facts().tensors, 0, 2) == "8");
}

TEST_CASE("a function for a whole batch gets all rows", "[plugin]") {
  PluginFixture fixture(R"(
      __all__ = ["f"]

      def f(x, n):
          assert isinstance(x, list) and n.shape == (3,)
          return {"y": [one * 2 for one in x], "m": n * 2}
  )");
  fixture.UseFunction("f", TwoInputs(),
                      {MakeTensor("y", "float32[*, 2]"), MakeTensor("m", "int64")});
  fixture.options().object.per_batch = true;
  const auto pool = fixture.Start();
  const Inputs inputs;
  const auto reply = pool->Build(inputs.Request());
  REQUIRE(reply.ok());
  const auto& tensors = pool->facts().tensors;
  CHECK(RowText(*reply, tensors, 0, 0) == "2 4 6 8");
  CHECK(RowText(*reply, tensors, 0, 2) == "10 12");
  CHECK(RowText(*reply, tensors, 1, 1) == "12");
}

TEST_CASE("a call for a whole batch that fails fails all rows", "[plugin]") {
  const auto [body, expected] = GENERATE(table<std::string, std::string>({
      {"raise ValueError('all of them')", "ValueError: all of them"},
      {"os._exit(2)", "the process ended with exit code 2"},
      {"time.sleep(1e6)", "it takes more than 0.6 s (timeout)"},
      {"return n.astype(np.int32)", "tensor \"m\": int32[3], expected int64 in every row"},
      {"return n[:2]", "tensor \"m\": 2 rows in place of 3, expected int64"},
      {"return {'k': n}", "tensor \"m\": a dict is no array, expected int64 in every row"},
  }));
  INFO(body);
  PluginFixture fixture("import os, time\n__all__ = ['f']\ndef f(x, n):\n    " + body + "\n");
  fixture.UseFunction("f", TwoInputs(), {MakeTensor("m", "int64")});
  fixture.options().object.per_batch = true;
  if (body.starts_with("time.sleep")) {
    fixture.options().object.timeout = std::chrono::milliseconds(200);  // of each of three
  }
  const auto pool = fixture.Start();
  const Inputs inputs;
  const auto reply = pool->Build(inputs.Request());
  REQUIRE(reply.ok());
  REQUIRE(reply->failed() == 3);
  for (std::size_t row = 0; row < 3; ++row) {
    CHECK(FailureLine(reply->failure(row)) == expected);
    CHECK(reply->failure(row).tries == 2);
  }
}

TEST_CASE("rows that are tried again get their own inputs", "[plugin]") {
  PluginFixture fixture(R"(
      import os
      __all__ = ["f"]

      def f(x, n):
          path = os.path.join(os.environ["STATE"], "tried%d" % n)
          if n != 5 and not os.path.exists(path):
              open(path, "w").close()
              os._exit(1)
          return {"y": x, "m": n}
  )");
  fixture.UseFunction("f", TwoInputs(),
                      {MakeTensor("y", "float32[*, 2]"), MakeTensor("m", "int64")});
  fixture.options().plugin.env["STATE"] = fixture.copies().parent_path().string();
  const auto pool = fixture.Start();
  const Inputs inputs;
  const auto reply = pool->Build(inputs.Request());
  REQUIRE(reply.ok());
  REQUIRE(reply->failed() == 0);
  const auto& tensors = pool->facts().tensors;
  CHECK(RowText(*reply, tensors, 0, 0) == "1 2 3 4");
  CHECK(reply->extent(0, 1) == 0);
  CHECK(RowText(*reply, tensors, 0, 2) == "5 6");
  CHECK(RowText(*reply, tensors, 1, 1) == "6");
  CHECK(RowText(*reply, tensors, 1, 2) == "7");
  CHECK_FALSE(reply->column(1).has_value());
}

TEST_CASE("inputs cannot be changed", "[plugin]") {
  PluginFixture fixture(R"(
      __all__ = ["f"]

      def f(x, n):
          x += 1
          return n
  )");
  fixture.UseFunction("f", TwoInputs(), {MakeTensor("m", "int64")});
  const auto pool = fixture.Start();
  const Inputs inputs;
  const auto reply = pool->Build(inputs.Request());
  REQUIRE(reply.ok());
  REQUIRE(reply->failed() == 3);
  CHECK(FailureLine(reply->failure(0)) == "ValueError: output array is read-only");
}

TEST_CASE("functions get generators if they have an argument for them", "[plugin]") {
  const bool per_batch = GENERATE(false, true);
  const bool cut = GENERATE(false, true);
  PluginFixture fixture(R"(
      __all__ = ["each", "all"]

      def each(x, n, rng):
          return rng.integers(1 << 60)

      def all(x, n, rngs):
          return [rng.integers(1 << 60) for rng in rngs]
  )");
  fixture.UseFunction(per_batch ? "all" : "each", TwoInputs(), {MakeTensor("m", "int64")});
  fixture.options().object.per_batch = per_batch;
  fixture.options().object.chance = {3, "ab", "m"};
  const auto pool = fixture.Start();
  CHECK(pool->facts().uses_chance);
  const Inputs inputs;
  PluginRequest request = inputs.Request();
  request.ids = {7, 7, 8};
  request.epochs = {1, 0, 0};
  if (cut) request.chunks = {0, 4, 5};
  const auto reply = pool->Build(request);
  REQUIRE(reply.ok());
  REQUIRE(reply->failed() == 0);
  // numpy 1.24: Generator(Philox(key=[low, high])).integers(1 << 60) for the keys of
  // "3/1/7/ab/m/", "3/0/7/ab/m/" and "3/0/8/ab/m/", or with the numbers of the chunks at their end.
  std::vector<std::int64_t> drawn(3);
  for (std::size_t row = 0; row < 3; ++row) {
    std::memcpy(&drawn[row], reply->values(0, row).data(), 8);
  }
  CHECK(drawn == (cut ? std::vector<std::int64_t>{980904263688127999, 787847535282508989, 737267263847551471}
                      : std::vector<std::int64_t>{712586318017264672, 265530935138069031, 983839668467336324}));
}

TEST_CASE("inputs that are not as declared are refused", "[plugin]") {
  PluginFixture fixture(R"(
      __all__ = ["f"]

      def f(x, n):
          return n
  )");
  fixture.UseFunction("f", TwoInputs(), {MakeTensor("m", "int64")});
  const auto pool = fixture.Start();
  const Inputs inputs;
  PluginRequest request = inputs.Request();
  SECTION("one is missing") {
    request.inputs.pop_back();
    CHECK(pool->Build(request).status().message() == "plugin:f: 1 inputs, expected 2");
  }
  SECTION("another type") {
    std::swap(request.inputs[0], request.inputs[1]);
    CHECK(pool->Build(request).status().message() ==
          "plugin:f: the input x is int64 with 3 rows, expected float32[*, 2] with 3");
  }
  SECTION("another number of rows") {
    request.ids.pop_back();
    CHECK(pool->Build(request).status().message() ==
          "plugin:f: the input x is float32[*, 2] with 3 rows, expected float32[*, 2] with 2");
  }
}

TEST_CASE("every type goes in and comes out", "[plugin]") {
  const std::string type = GENERATE("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16",
                                    "int32", "int64", "float16", "bfloat16", "float32", "float64",
                                    "bool[3]", "bool[*]", "uint16[*, 2, 3]", "float16[*]");
  PluginFixture fixture(R"(
      __all__ = ["f"]

      def f(x):
          return x
  )");
  const PluginTensor tensor = MakeTensor("x", type);
  fixture.UseFunction("f", {tensor}, {MakeTensor("y", type)});
  const auto pool = fixture.Start();
  std::vector<std::byte> values(2 * tensor.type.UnitBytes());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = tensor.type.dtype == DType::kBool ? std::byte(i % 2) : std::byte(i + 1);
  }
  const std::vector<std::int64_t> splits{0, 0, 2};
  PluginRequest request;
  request.ids = {0, 1};
  request.inputs = {{&tensor.type, 2, values}};
  if (tensor.type.ragged) request.inputs[0].splits = splits;
  const auto reply = pool->Build(request);
  REQUIRE(reply.ok());
  REQUIRE(reply->failed() == 0);
  std::vector<std::byte> got;
  for (std::size_t row = 0; row < 2; ++row) {
    const auto bytes = reply->values(0, row);
    got.insert(got.end(), bytes.begin(), bytes.end());
  }
  CHECK(got == values);
}

}  // namespace
}  // namespace millrace
