// A GPU keeps the accelerator's contract, and its kernels write the same bytes as the host. These
// tests are skipped if there is no GPU.
#include <sys/mman.h>
#include <unistd.h>

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <rapidcheck/catch.h>

#include <cstring>

#include <cuda_runtime_api.h>

#include "client/device/cuda_accelerator.h"
#include "client/device/slot_device.h"
#include "tests/support/skip.h"
#include "tests/unit/common/batch/model_batch.h"
#include "tests/unit/common/expand/compare_batches.h"
#include "tests/unit/common/expand/delivery_data.h"
#include "tests/unit/common/expand/every_cast.h"
#include "tests/unit/common/expand/padded_model.h"
#include "tests/unit/common/expand/random_program.h"

namespace millrace {
namespace {

using test::SameBytes;

std::shared_ptr<Accelerator> GpuOrSkip(int number = 0) {
  auto accelerator = MakeCudaAccelerator(number);
  if (!accelerator.ok()) test::SkipTest(accelerator.status().message());
  return *accelerator;
}

std::vector<std::byte> Fetch(std::span<const std::byte> device) {
  std::vector<std::byte> bytes(device.size());
  REQUIRE(cudaMemcpy(bytes.data(), device.data(), bytes.size(), cudaMemcpyDeviceToHost) ==
          cudaSuccess);
  return bytes;
}

TEST_CASE("a GPU writes the same bytes as the host's expansion", "[cuda]") {
  const auto device = MakeSlotDevice(GpuOrSkip());
  BufferPool received(1 << 20, device->receive_memory());
  rc::prop("all batches, in micro-batches too", [&] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto packed = test::Pack(test::RandomBatch(seed, *rc::gen::inRange(0, 40)), received);
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const auto micro = *rc::gen::inRange<std::size_t>(1, 4);
    for (std::size_t index = 0; index < micro; ++index) {
      const RowRange rows = RowsOfMicroBatch(packed->examples(), index, micro);
      const auto delivered = device->Expand(packed, index_dtype, rows);
      if (!delivered.ok()) RC_FAIL(delivered.status().ToString());
      BufferPool pool;
      const auto expected = *Expand(*packed, index_dtype, pool, rows);
      RC_ASSERT(SameBytes(Fetch((*delivered)->bytes()), expected->bytes()));
      const TensorMemory& memory = (*delivered)->tensors()[0].memory;
      RC_ASSERT(memory.kind == TensorMemory::Kind::kCuda);
      RC_ASSERT(memory.device == 0);
    }
  });
}

TEST_CASE("a GPU computes the same bytes as the host, whatever the program", "[cuda][compute]") {
  const auto device = MakeSlotDevice(GpuOrSkip());
  BufferPool received(1 << 20, device->receive_memory());
  rc::prop("any program, any rows", [&] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    test::RandomProgramOptions options;
    options.rows = *rc::gen::inRange<std::size_t>(0, 12);
    if (seed % 8 == 0) options.rows = 2000;
    const test::RandomProgram program = test::MakeRandomProgram(seed, received, options);
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const auto delivery = Delivery::Make(program.tensors, program.text, index_dtype);
    RC_ASSERT(delivery.ok());
    const auto micro = *rc::gen::inRange<std::size_t>(1, 4);
    for (std::size_t index = 0; index < micro; ++index) {
      const RowRange rows = RowsOfMicroBatch(program.packed->examples(), index, micro);
      const auto delivered = device->Expand(program.packed, *delivery, rows);
      BufferPool pool;
      const auto expected = Expand(*program.packed, *delivery, pool, rows);
      RC_ASSERT(delivered.ok() == expected.ok());
      if (expected.ok()) {
        RC_ASSERT(SameBytes(Fetch((*delivered)->bytes()), (*expected)->bytes()));
      }
    }
  });
}

TEST_CASE("a GPU pads graphs with computed tensors as the host, whatever the program",
          "[cuda][compute]") {
  const auto device = MakeSlotDevice(GpuOrSkip());
  BufferPool received(1 << 20, device->receive_memory());
  rc::prop("any program, any batch, any room, in micro-batches", [&] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const test::ModelBatch model =
        test::WithEdgeValues(test::RandomGraphs(seed, *rc::gen::inRange(0, 24)));
    const auto micro = *rc::gen::inRange<std::size_t>(1, 4);
    const test::RandomProgram program = test::MakeRandomProgram(seed, model, received);
    const DType index_dtype = *rc::gen::element(DType::kInt32, DType::kInt64);
    const auto delivery =
        test::PaddedDelivery(program, index_dtype, test::RoomForMicroBatches(model, micro));
    RC_ASSERT(delivery.ok());
    for (std::size_t index = 0; index < micro; ++index) {
      const RowRange rows = RowsOfMicroBatch(program.packed->examples(), index, micro);
      const auto delivered = device->Expand(program.packed, *delivery, rows);
      BufferPool pool;
      const auto expected = Expand(*program.packed, *delivery, pool, rows);
      RC_ASSERT(delivered.status() == expected.status());
      if (!expected.ok()) continue;
      RC_ASSERT(SameBytes(Fetch((*delivered)->bytes()), (*expected)->bytes()));
      RC_ASSERT(test::SameTensors(**delivered, **expected));
    }
  });
}

TEST_CASE("a GPU converts and scales every type to every other as the host", "[cuda][compute]") {
  const auto device = MakeSlotDevice(GpuOrSkip());
  BufferPool received(1 << 20, device->receive_memory());
  const test::RandomProgram program = test::EveryCast(1, 100'000, received);
  const auto delivery = Delivery::Make(program.tensors, program.text, DType::kInt32);
  REQUIRE(delivery.ok());
  const auto delivered = device->Expand(program.packed, *delivery, {0, program.packed->examples()});
  REQUIRE(delivered.ok());
  BufferPool pool;
  const auto expected = *Expand(*program.packed, *delivery, pool);
  const std::vector<std::byte> bytes = Fetch((*delivered)->bytes());
  for (const DeliveredTensor& tensor : expected->tensors()) {
    const auto at = static_cast<std::size_t>(tensor.data - expected->bytes().data());
    INFO(tensor.path);
    CHECK(SameBytes(std::span(bytes).subspan(at, tensor.bytes), {tensor.data, tensor.bytes}));
  }
}

TEST_CASE("a value that a GPU cannot compute is the host's error", "[cuda][compute]") {
  const auto device = MakeSlotDevice(GpuOrSkip());
  BufferPool pool;
  TensorGraphText text;
  text.definitions = {test::Defined("hot", "one_hot", {"s"}, {{"depth", std::int64_t{10}}})};
  text.outputs = {{"hot"}};
  const Delivery delivery =
      Delivery::Make(test::DeliveryTensors(), std::move(text), DType::kInt32).value();
  auto rows = test::RandomRows(1, 2);
  rows[0].s = 3;
  rows[1].s = 10;
  const auto packed = test::PackRows(rows, pool);
  const auto failed = device->Expand(packed, delivery, {0, 2});
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.status() == Expand(*packed, delivery, pool).status());
  CHECK(device->Expand(packed, delivery, {0, 1}).ok());
}

TEST_CASE("a damaged batch is the same error on a GPU", "[cuda]") {
  const auto device = MakeSlotDevice(GpuOrSkip());
  BufferPool pool;
  const auto packed = test::Pack(test::RandomBatch(9, 20), pool);
  const auto copy = test::CopyOf(packed->bytes(), pool);
  const std::size_t root = packed->Find("root").value();
  std::memset(copy->data() + packed->header().size() + packed->tensors()[root].offset, 0xff, 1);
  const auto damaged = *PackedBatch::Parse(copy, copy->size());
  const auto delivered = device->Expand(damaged, DType::kInt32, {0, damaged->examples()});
  REQUIRE_FALSE(delivered.ok());
  CHECK(delivered.status() == Expand(*damaged, DType::kInt32, pool).status());
  CHECK(device->Expand(packed, DType::kInt32, {0, packed->examples()}).ok());
}

TEST_CASE("a slot of a GPU is written to only after what a stream has queued", "[cuda]") {
  const auto device = MakeSlotDevice(GpuOrSkip(), {.slots = 1});
  BufferPool received(1 << 20, device->receive_memory());
  const auto first = test::Pack(test::RandomBatch(1, 40), received);
  const auto second = test::Pack(test::RandomBatch(2, 40), received);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  constexpr std::size_t kBallast = std::size_t{1} << 28;
  void* ballast = nullptr;
  REQUIRE(cudaMalloc(&ballast, kBallast) == cudaSuccess);
  BufferPool pool;
  for (int round = 0; round < 20; ++round) {
    auto batch = *device->Expand(first, DType::kInt32, {0, first->examples()});
    const std::size_t bytes = batch->bytes().size();
    std::byte* seen = nullptr;
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&seen), bytes) == cudaSuccess);
    // Queues long work and then a read of the batch. The batch is dropped before the read has
    // begun.
    batch->tensors()[0].memory.ledger->UsedOn(reinterpret_cast<std::uintptr_t>(stream));
    for (int i = 0; i < 20; ++i) (void)cudaMemsetAsync(ballast, i, kBallast, stream);
    REQUIRE(cudaMemcpyAsync(seen, batch->bytes().data(), bytes, cudaMemcpyDeviceToDevice, stream) ==
            cudaSuccess);
    batch.reset();
    const auto next = device->Expand(second, DType::kInt32, {0, second->examples()});
    REQUIRE(next.ok());
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    const auto expected = *Expand(*first, DType::kInt32, pool);
    CHECK(SameBytes(Fetch({seen, bytes}), expected->bytes()));
    (void)cudaFree(seen);
  }
  (void)cudaFree(ballast);
  (void)cudaStreamDestroy(stream);
}

TEST_CASE("a mapping that may only be read is registered, or refused with a reason", "[cuda]") {
  const auto accelerator = GpuOrSkip();
  constexpr std::size_t kBytes = 1 << 20;
  const int file = memfd_create("batches", 0);
  REQUIRE(ftruncate(file, kBytes) == 0);
  void* const data = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
  REQUIRE(data != MAP_FAILED);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(data), kBytes);
  const Status registered = accelerator->RegisterReadOnly(bytes);
  if (registered.ok()) {
    accelerator->Unregister(bytes);
  } else {
    CHECK_FALSE(registered.message().empty());
  }
  munmap(data, kBytes);
  close(file);
}

TEST_CASE("every GPU of a process delivers", "[cuda]") {
  GpuOrSkip();
  BufferPool pool;
  const auto packed = test::Pack(test::RandomBatch(3, 30), pool);
  const auto expected = *Expand(*packed, DType::kInt32, pool);
  std::vector<std::shared_ptr<const DeliveredBatch>> batches;
  for (int gpu = 0; gpu < CudaDevices(); ++gpu) {
    const auto device = MakeSlotDevice(GpuOrSkip(gpu));
    batches.push_back(*device->Expand(packed, DType::kInt32, {0, packed->examples()}));
    CHECK(batches.back()->tensors()[0].memory.device == gpu);
  }
  for (const auto& batch : batches) CHECK(SameBytes(Fetch(batch->bytes()), expected->bytes()));
}

}  // namespace
}  // namespace millrace
