// The compute kernel, run by the CPU, gives what a program on the host gives.
#include "common/expand/compute_program.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/expand/compute_kernel.h"
#include "tests/unit/common/expand/compare_batches.h"
#include "tests/unit/common/expand/delivery_data.h"
#include "tests/unit/common/expand/device_run.h"
#include "tests/unit/common/expand/every_cast.h"
#include "tests/unit/common/expand/random_program.h"

namespace millrace {
namespace {

using test::DeviceRun;
using test::FirstDifference;
using test::SameBytes;

/// Runs a random program in micro-batches; gives the number of tasks that the device had.
std::size_t CheckProgram(std::uint64_t seed, std::size_t graphs, DType index_dtype,
                         std::size_t micro) {
  test::RandomProgramOptions options;
  options.rows = graphs;
  options.host_operations = seed % 3 == 0;
  BufferPool pool;
  const test::RandomProgram program = test::MakeRandomProgram(seed, pool, options);
  const auto delivery = Delivery::Make(program.tensors, program.text, index_dtype);
  RC_ASSERT(delivery.ok());
  std::size_t tasks = 0;
  for (std::size_t index = 0; index < micro; ++index) {
    const RowRange rows = RowsOfMicroBatch(program.packed->examples(), index, micro);
    const auto compared = test::CompareWithHost(*program.packed, *delivery, rows);
    RC_TAG(compared.host.ok() ? "good" : "wrong values");
    if (!compared.difference.empty()) {
      RC_FAIL(compared.difference + "\n" + test::Describe(program));
    }
    tasks += compared.tasks;
  }
  return tasks;
}

TEST_CASE("the compute kernel writes the same bytes as a program on the host",
          "[compute][kernel]") {
  std::size_t tasks = 0;
  rc::prop("any program, any rows", [&] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto graphs = *rc::gen::inRange<std::size_t>(0, 12);
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const auto micro = *rc::gen::inRange<std::size_t>(1, 4);
    for (std::uint64_t more = 0; more < 3; ++more) {
      tasks += CheckProgram(seed + more, graphs, index_dtype, micro);
    }
  });
  CHECK(tasks > 500);
}

TEST_CASE("every type is converted and scaled to every other as on the host", "[compute][kernel]") {
  BufferPool pool;
  const test::RandomProgram program = test::EveryCast(1, 3000, pool);
  const auto delivery = Delivery::Make(program.tensors, program.text, DType::kInt32);
  REQUIRE(delivery.ok());
  const ExpandLayout layout = LayOutExpanded(*program.packed, *delivery).value();
  const auto expected = Expand(*program.packed, *delivery, pool);
  REQUIRE(expected.ok());
  DeviceRun run(*program.packed, layout);
  REQUIRE(run.Run().ok());
  CHECK_FALSE(run.error());
  if (!SameBytes(run.bytes(), (*expected)->bytes())) {
    FAIL(FirstDifference(*program.packed, layout, run.bytes(), (*expected)->bytes()));
  }
}

TEST_CASE("tiles of a level may be done in any order, by any number of threads",
          "[compute][kernel]") {
  BufferPool pool;
  test::RandomProgramOptions options;
  options.rows = 1500;
  options.wrong_values = false;
  std::uint64_t most_tiles = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const test::RandomProgram program = test::MakeRandomProgram(seed, pool, options);
    const auto delivery = Delivery::Make(program.tensors, program.text, DType::kInt32);
    REQUIRE(delivery.ok());
    const auto layout = LayOutExpanded(*program.packed, *delivery);
    REQUIRE(layout.ok());
    if (layout->computed.empty()) continue;
    const auto expected = Expand(*program.packed, *delivery, pool);
    REQUIRE(expected.ok());
    DeviceRun run(*program.packed, *layout);
    REQUIRE(run.Run([&](const kernel::ComputeLaunch& launch) {
                 most_tiles = std::max(most_tiles, launch.tiles);
                 constexpr std::uint32_t kThreads = 7;
                 for (std::uint64_t tile = launch.tiles; tile-- > 0;) {
                   for (std::uint32_t thread = kThreads; thread-- > 0;) {
                     kernel::RunTile(launch, tile, thread, kThreads);
                   }
                 }
               })
                .ok());
    CHECK_FALSE(run.error());
    CHECK_FALSE(run.wrote_outside());
    if (!SameBytes(run.bytes(), (*expected)->bytes())) {
      FAIL(FirstDifference(*program.packed, *layout, run.bytes(), (*expected)->bytes())
           << "\n"
           << test::Describe(program));
    }
  }
  CHECK(most_tiles > 100);
}

/// Whether all elements of the tile with element `i` lie where division says.
bool DividesTile(std::uint64_t i, std::uint64_t extent) {
  const std::uint64_t begin = i / kernel::kTileElements * kernel::kTileElements;
  const std::uint64_t end = begin + kernel::kTileElements;
  const kernel::Units units({begin, end, 0, 1}, extent);
  for (i = begin; i < end; ++i) {
    const kernel::Units::At at = units.Of(i);
    if (at.unit != i / extent || at.place != i % extent) return false;
  }
  return true;
}

TEST_CASE("elements lie in the units that division says, for any extent", "[compute][kernel]") {
  rc::prop("every element of a tile", [] {
    const auto bits = *rc::gen::inRange(0, 63);
    const std::uint64_t extent =
        1 + (*rc::gen::arbitrary<std::uint64_t>() & ((std::uint64_t{1} << bits) - 1));
    RC_ASSERT(DividesTile(*rc::gen::arbitrary<std::uint64_t>() >> 5, extent));
  });
  constexpr std::uint64_t kNarrow = std::uint64_t{1} << 31;
  for (const std::uint64_t extent :
       {kNarrow - 1, kNarrow, kNarrow + 1, 2 * kNarrow - 1, 2 * kNarrow + 5}) {
    CHECK(DividesTile(extent - 1, extent));
    CHECK(DividesTile(extent, extent));
    CHECK(DividesTile(7 * extent, extent));
  }
}

TEST_CASE("operations that follow one another are one task", "[compute]") {
  BufferPool pool;
  const auto packed = test::PackRows(test::RandomRows(1, 9), pool);
  const Delivery delivery = test::ComputedDelivery(
      {test::Defined("bits", "bits", {"d"}),
       test::Defined("part", "slice", {"bits"}, {{"range", test::Ints{3, 33}}}),
       test::Defined("planes", "reshape", {"part"}, {{"shape", test::Ints{10, 3}}}),
       test::Defined("board", "take", {"planes"},
                     {{"axis", std::int64_t{-1}},
                      {"index", test::Ints{2, 0}},
                      {"scale", std::vector<ParamNumber>{std::int64_t{1}, 0.5}},
                      {"dtype", std::string("float32")}})},
      {"board"});
  const ExpandLayout layout = LayOutExpanded(*packed, delivery).value();
  DeviceRun run(*packed, layout);
  REQUIRE(run.Run().ok());
  CHECK(SameBytes(run.bytes(), (*Expand(*packed, delivery, pool))->bytes()));
  REQUIRE(run.program().levels.size() == 1);
  REQUIRE(run.program().tasks.size() == 2);
  CHECK(run.program().tasks[0].op == kernel::ComputeOp::kSelect);
  CHECK(run.program().tasks[1].op == kernel::ComputeOp::kFill);
  CHECK(run.program().scratch_bytes == 0);
  CHECK(run.program().tables.empty());
  CHECK(run.device().host_outputs().empty());
  CHECK(run.device().HostRuns(layout).empty());
}

TEST_CASE("values that move together move as wide words", "[compute]") {
  const auto word = [](const char* type, const char* operation,
                       std::map<std::string, ParamValue> params) {
    TensorGraphText text;
    text.sources = {{"x", ParseTensorType(type).value()}};
    text.definitions = {test::Defined("y", operation, {"x"}, std::move(params))};
    text.outputs = {{"y"}};
    const TensorGraph graph = TensorGraph::Bind(text).value();
    const std::size_t input = 0;
    const ProgramOutput output{1};
    const ComputeSteps steps =
        MakeComputeSteps(ProgramPlan::Of(graph, std::span(&input, 1), std::span(&output, 1)));
    return static_cast<int>(steps.steps.at(0).word);
  };
  CHECK(word("uint8[32]", "slice", {{"range", test::Ints{8, 24}}}) == 8);
  CHECK(word("uint8[32]", "slice", {{"range", test::Ints{4, 24}}}) == 4);
  CHECK(word("uint8[32]", "slice", {{"range", test::Ints{2, 24}}}) == 2);
  CHECK(word("uint8[32]", "slice", {{"range", test::Ints{1, 9}}}) == 1);
  CHECK(word("uint8[33]", "slice", {{"range", test::Ints{0, 32}}}) == 1);  // rows begin anywhere
  CHECK(word("uint8[12]", "slice", {{"range", test::Ints{0, 8}}}) == 4);
  CHECK(word("float32[4]", "slice", {{"range", test::Ints{1, 3}}}) == 4);
  CHECK(word("uint8[4]", "take", {{"index", test::Ints{1, 0, 3, 2}}}) == 1);
  CHECK(word("uint8[*, 6]", "slice", {{"range", test::Ints{0, 2}}}) == 2);  // of rows
}

/// Checks that the host says this of a batch, and that the kernel notices.
void CheckWrong(const PackedBatch& packed, const Delivery& delivery, StatusCode code) {
  BufferPool pool;
  const auto expected = Expand(packed, delivery, pool);
  REQUIRE_FALSE(expected.ok());
  CHECK(expected.status().code() == code);
  const auto layout = LayOutExpanded(packed, delivery);
  REQUIRE(layout.ok());
  DeviceRun run(packed, *layout);
  REQUIRE(run.Run().ok());
  CHECK(run.error());
  CHECK_FALSE(run.wrote_outside());
  CHECK(WhatIsWrong(packed, *layout) == expected.status());
}

TEST_CASE("a number that one_hot has no place for sets the error word", "[compute]") {
  BufferPool pool;
  const Delivery delivery = test::ComputedDelivery(
      {test::Defined("wide", "cast", {"s"},
                     {{"dtype", std::string("int32")}, {"offset", std::int64_t{-3}}}),
       test::Defined("hot", "one_hot", {"wide"}, {{"depth", std::int64_t{4}}})},
      {"hot"});
  auto rows = test::RandomRows(1, 3);
  for (auto& row : rows) row.s = 3;
  for (const int good : {2, 3, 6}) {  // -1, 0 and 3
    rows[1].s = static_cast<std::uint16_t>(good);
    const auto packed = test::PackRows(rows, pool);
    const auto layout = LayOutExpanded(*packed, delivery).value();
    DeviceRun run(*packed, layout);
    REQUIRE(run.Run().ok());
    CHECK_FALSE(run.error());
    CHECK(SameBytes(run.bytes(), (*Expand(*packed, delivery, pool))->bytes()));
  }
  for (const int bad : {1, 7, 5000}) {
    rows[1].s = static_cast<std::uint16_t>(bad);
    CheckWrong(*test::PackRows(rows, pool), delivery, StatusCode::kDataLoss);
  }
}

TEST_CASE("a place beyond every signed number is none of one_hot's", "[compute]") {
  std::vector<TensorSpec> tensors(1);
  tensors[0].path = "x";
  tensors[0].dimension = "batch";
  tensors[0].dtype = DType::kUint64;
  tensors[0].max = DTypeMax(DType::kUint64);
  tensors[0].expansion = Expansion::kKeep;
  BufferPool pool;
  auto writer = BatchWriter::Create(tensors, {}, pool).value();
  writer.Begin({}, 0, 0, 1);
  const std::uint64_t last = ~std::uint64_t{0};  // -1, if it were signed
  writer.AppendBytes(0, std::as_bytes(std::span(&last, 1)));
  writer.EndExample(ExampleId(0));
  TensorGraphText text;
  text.definitions = {test::Defined("hot", "one_hot", {"x"}, {{"depth", std::int64_t{4}}})};
  text.outputs = {{"hot"}};
  CheckWrong(*writer.Seal().value(), Delivery::Make(tensors, text, DType::kInt32).value(),
             StatusCode::kDataLoss);
}

TEST_CASE("a bool that is neither 0 nor 1 sets the error word, whoever reads it", "[compute]") {
  BufferPool pool;
  const auto packed = test::PackRows(test::RandomRows(1, 5), pool);
  const auto copy = test::CopyOf(packed->bytes(), pool);
  const auto at = static_cast<std::size_t>(packed->tensor_bytes(6).data() - packed->bytes().data());
  copy->data()[at + 3] = std::byte{2};
  const auto damaged = PackedBatch::Parse(copy, packed->bytes().size()).value();
  const Delivery cast = test::ComputedDelivery(
      {test::Defined("x", "cast", {"flag"}, {{"dtype", std::string("int8")}})}, {"x"});
  CheckWrong(*damaged, cast, StatusCode::kDataLoss);
  const Delivery view = test::ComputedDelivery(
      {test::Defined("x", "view", {"flag"}, {{"dtype", std::string("uint8")}})}, {"x"});
  CheckWrong(*damaged, view, StatusCode::kDataLoss);
  // The bad one is not among these rows.
  const ExpandLayout layout = LayOutExpanded(*damaged, cast, RowRange{0, 3}).value();
  DeviceRun run(*damaged, layout);
  REQUIRE(run.Run().ok());
  CHECK_FALSE(run.error());
}

TEST_CASE("a padded number that int32 does not have sets the error word", "[compute]") {
  const DType dtype = GENERATE(DType::kUint32, DType::kUint64, DType::kInt64);
  std::vector<TensorSpec> tensors(2);
  tensors[0].path = tensors[0].dimension = "big";
  tensors[0].kind = TensorKind::kRaggedValues;
  tensors[0].dtype = dtype;
  tensors[0].min = DTypeMin(dtype);
  tensors[0].max = DTypeMax(dtype);
  tensors[0].splits = tensors[1].path = "big_splits";
  tensors[1].kind = TensorKind::kSplits;
  tensors[1].max = 255;
  tensors[1].dimension = "batch+1";
  TensorGraphText text;
  text.outputs = {{"big"}};
  text.pads = {{"big", {}}};
  const Delivery delivery = Delivery::Make(tensors, text, DType::kInt32).value();
  BufferPool pool;
  const auto pack = [&](std::int64_t value) {
    auto writer = BatchWriter::Create(tensors, {}, pool).value();
    writer.Begin({}, 0, 0, 2);
    writer.AppendOne(0, 5);
    writer.EndExample(ExampleId(0));
    writer.AppendOne(0, 7);
    writer.AppendOne(0, value);
    writer.EndExample(ExampleId(1));
    return writer.Seal().value();
  };
  if (dtype != DType::kInt64 || delivery.computation()->narrowed()[0]) {
    CheckWrong(*pack(std::int64_t{1} << 31), delivery, StatusCode::kOutOfRange);
  }
  const auto packed = pack((std::int64_t{1} << 31) - 1);
  const ExpandLayout layout = LayOutExpanded(*packed, delivery).value();
  DeviceRun run(*packed, layout);
  REQUIRE(run.Run().ok());
  CHECK_FALSE(run.error());
  CHECK(SameBytes(run.bytes(), (*Expand(*packed, delivery, pool))->bytes()));
}

}  // namespace
}  // namespace millrace
