// Tensors that a device and its host compute together.
#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <rapidcheck/catch.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/session/run/prefetcher.h"
#include "common/expand/device_computation.h"
#include "tests/unit/client/device/test_device.h"
#include "tests/unit/common/expand/compare_batches.h"
#include "tests/unit/common/expand/delivery_data.h"
#include "tests/unit/common/expand/padded_model.h"
#include "tests/unit/common/expand/random_program.h"

namespace millrace {
namespace {

using test::Batches;
using test::ComputedDelivery;
using test::SameBytes;
using test::TestDevice;

/// A delivery of tensors that travel, computed ones, or both. Only the host computes "both" and
/// "twice".
Delivery DeliveryOf(std::vector<std::string> outputs) {
  return ComputedDelivery(test::DeliveryDefinitions(), std::move(outputs));
}

TEST_CASE("computed tensors are the same on a device as on the host", "[device][delivery]") {
  TestDevice test;
  const auto packed = test::PackRows(test::RandomRows(1, 7), test.received);
  for (const Delivery& delivery : {DeliveryOf({"twice", "part", "tokens", "s"}),
                                   DeliveryOf({"sf", "head"}), DeliveryOf({"flag"})}) {
    for (std::size_t index = 0; index < 3; ++index) {
      const RowRange rows = RowsOfMicroBatch(packed->examples(), index, 3);
      const auto delivered = test.device->Expand(packed, delivery, rows);
      REQUIRE(delivered.ok());
      BufferPool pool;
      const auto expected = *Expand(*packed, delivery, pool, rows);
      CHECK(SameBytes((*delivered)->bytes(), expected->bytes()));
      REQUIRE((*delivered)->tensors().size() == expected->tensors().size());
      for (const DeliveredTensor& tensor : (*delivered)->tensors()) {
        CHECK(tensor.shape == expected->Find(tensor.path)->shape);
        CHECK(tensor.memory.ledger != nullptr);
      }
    }
  }
}

/// Checks what a device delivers of some rows, or says of them.
void CheckAsHost(TestDevice& test, const std::shared_ptr<const PackedBatch>& packed,
                 const Delivery& delivery, RowRange rows) {
  const auto delivered = test.device->Expand(packed, delivery, rows);
  BufferPool pool;
  const auto expected = Expand(*packed, delivery, pool, rows);
  RC_ASSERT(delivered.status() == expected.status());
  if (!expected.ok()) return;
  RC_ASSERT(SameBytes((*delivered)->bytes(), (*expected)->bytes()));
  RC_ASSERT(test::SameTensors(**delivered, **expected));
  RC_ASSERT((*delivered)->info() == (*expected)->info());
}

TEST_CASE("a device delivers what the host computes, whatever the program", "[device][delivery]") {
  TestDevice test;
  rc::prop("any program, any rows", [&] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    test::RandomProgramOptions options;
    options.rows = *rc::gen::inRange<std::size_t>(0, 12);
    const test::RandomProgram program = test::MakeRandomProgram(seed, test.received, options);
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const auto delivery = Delivery::Make(program.tensors, program.text, index_dtype);
    RC_ASSERT(delivery.ok());
    const auto micro = *rc::gen::inRange<std::size_t>(1, 4);
    for (std::size_t index = 0; index < micro; ++index) {
      CheckAsHost(test, program.packed, *delivery,
                  RowsOfMicroBatch(program.packed->examples(), index, micro));
    }
  });
}

TEST_CASE("a device pads graphs with computed tensors as the host, whatever the program",
          "[device][delivery][graph_padding]") {
  TestDevice test;
  rc::prop("any program, any batch, any room, in micro-batches", [&] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const test::ModelBatch model =
        test::WithEdgeValues(test::RandomGraphs(seed, *rc::gen::inRange(0, 12)));
    const auto micro = *rc::gen::inRange<std::size_t>(1, 4);
    const test::RandomProgram program = test::MakeRandomProgram(
        seed, model, test.received, {.wrong_values = *rc::gen::arbitrary<bool>()});
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const auto delivery =
        test::PaddedDelivery(program, index_dtype, test::RoomForMicroBatches(model, micro));
    RC_ASSERT(delivery.ok());
    for (std::size_t index = 0; index < micro; ++index) {
      CheckAsHost(test, program.packed, *delivery,
                  RowsOfMicroBatch(program.packed->examples(), index, micro));
    }
  });
}

TEST_CASE("tensors have one order, whether the device, its host or a worker computed them",
          "[device][delivery][graph_padding]") {
  TestDevice test;
  const test::ModelBatch model = test::RandomGraphs(5, 9);
  const auto packed = test::Pack(model, test.received);
  const std::vector<TensorSpec> tensors = test::Tensors(model.plan);
  ConsumerProgram program;
  for (const char* const name : {"a", "f", "h", "n", "z"}) {
    const bool host = *name == 'f' || *name == 'n';
    program.text.definitions.push_back(
        host
            ? test::Defined(name, "expr", {"node_label"}, {{"expr", std::string("node_label + 1")}})
            : test::Defined(name, "cast", {"node_label"},
                            {{"dtype", std::string("float32")}, {"scale", 1.0 * *name}}));
  }
  program.text.outputs = {{"z", "f", "root", "n", "a", "h", "example_id", "state_text"}};
  program.text.pads = {{"state_text", {}}};
  const GraphCounts counts = test::CountsOf(model, {0, packed->examples()});
  program.graph_pad = {static_cast<std::uint32_t>(counts.nodes + 1),
                       static_cast<std::uint32_t>(counts.edges),
                       static_cast<std::uint32_t>(counts.graphs + 1)};
  // A worker has computed what comes after it.
  program.source_tensors = *FindTensor(tensors, "state_text") + 1;
  const Delivery delivery = Delivery::Make(tensors, std::move(program), DType::kInt32).value();
  std::vector<std::string> described;
  for (const DeliveryTensor& tensor : delivery.Tensors(tensors)) {
    described.push_back(tensor.packed.path);
  }
  std::vector<std::string> names;
  const auto delivered = test.device->Expand(packed, delivery, {0, packed->examples()}).value();
  for (const DeliveredTensor& tensor : delivered->tensors()) names.push_back(tensor.path);
  CHECK(names == described);
  const auto root = std::find(names.begin(), names.end(), "root");
  CHECK(std::vector<std::string>(root, names.end()) ==
        std::vector<std::string>{"root", "state_text", "a", "edge_mask", "example_id", "f",
                                 "graph_mask", "h", "n", "node_mask", "state_text.length", "z"});
  CHECK_THAT(test.device->status(), Catch::Contains("; the host computes f, n"));
}

/// Bytes that one more batch of `count` rows takes to the device, beyond its payload.
std::uint64_t CopiedBeside(TestDevice& test, const Delivery& delivery, std::size_t count) {
  const auto packed = test::PackRows(test::RandomRows(1, count), test.received);
  const HostAccelerator::Counts before = test.accelerator->counts();
  const auto delivered = test.device->Expand(packed, delivery, {0, count});
  REQUIRE(delivered.ok());
  BufferPool pool;
  CHECK(SameBytes((*delivered)->bytes(), (*Expand(*packed, delivery, pool))->bytes()));
  const HostAccelerator::Counts after = test.accelerator->counts();
  return after.copied_bytes - before.copied_bytes - packed->payload().size();
}

TEST_CASE("nothing that a device can compute is copied to it", "[device][delivery]") {
  TestDevice test;
  std::vector<TensorDefinition> definitions = test::DeliveryDefinitions();
  definitions.push_back(test::Defined("deep", "one_hot", {"s"}, {{"depth", std::int64_t{65536}}}));
  definitions.push_back(
      test::Defined("turned", "transpose", {"wave"}, {{"axes", test::Ints{0, 1, 2}}}));
  const Delivery delivery = ComputedDelivery(
      definitions, {"part", "flat", "sf", "hot", "deep", "turned", "head", "planes"},
      {{"head", {}}});
  const internal::Computation& computation = *delivery.computation();
  const DeviceComputation share(computation);
  REQUIRE(share.host_outputs().empty());
  const std::uint64_t first = CopiedBeside(test, delivery, 10);
  const std::uint64_t few = CopiedBeside(test, delivery, 10);
  const std::uint64_t many = CopiedBeside(test, delivery, 200);
  // Maps and numbers travel once.
  CHECK(first - few == share.constants().size());
  // With more rows, only splits grow: those of the source and of the outputs, and where rows begin.
  CHECK(many - few <= 4 * 190 * sizeof(std::int64_t));
  CHECK(few < 16'384);
  CHECK(test.device->status() == "host:0 (the host's processor)");
}

TEST_CASE("steps that depend on each other are launched one after another", "[device][delivery]") {
  TestDevice test;
  const auto packed = test::PackRows(test::RandomRows(1, 7), test.received);
  const auto launches = [&](const std::string& output) {
    const std::uint64_t before = test.accelerator->counts().launches;
    REQUIRE(test.device->Expand(packed, DeliveryOf({output}), {0, 7}).ok());
    return test.accelerator->counts().launches - before;
  };
  CHECK(launches("part") == 1);  // bits, slice and cast are one loop
  CHECK(launches("hot") == 2);   // the bool is cast before
  CHECK(launches("s") == 1);     // only expanded
  CHECK(launches("both") == 0);  // computed by the host
}

TEST_CASE("a device needs no payload if the host computes everything", "[device][delivery]") {
  TestDevice test;
  BufferPool heap;
  const auto packed = test::PackRows(test::RandomRows(1, 7), heap);
  REQUIRE(test.device->Expand(packed, DeliveryOf({"both", "twice"}), {0, 7}).ok());
  CHECK(test.accelerator->counts().copies == 1);
  CHECK(test.accelerator->counts().launches == 0);
}

TEST_CASE("the host's tensors are copied to a device beside its own", "[device][delivery]") {
  TestDevice test;
  const Delivery delivery = DeliveryOf({"both", "twice", "part", "sf"});
  (void)CopiedBeside(test, delivery, 10);
  const auto packed = test::PackRows(test::RandomRows(1, 10), test.received);
  std::uint64_t host_bytes = 0;
  const auto delivered = *test.device->Expand(packed, delivery, {0, 10});
  for (const DeliveredTensor& tensor : delivered->tensors()) {
    const bool host = tensor.path.starts_with("both") || tensor.path.starts_with("twice");
    if (host) host_bytes += (tensor.bytes + 63) / 64 * 64;
  }
  const std::uint64_t beside = CopiedBeside(test, delivery, 10);
  CHECK(beside > host_bytes);
  CHECK(beside < host_bytes + 4096);  // and the tables of tasks
  CHECK(test.device->status() == "host:0 (the host's processor); the host computes both, twice");
}

TEST_CASE("the constants of a computation leave a device with it", "[device][delivery]") {
  TestDevice test;
  const auto packed = test::PackRows(test::RandomRows(1, 7), test.received);
  const auto expand = [&](const Delivery& delivery) {
    REQUIRE(test.device->Expand(packed, delivery, {0, 7}).ok());
  };
  const Delivery kept = DeliveryOf({"part"});
  expand(kept);
  const std::uint64_t allocated = test.accelerator->counts().allocated_bytes;
  for (int i = 0; i < 5; ++i) expand(DeliveryOf({"part"}));
  expand(kept);
  // The last one that was dropped is still there.
  CHECK(test.accelerator->counts().allocated_bytes <=
        allocated + DeviceComputation(*kept.computation()).constants().size());
}

TEST_CASE("a device without memory for constants says so, and can be used", "[device][delivery]") {
  const Delivery delivery = DeliveryOf({"part"});
  std::uint64_t needed = 0;
  {
    TestDevice test;
    REQUIRE(CopiedBeside(test, delivery, 7) > 0);
    needed = test.accelerator->counts().allocated_bytes;
  }
  TestDevice test({.memory_bytes = needed - 1});
  const auto packed = test::PackRows(test::RandomRows(1, 7), test.received);
  const auto failed = test.device->Expand(packed, delivery, {0, 7});
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.status().code() == StatusCode::kResourceExhausted);
  CHECK_THAT(failed.status().message(), Catch::Contains("host:0 has no memory for the "));
  CHECK(test.device->Expand(packed, DeliveryOf({"both"}), {0, 7}).ok());
}

TEST_CASE("a value that cannot be computed is the host's error, and leaves a device usable",
          "[device][delivery]") {
  TestDevice test({}, {.slots = 1});
  const bool on_device = GENERATE(true, false);
  const Delivery delivery = ComputedDelivery(
      {test::Defined("sum", "expr", {"s"}, {{"expr", std::string("s + 0")}}),
       test::Defined("hot", "one_hot", {on_device ? "s" : "sum"}, {{"depth", std::int64_t{10}}})},
      {"hot", "tokens"});
  auto rows = test::RandomRows(1, 2);
  rows[0].s = 3;
  rows[1].s = 10;
  const auto packed = test::PackRows(rows, test.received);
  const auto failed = test.device->Expand(packed, delivery, {0, 2});
  BufferPool pool;
  CHECK(failed.status().code() == StatusCode::kDataLoss);
  CHECK(failed.status() == Expand(*packed, delivery, pool).status());
  CHECK((test.accelerator->counts().launches > 0) == on_device);
  for (int i = 0; i < 3; ++i) CHECK(test.device->Expand(packed, delivery, {0, 1}).ok());
}

TEST_CASE("a device refuses the same wide numbers as the host", "[device][delivery]") {
  TestDevice test;
  BufferPool pool;
  const auto same = [&](const auto& packed, DType dtype, DType index_dtype) {
    const Delivery delivery = test::PaddedBigDelivery(dtype, index_dtype);
    const auto delivered = test.device->Expand(packed, delivery, {0, 1});
    const auto expected = Expand(*packed, delivery, pool);
    REQUIRE(delivered.status() == expected.status());
    if (expected.ok()) CHECK(SameBytes((*delivered)->bytes(), (*expected)->bytes()));
    return expected.ok();
  };
  const auto wide = test::PackBig(DType::kUint32, 0xfffffffe, test.received);
  CHECK_FALSE(same(wide, DType::kUint32, DType::kInt32));
  CHECK(same(wide, DType::kUint32, DType::kInt64));
  const auto wider = test::PackBig(DType::kInt64, std::int64_t{1} << 40, test.received);
  CHECK_FALSE(same(wider, DType::kInt64, DType::kInt32));
  CHECK(same(wider, DType::kInt64, DType::kInt64));
  const auto large = test::PackBig(DType::kUint64, std::int64_t{1} << 62, test.received);
  CHECK_FALSE(same(large, DType::kUint64, DType::kInt32));
  CHECK(same(large, DType::kUint64, DType::kInt64));
  const auto huge = test::PackHuge(test.received);
  CHECK_FALSE(same(huge, DType::kUint64, DType::kInt32));
  CHECK_FALSE(same(huge, DType::kUint64, DType::kInt64));
}

/// The error of a device about a batch that has wrong values; the host says the same.
Status Refusal(const std::vector<test::DeliveryRow>& rows, const Delivery& delivery,
               bool damage_flag = false) {
  TestDevice test;
  auto packed = test::PackRows(rows, test.received);
  if (damage_flag) {
    const auto copy = test::CopyOf(packed->bytes(), test.received);
    copy->data()[packed->tensor_bytes(6).data() - packed->bytes().data()] = std::byte{2};
    packed = PackedBatch::Parse(copy, packed->bytes().size()).value();
  }
  BufferPool pool;
  const Status refused = test.device->Expand(packed, delivery, {0, rows.size()}).status();
  CHECK(refused == Expand(*packed, delivery, pool).status());
  return refused;
}

TEST_CASE("of several wrong values, a device finds the one that the host finds",
          "[device][delivery]") {
  const auto one_hot = [](const char* name, const char* of) {
    return test::Defined(name, "one_hot", {of}, {{"depth", std::int64_t{10}}});
  };
  auto rows = test::RandomRows(1, 3);
  for (auto& row : rows) row.s = 10;
  const auto sum = test::Defined("sum", "expr", {"s"}, {{"expr", std::string("s + 0")}});
  // The first one by name, on the device or on the host.
  CHECK_THAT(
      Refusal(rows, ComputedDelivery({sum, one_hot("a", "s"), one_hot("b", "sum")}, {"a", "b"}))
          .message(),
      Catch::StartsWith("tensor a: one_hot"));
  CHECK_THAT(
      Refusal(rows, ComputedDelivery({sum, one_hot("a", "sum"), one_hot("b", "s")}, {"a", "b"}))
          .message(),
      Catch::StartsWith("tensor a: one_hot"));
  // Bools that are read are checked before anything is computed, and what travels before that.
  const auto flag = test::Defined("number", "cast", {"flag"}, {{"dtype", std::string("int8")}});
  for (const char* const output : {"number", "flag"}) {
    CHECK_THAT(
        Refusal(rows, ComputedDelivery({sum, one_hot("a", "sum"), flag}, {"a", output}), true)
            .message(),
        Catch::StartsWith("tensor flag: value 2"));
  }
}

TEST_CASE("a value is wrong even if nothing of what the host makes of it is delivered",
          "[device][delivery]") {
  const Delivery delivery = ComputedDelivery(
      {test::Defined("both", "concat", {"tokens", "tokens"}, {{"axis", std::int64_t{1}}}),
       test::Defined("hot", "one_hot", {"both"}, {{"depth", std::int64_t{10}}}),
       test::Defined("none", "slice", {"hot"}, {{"range", test::Ints{0, 0}}})},
      {"none"}, {{"none", {}}});
  auto rows = test::RandomRows(1, 3);
  rows[1].tokens = {10};
  CHECK(Refusal(rows, delivery).code() == StatusCode::kDataLoss);
}

TEST_CASE("a trace names what the host computes beside a device", "[device][trace]") {
  const auto clock = std::make_shared<SystemClock>();
  Tracer tracer(clock);
  TestDevice test;
  client::Prefetcher prefetcher(test.device, /*micro=*/2, {}, tracer, [] {});
  const auto packed = test::PackRows(test::RandomRows(1, 7), test.received);
  const auto operations = [&](const Delivery& delivery) {
    prefetcher.SetDelivery(delivery);
    const auto expanded = prefetcher.Expand(packed);
    REQUIRE(expanded.ok());
    std::vector<std::string> names;
    Time last = expanded->expand_began;
    for (const client::OperationTime& operation : expanded->operations) {
      names.emplace_back(operation.name);
      CHECK(operation.began >= last);
      CHECK(operation.ended >= operation.began);
      last = operation.ended;
    }
    CHECK(last <= expanded->expanded);
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(operations(DeliveryOf({"twice"})).empty());
  tracer.Start(1, clock->Now() + std::chrono::minutes(1));
  CHECK(operations(DeliveryOf({"part", "hot", "tokens"})).empty());
  CHECK(operations(DeliveryOf({"flag"})).empty());
  CHECK(operations(DeliveryOf({"twice", "part", "head"})) ==
        Names{"cast", "stack", "cast", "stack"});
  // Both sides need `head`.
  CHECK(operations(DeliveryOf({"head", "both"})) ==
        Names{"widen", "slice", "concat", "widen", "slice", "concat"});
}

TEST_CASE("many threads compute tensors on one device", "[device][delivery]") {
  TestDevice test({}, {.slots = 3});
  const std::vector<Delivery> deliveries = {DeliveryOf({"part", "hot", "tokens"}),
                                            DeliveryOf({"both", "head", "sf"})};
  Batches packed;
  for (std::size_t i = 0; i < 4; ++i) {
    packed.push_back(test::PackRows(test::RandomRows(i, 20 + 30 * i), test.received));
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      BufferPool pool;
      for (std::size_t i = 0; i < 20; ++i) {
        const auto& batch = packed[(i + t) % packed.size()];
        const Delivery& delivery = deliveries[(i / 3 + t) % deliveries.size()];
        const auto delivered = test.device->Expand(batch, delivery, {0, batch->examples()});
        const auto expected = Expand(*batch, delivery, pool);
        if (!delivered.ok() || !SameBytes((*delivered)->bytes(), (*expected)->bytes())) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace millrace
