// How a device and its host share what a delivery computes.
#include "common/expand/device_computation.h"

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <rapidcheck/catch.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/operations/consumer_program.h"
#include "tests/unit/common/expand/delivery_data.h"
#include "tests/unit/common/expand/device_run.h"
#include "tests/unit/common/expand/padded_model.h"
#include "tests/unit/common/expand/random_program.h"

namespace millrace {
namespace {

using test::ComputedDelivery;
using test::DeviceRun;
using test::SameBytes;

TEST_CASE("host and device share a delivery, and no bytes are computed twice", "[compute]") {
  BufferPool pool;
  const auto packed = test::PackRows(test::RandomRows(1, 6), pool);
  // By their names: both (host), head (device), part (device), twice (host).
  const Delivery delivery =
      ComputedDelivery(test::DeliveryDefinitions(), {"twice", "part", "both", "head", "s"});
  const ExpandLayout layout = LayOutExpanded(*packed, delivery).value();
  DeviceRun run(*packed, layout);
  REQUIRE(run.Run().ok());
  CHECK(SameBytes(run.bytes(), (*Expand(*packed, delivery, pool))->bytes()));
  CHECK(run.device().host_outputs() == std::vector<std::string>{"both", "twice"});
  const auto runs = run.device().HostRuns(layout);
  REQUIRE(runs.size() == 2);  // each has the values and the splits of one tensor
  CHECK(runs[0].from == 0);
  CHECK(runs[0].to == layout.computed[0].offset);
  CHECK(runs[0].bytes == layout.computed[2].offset - layout.computed[0].offset);
  CHECK(runs[1].from == runs[0].bytes);
  CHECK(runs[1].to + runs[1].bytes == layout.bytes);
}

TEST_CASE("a device and its host fill rows of padding as the host alone does",
          "[compute][kernel][graph_padding]") {
  std::size_t mixed = 0;    // device and host both had work, and no value was wrong
  std::size_t refused = 0;  // a value was wrong, or the batch did not fit
  rc::prop("any program, any batch, any room, in micro-batches", [&] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const test::ModelBatch model =
        test::WithEdgeValues(test::RandomGraphs(seed, *rc::gen::inRange(0, 12)));
    const auto micro = *rc::gen::inRange<std::size_t>(1, 4);
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const GraphPad pad = test::RoomForMicroBatches(model, micro);
    BufferPool pool;
    for (std::uint64_t more = 0; more < 3; ++more) {
      const test::RandomProgram program = test::MakeRandomProgram(
          seed + more, model, pool, {.wrong_values = *rc::gen::arbitrary<bool>()});
      const auto delivery = test::PaddedDelivery(program, index_dtype, pad);
      RC_ASSERT(delivery.ok());
      for (std::size_t index = 0; index < micro; ++index) {
        const RowRange rows = RowsOfMicroBatch(program.packed->examples(), index, micro);
        const auto compared = test::CompareWithHost(*program.packed, *delivery, rows);
        if (!compared.difference.empty()) {
          RC_FAIL(compared.difference + "\n" + test::Describe(program));
        }
        if (!compared.host.ok()) ++refused;
        if (compared.host.ok() && compared.tasks > 0 && compared.host_outputs > 0) ++mixed;
      }
    }
  });
  CHECK(mixed > 50);
  CHECK(refused > 5);
}

TEST_CASE("a device and its host compute tensors of a merged batch as the host alone does",
          "[compute][kernel]") {
  std::size_t on_device = 0;
  std::size_t good = 0;
  rc::prop("any program, any batch", [&] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const test::ModelBatch model =
        test::Merged(test::WithEdgeValues(test::RandomGraphs(seed, *rc::gen::inRange(0, 12))));
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    BufferPool pool;
    for (std::uint64_t more = 0; more < 3; ++more) {
      const test::RandomProgram program = test::MakeRandomProgram(
          seed + more, model, pool, {.wrong_values = *rc::gen::arbitrary<bool>()});
      const auto delivery = Delivery::Make(program.tensors, program.text, index_dtype);
      if (!delivery.ok()) RC_FAIL(delivery.status().ToString());
      const auto compared =
          test::CompareWithHost(*program.packed, *delivery, {0, program.packed->examples()});
      if (!compared.difference.empty()) {
        RC_FAIL(compared.difference + "\n" + test::Describe(program));
      }
      if (compared.host.ok()) ++good;
      if (compared.tasks > 0) ++on_device;
    }
  });
  CHECK(good > 50);
  CHECK(on_device > 50);
}

TEST_CASE("tensors of a merged batch are computed by graph, node, edge and example", "[compute]") {
  test::ModelBatch model;
  model.plan.expand = {1, Symmetrization::kDirected, false};
  test::ModelExample example;
  example.graphs = {{{7, 8}, {{0, 1, 0}}}};
  model.examples.assign(3, example);
  for (std::uint64_t id = 0; id < 3; ++id) model.examples[id].id = 10 + id;
  BufferPool pool;
  model = test::Merged(std::move(model));
  const auto packed = test::Pack(model, pool);
  TensorGraphText text;
  text.outputs.emplace();
  for (const auto& [name, input, expr] :
       {std::array{"of_graph", "graph_size", "graph_size * 2"},
        std::array{"of_node", "node_label", "node_label + 1"},
        std::array{"of_example", "example_id", "example_id - 10"}}) {
    text.definitions.push_back(
        {name, "expr", {input}, Params({{"expr", std::string(expr)}})});
    text.outputs->emplace_back(name);
  }
  const auto delivery = Delivery::Make(test::Tensors(model.plan), std::move(text), DType::kInt32);
  INFO(delivery.status().message());
  REQUIRE(delivery.ok());
  const auto batch = Expand(*packed, *delivery, pool);
  INFO(batch.status().message());
  REQUIRE(batch.ok());
  using Numbers = std::vector<std::int64_t>;
  const DeliveredTensor& of_graph = *(*batch)->Find("of_graph");
  CHECK(of_graph.shape == std::vector<std::uint64_t>{1, 2});
  CHECK(of_graph.dimensions == std::vector<std::string>{"graphs", "2"});
  CHECK(of_graph.ValueAt(0) == 12);
  CHECK(of_graph.ValueAt(1) == 6);
  CHECK(test::Values(**batch, "of_node") == Numbers{8, 9, 8, 9, 8, 9});
  CHECK((*batch)->Find("of_node")->splits == "node_splits");
  CHECK(test::Values(**batch, "of_example") == Numbers{0, 1, 2});
}

/// Writes down what it is told.
class Told final : public ProgramObserver {
 public:
  explicit Told(std::vector<std::string> names) : names_(std::move(names)) {}
  void OnPhase(std::size_t phase) override { said.push_back(names_.at(phase)); }
  void OnEnd() override { said.emplace_back("end"); }

  std::vector<std::string> said;

 private:
  const std::vector<std::string> names_;
};

TEST_CASE("an observer is told of what the host computes beside a device", "[compute]") {
  BufferPool pool;
  const auto packed = test::PackRows(test::RandomRows(1, 6), pool);
  const auto told = [&](std::vector<std::string> outputs) {
    const Delivery delivery = ComputedDelivery(test::DeliveryDefinitions(), std::move(outputs));
    Told observer(DeviceComputation(*delivery.computation()).host_phases());
    const auto layout = LayOutExpanded(*packed, delivery.WatchedBy(&observer)).value();
    DeviceRun run(*packed, layout);
    REQUIRE(run.Run().ok());
    return observer.said;
  };
  using Names = std::vector<std::string>;
  CHECK(told({"part", "hot"}) == Names{"end"});  // the device does all of it
  // The device makes `part` and `loud`; the host makes `loud` too, because it stacks it.
  CHECK(told({"twice", "part", "loud", "both"}) ==
        Names{"widen", "slice", "concat", "cast", "stack", "end"});
}

TEST_CASE("an observer is not told of the search for a wrong value", "[compute]") {
  BufferPool pool;
  auto rows = test::RandomRows(1, 3);
  rows[1].s = 10;
  const auto packed = test::PackRows(rows, pool);
  const Delivery delivery = ComputedDelivery(
      {test::Defined("hot", "one_hot", {"s"}, {{"depth", std::int64_t{10}}})}, {"hot"});
  Told observer({});  // the device does all of it
  const auto layout = LayOutExpanded(*packed, delivery.WatchedBy(&observer)).value();
  CHECK(WhatIsWrong(*packed, layout).code() == StatusCode::kDataLoss);
  CHECK(observer.said.empty());
}

}  // namespace
}  // namespace millrace
