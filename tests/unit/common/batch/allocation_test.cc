// Counts the calls of operator new between Begin and Seal of a writer that has already written a
// batch, and while tensors of a batch are computed.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "common/batch/batch_writer.h"
#include "common/expand/expand.h"
#include "tests/unit/common/batch/model_batch.h"
#include "tests/unit/common/expand/delivery_data.h"

namespace {

thread_local bool counting = false;
thread_local std::size_t allocations = 0;

void* Allocate(std::size_t bytes, std::size_t alignment) {
  if (counting) ++allocations;
  void* memory =
      alignment > alignof(std::max_align_t)
          ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
          : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return Allocate(bytes, 1); }
void* operator new[](std::size_t bytes) { return Allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace millrace {
namespace {

/// One example as spans, in the form in which a closure builder appends it.
struct Prepared {
  std::vector<std::uint32_t> labels = std::vector<std::uint32_t>(31, 5);
  std::vector<std::uint32_t> ends = std::vector<std::uint32_t>(60, 3);
  std::vector<std::uint32_t> edge_labels = std::vector<std::uint32_t>(60, 1);
  std::vector<std::uint32_t> context = {1, 2, 3};
  std::vector<std::int32_t> args = {-1, 0};
};

void Write(BatchWriter& writer, const std::vector<TensorSpec>& tensors, const Prepared& prepared,
           std::uint32_t examples) {
  const auto number = [&](std::string_view path) { return FindTensor(tensors, path).value(); };
  writer.Begin({}, 1, 2, examples);
  for (std::uint32_t i = 0; i < examples; ++i) {
    writer.Append(number("node_label"), prepared.labels);
    writer.Append(number("edge_source"), prepared.ends);
    writer.Append(number("edge_target"), prepared.ends);
    writer.Append(number("edge_label"), prepared.edge_labels);
    writer.AppendOne(number("root"), 0);
    writer.Append(number("local_context"), prepared.context);
    for (const std::int32_t arg : prepared.args) writer.AppendOne(number("local_args"), arg);
    writer.AppendBytes(number("state_text"), std::as_bytes(std::span("goal", 4)));
    writer.AppendOne(number("proof_step"), i);
    writer.AppendOne(number("example_id"), i);
    writer.EndExample(ExampleId(i));
  }
}

std::size_t CountedWrite(BatchWriter& writer, const std::vector<TensorSpec>& tensors,
                         const Prepared& prepared, std::uint32_t examples) {
  allocations = 0;
  counting = true;
  Write(writer, tensors, prepared, examples);
  counting = false;
  return allocations;
}

std::size_t CountedSeal(BatchWriter& writer) {
  allocations = 0;
  counting = true;
  const bool ok = writer.Seal().ok();
  counting = false;
  REQUIRE(ok);
  return allocations;
}

TEST_CASE("a warm writer allocates nothing per example", "[batch][allocation]") {
  test::ModelPlan plan;
  plan.expand = {30, Symmetrization::kBidirectional, true};
  const std::vector<TensorSpec> tensors = test::Tensors(plan);
  BufferPool pool;
  auto writer = BatchWriter::Create(tensors, plan.expand, pool);
  REQUIRE(writer.ok());
  const Prepared prepared;

  CHECK(CountedWrite(*writer, tensors, prepared, 512) > 0);  // warm-up; the counter works
  CountedSeal(*writer);
  CHECK(CountedWrite(*writer, tensors, prepared, 512) == 0);
  const std::size_t large = CountedSeal(*writer);
  CHECK(CountedWrite(*writer, tensors, prepared, 2) == 0);
  const std::size_t small = CountedSeal(*writer);
  // The remaining allocations are for the sealed batch's description, which does not grow with the
  // examples. The small batch also needed a buffer of a new size.
  CHECK(large <= small);
  CHECK(pool.stats().allocations == 2);
}

std::size_t CountedCompute(const PackedBatch& packed, const Delivery& delivery, BufferPool& pool) {
  const ExpandLayout layout = LayOutExpanded(packed, delivery).value();
  const auto out = pool.Acquire(layout.bytes).value();
  allocations = 0;
  counting = true;
  const bool ok = ExpandInto(packed, layout, out->bytes()).ok();
  counting = false;
  REQUIRE(ok);
  return allocations;
}

TEST_CASE("computing tensors allocates nothing once a batch was computed",
          "[delivery][allocation]") {
  TensorGraphText program;
  program.definitions = test::DeliveryDefinitions();
  program.outputs = {{"part", "flat", "hot", "both", "twice", "long", "wave"}};
  program.pads["both"] = {};
  const Delivery delivery =
      Delivery::Make(test::DeliveryTensors(), std::move(program), DType::kInt32).value();
  BufferPool pool;
  const auto packed = test::PackRows(test::RandomRows(1, 64), pool);
  CHECK(CountedCompute(*packed, delivery, pool) > 0);
  CHECK(CountedCompute(*packed, delivery, pool) == 0);
  CHECK(CountedCompute(*test::PackRows(test::RandomRows(2, 8), pool), delivery, pool) == 0);
}

}  // namespace
}  // namespace millrace
