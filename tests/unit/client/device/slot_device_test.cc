#include "client/device/slot_device.h"

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <rapidcheck/catch.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <thread>

#include "tests/unit/client/device/test_device.h"
#include "tests/unit/client/session/run/fake_service.h"
#include "tests/unit/common/batch/model_batch.h"
#include "tests/unit/common/expand/padded_model.h"

namespace millrace {
namespace {

using test::Batches;
using test::SameBytes;
using test::TestDevice;

std::shared_ptr<const PackedBatch> RandomPacked(std::uint64_t seed, int size, BufferPool& pool) {
  return test::Pack(test::RandomBatch(seed, size), pool);
}

std::vector<std::byte> HostBytes(const PackedBatch& packed, DType index_dtype, RowRange rows) {
  BufferPool pool;
  const auto expected = Expand(packed, index_dtype, pool, rows);
  REQUIRE(expected.ok());
  return {(*expected)->bytes().begin(), (*expected)->bytes().end()};
}

std::vector<std::byte> HostBytes(const PackedBatch& packed) {
  return HostBytes(packed, DType::kInt32, {0, packed.examples()});
}

TEST_CASE("a device delivers the same bytes as the host", "[device]") {
  TestDevice test;
  rc::prop("all batches, in micro-batches too", [&] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto packed = RandomPacked(seed, *rc::gen::inRange(0, 24), test.received);
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const auto micro = *rc::gen::inRange<std::size_t>(1, 4);
    for (std::size_t index = 0; index < micro; ++index) {
      const RowRange rows = RowsOfMicroBatch(packed->examples(), index, micro);
      const auto delivered = test.device->Expand(packed, index_dtype, rows);
      if (!delivered.ok()) RC_FAIL(delivered.status().ToString());
      BufferPool pool;
      const auto expected = *Expand(*packed, index_dtype, pool, rows);
      // The bytes are read at once, without any wait, so the batch must be complete.
      RC_ASSERT(SameBytes((*delivered)->bytes(), expected->bytes()));
      RC_ASSERT((*delivered)->info() == expected->info());
      RC_ASSERT((*delivered)->tensors().size() == expected->tensors().size());
      for (std::size_t i = 0; i < expected->tensors().size(); ++i) {
        RC_ASSERT((*delivered)->tensors()[i].path == expected->tensors()[i].path);
        RC_ASSERT((*delivered)->tensors()[i].shape == expected->tensors()[i].shape);
        RC_ASSERT((*delivered)->tensors()[i].memory.ledger != nullptr);
      }
    }
  });
  CHECK(test.device->status() == "host:0 (the host's processor)");
}

TEST_CASE("a device pads graphs as the host does", "[device][graph_padding]") {
  TestDevice test;
  rc::prop("any batch, in micro-batches too", [&] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const test::ModelBatch model = test::RandomGraphs(seed, *rc::gen::inRange(0, 16));
    const auto packed = test::Pack(model, test.received);
    const auto micro = *rc::gen::inRange<std::size_t>(1, 4);
    for (std::size_t index = 0; index < micro; ++index) {
      const RowRange rows = RowsOfMicroBatch(packed->examples(), index, micro);
      const GraphCounts own = test::CountsOf(model, rows);
      const GraphPad pad{static_cast<std::uint32_t>(own.nodes) + *rc::gen::inRange(1u, 99u),
                         static_cast<std::uint32_t>(own.edges) + *rc::gen::inRange(0u, 99u),
                         static_cast<std::uint32_t>(own.graphs) + *rc::gen::inRange(1u, 9u)};
      const Delivery delivery =
          test::DeliveryOfGraphs(model.plan, *rc::gen::arbitrary<bool>(),
                                 *rc::gen::element(DType::kInt32, DType::kInt64), pad);
      const auto delivered = test.device->Expand(packed, delivery, rows);
      if (!delivered.ok()) RC_FAIL(delivered.status().ToString());
      BufferPool pool;
      const auto expected = *Expand(*packed, delivery, pool, rows);
      RC_ASSERT(SameBytes((*delivered)->bytes(), expected->bytes()));
      RC_ASSERT((*delivered)->tensors().size() == expected->tensors().size());
      for (std::size_t i = 0; i < expected->tensors().size(); ++i) {
        RC_ASSERT((*delivered)->tensors()[i].path == expected->tensors()[i].path);
        RC_ASSERT((*delivered)->tensors()[i].shape == expected->tensors()[i].shape);
      }
    }
  });
}

TEST_CASE("a device says as the host does that a batch does not fit", "[device][graph_padding]") {
  TestDevice test;
  const test::ModelBatch model = test::RandomGraphs(5, 9);
  const auto packed = test::Pack(model, test.received);
  const Delivery delivery =
      test::DeliveryOfGraphs(model.plan, true, DType::kInt32, GraphPad{1, 0, 1});
  BufferPool pool;
  const RowRange all{0, packed->examples()};
  const Status failed = test.device->Expand(packed, delivery, all).status();
  CHECK(failed.code() == StatusCode::kDataLoss);
  CHECK(failed == Expand(*packed, delivery, pool, all).status());
}

TEST_CASE("the micro-batches of a batch are copied to the device once", "[device]") {
  TestDevice test;
  const auto packed = RandomPacked(3, 20, test.received);
  for (std::size_t index = 0; index < 3; ++index) {
    const RowRange rows = RowsOfMicroBatch(packed->examples(), index, 3);
    REQUIRE(test.device->Expand(packed, DType::kInt32, rows).ok());
  }
  const HostAccelerator::Counts counts = test.accelerator->counts();
  CHECK(counts.launches == 3);
  CHECK(counts.copies == 1 + 3);  // one copy of the batch, and the tasks of each micro-batch
}

TEST_CASE("a slot is written to again only after what a consumer has queued", "[device][slots]") {
  TestDevice test({}, {.slots = 1});
  const auto first = RandomPacked(1, 20, test.received);
  const auto second = RandomPacked(1, 20, test.received);
  const auto stream = test.accelerator->NewStream();
  std::promise<void> gate;
  std::vector<std::byte> seen;
  {
    auto batch = *test.Expand(first);
    batch->tensors()[0].memory.ledger->UsedOn(stream);
    test.accelerator->Queue(stream, [&seen, &gate, bytes = batch->bytes()] {
      gate.get_future().wait();
      seen.assign(bytes.begin(), bytes.end());
    });
  }  // dropped, while its work is still queued
  auto next = std::async(std::launch::async, [&] { return test.Expand(second); });
  CHECK(next.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  gate.set_value();
  const auto delivered = next.get();
  REQUIRE(delivered.ok());
  CHECK(SameBytes((*delivered)->bytes(), HostBytes(*second)));
  // The stream's read ran before the event that the slot waited for, so it saw the first batch.
  CHECK(SameBytes(seen, HostBytes(*first)));
  CHECK(test.accelerator->counts().allocations <= 2 + 1);
}

TEST_CASE("batches are expanded under what a consumer's streams do", "[device]") {
  TestDevice test;
  const auto packed = RandomPacked(5, 20, test.received);
  const auto stream = test.accelerator->NewStream();
  std::promise<void> gate;
  auto held = *test.Expand(packed);
  held->tensors()[0].memory.ledger->UsedOn(stream);
  // The stream may begin to wait only when the test is over, so it has the future of its own.
  test.accelerator->Queue(stream, [opened = gate.get_future().share()] { opened.wait(); });
  // A step is still running, but the next batches can be expanded.
  for (int i = 0; i < 3; ++i) REQUIRE(test.Expand(packed).ok());
  gate.set_value();
}

TEST_CASE("many threads expand and drop batches of one device", "[device]") {
  TestDevice test({}, {.slots = 3});
  Batches packed;
  std::vector<std::vector<std::byte>> expected;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    packed.push_back(RandomPacked(seed, 16, test.received));
    expected.push_back(HostBytes(*packed.back()));
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto stream = test.accelerator->NewStream();
      for (std::size_t i = 0; i < 30; ++i) {
        const std::size_t which = (i + t) % packed.size();
        const auto batch = test.Expand(packed[which]);
        if (!batch.ok()) {
          ++wrong;
          continue;
        }
        (*batch)->tensors()[0].memory.ledger->UsedOn(stream);
        // Queues a read for after the batch was dropped, as a GPU would do it.
        test.accelerator->Queue(stream,
                                [&wrong, &want = expected[which], bytes = (*batch)->bytes()] {
                                  if (!SameBytes(bytes, want)) ++wrong;
                                });
      }
      (void)test.accelerator->Synchronize(**test.accelerator->RecordOn(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a batch that lies elsewhere is copied into pinned memory once, which status says",
          "[device]") {
  TestDevice test;
  BufferPool heap;
  const auto packed = RandomPacked(4, 20, heap);
  const auto pinned = RandomPacked(5, 20, test.received);
  const auto delivered = test.Expand(packed);
  REQUIRE(delivered.ok());
  CHECK(SameBytes((*delivered)->bytes(), HostBytes(*packed)));
  REQUIRE(test.Expand(pinned).ok());
  CHECK(test.device->status() ==
        "host:0 (the host's processor); 1 of 2 batches were copied into pinned memory");
}

TEST_CASE("mapped memory is registered once, and batches in it are not copied on the host",
          "[device]") {
  TestDevice test;
  BufferPool heap;
  const auto packed = RandomPacked(4, 20, heap);
  auto known = test.device->OnMapped(packed->bytes());
  REQUIRE(known != nullptr);
  CHECK(test.accelerator->counts().registered == 1);
  REQUIRE(test.Expand(packed).ok());
  CHECK(test.device->status() == "host:0 (the host's processor)");
  known.reset();
  CHECK(test.accelerator->counts().registered == 0);
  REQUIRE(test.Expand(RandomPacked(4, 20, heap)).ok());
  CHECK_THAT(test.device->status(), Catch::Contains("1 of 2 batches"));
}

TEST_CASE("where mapped memory cannot be registered status says why", "[device]") {
  TestDevice test({.registers_read_only = false});
  BufferPool heap;
  const auto packed = RandomPacked(4, 20, heap);
  CHECK(test.device->OnMapped(packed->bytes()) == nullptr);
  const auto delivered = test.Expand(packed);
  REQUIRE(delivered.ok());
  CHECK(SameBytes((*delivered)->bytes(), HostBytes(*packed)));
  CHECK(test.device->status() ==
        "host:0 (the host's processor); shared memory is copied once into pinned memory: the "
        "driver cannot register memory that may only be read; 1 of 1 batches were copied into "
        "pinned memory");
}

TEST_CASE("a damaged batch is the same error as on the host, and the next one is fine",
          "[device]") {
  TestDevice test;
  const auto packed = RandomPacked(9, 20, test.received);
  const auto copy = test::CopyOf(packed->bytes(), test.received);
  const std::size_t source = packed->Find("root").value();
  std::memset(copy->data() + packed->header().size() + packed->tensors()[source].offset, 0xff, 1);
  const auto damaged = *PackedBatch::Parse(copy, copy->size());
  BufferPool pool;
  const auto expected = Expand(*damaged, DType::kInt32, pool);
  REQUIRE_FALSE(expected.ok());
  const auto delivered = test.Expand(damaged);
  REQUIRE_FALSE(delivered.ok());
  CHECK(delivered.status() == expected.status());
  CHECK(delivered.status().code() == StatusCode::kDataLoss);
  const auto good = test.Expand(packed);
  REQUIRE(good.ok());
  CHECK(SameBytes((*good)->bytes(), HostBytes(*packed)));
}

TEST_CASE("a device without memory is an error, until batches are dropped", "[device]") {
  BufferPool heap;
  const auto packed = RandomPacked(9, 20, heap);
  const std::uint64_t slot = BufferPool::SizeClass(HostBytes(*packed).size() + 8192);
  TestDevice test({.memory_bytes = 3 * slot});
  std::vector<std::shared_ptr<const DeliveredBatch>> held;
  Status status;
  while (held.size() < 4 && status.ok()) {
    auto batch = test.Expand(packed);
    status = batch.status();
    if (batch.ok()) held.push_back(*batch);
  }
  CHECK(status.code() == StatusCode::kResourceExhausted);
  REQUIRE_FALSE(held.empty());
  held.pop_back();
  CHECK(test.Expand(packed).ok());
}

TEST_CASE("without pinned memory nothing is delivered", "[device]") {
  TestDevice test({.pinned_bytes = 100});
  BufferPool heap;
  const auto delivered = test.Expand(RandomPacked(9, 20, heap));
  REQUIRE_FALSE(delivered.ok());
  CHECK(delivered.status().code() == StatusCode::kResourceExhausted);
  CHECK_THAT(delivered.status().message(), Catch::Contains("no pinned memory"));
}

TEST_CASE("batches outlive their device, and give their memory back", "[device]") {
  std::weak_ptr<HostAccelerator> accelerator;
  std::shared_ptr<const DeliveredBatch> batch;
  std::vector<std::byte> expected;
  {
    TestDevice test;
    const auto packed = RandomPacked(2, 20, test.received);
    expected = HostBytes(*packed);
    batch = *test.Expand(packed);
    accelerator = test.accelerator;
  }
  CHECK(SameBytes(batch->bytes(), expected));
  CHECK_FALSE(accelerator.expired());
  batch.reset();
  CHECK(accelerator.expired());
}

TEST_CASE("several devices work side by side in one process", "[device]") {
  TestDevice a({.name = "host:0"});
  TestDevice b({.name = "host:1"});
  const auto packed = RandomPacked(2, 20, a.received);
  const auto from_a = a.Expand(packed);
  const auto from_b = b.Expand(packed);
  REQUIRE(from_a.ok());
  REQUIRE(from_b.ok());
  CHECK((*from_a)->bytes().data() != (*from_b)->bytes().data());
  CHECK(SameBytes((*from_a)->bytes(), (*from_b)->bytes()));
  CHECK(b.device->name() == "host:1");
  // Memory that is pinned for one device is not pinned for the other.
  CHECK_THAT(b.device->status(), Catch::Contains("1 of 1 batches were copied"));
}

TEST_CASE("a session delivers through a device, from pinned memory", "[device][session]") {
  client::FakeWorld world;
  auto accelerator = std::make_shared<HostAccelerator>();
  SessionOptions options = world.Options();
  options.micro = 2;
  SessionEnvironment environment;
  environment.connector = world.network.MakeConnector("trainer:1");
  environment.device = MakeSlotDevice(accelerator);
  auto session = Session::Create(options, environment).value();
  REQUIRE(session->Attach().ok());
  std::int64_t next = 0;
  for (;;) {
    auto batch = session->Next();
    if (!batch.ok()) FAIL(batch.status().ToString());
    if (!batch->has_value()) break;
    for (std::uint32_t index = 0; index < (**batch).parts(); ++index) {
      const Batch shown = (**batch).Part(index);
      for (std::size_t i = 0; i < shown.examples(); ++i) {
        CHECK(shown.Find("number")->ValueAt(i) == next++);
      }
    }
  }
  CHECK(next == 60);
  CHECK(accelerator->counts().launches >= 24);  // batches are also expanded ahead
  CHECK(session->stats().device == "host:0 (the host's processor)");
}

TEST_CASE("a device is chosen by its name", "[device]") {
  for (const char* const name : {"", "host", "cpu"}) {
    const auto device = MakeDevice(name);
    REQUIRE(device.ok());
    CHECK((*device)->name() == "host");
  }
  for (const char* const name : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "gpu", "cudax"}) {
    const auto device = MakeDevice(name);
    REQUIRE_FALSE(device.ok());
    CHECK(device.status().code() == StatusCode::kInvalidArgument);
    CHECK_THAT(device.status().message(), Catch::Contains(name));
  }
  // The build decides which of the two codes comes. 99 is a GPU that no machine has.
  const auto gpu = MakeDevice("cuda:99");
  REQUIRE_FALSE(gpu.ok());
  CHECK((gpu.status().code() == StatusCode::kUnimplemented ||
         gpu.status().code() == StatusCode::kNotFound));
  CHECK_THAT(gpu.status().message(), Catch::Contains("device cuda:99: "));
}

TEST_CASE("a session of a device that is not there is refused", "[device][session]") {
  client::FakeWorld world;
  SessionOptions options = world.Options();
  options.device = "cuda:99";
  SessionEnvironment environment;
  environment.connector = world.network.MakeConnector("trainer:1");
  CHECK_FALSE(Session::Create(options, environment).ok());
}

}  // namespace
}  // namespace millrace
