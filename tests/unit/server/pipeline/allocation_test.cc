// No allocation per root after warm-up. A program of its own: it counts every operator new.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>
#include <new>

#include "common/batch/batch_writer.h"
#include "server/dataset/generator.h"
#include "server/pipeline/plan_library.h"
#include "server/pipeline/source.h"
#include "tests/support/dataset_fixture.h"

namespace {
std::atomic<std::uint64_t> allocations{0};
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace millrace::test {
namespace {

/// Builds all examples of a source twice and returns the allocations of the second round.
std::uint64_t AllocationsOfASecondRound(const std::string& source_name, ClosureKernel kernel) {
  const TempDir dir;
  GeneratorReport report;
  REQUIRE(GenerateDataset(dir.path(), {.seed = 5, .nodes = 20'000}, &report).ok());
  PlanLibraryOptions options;
  options.datasets["d"].dir = dir.path();
  PlanLibrary library(options, MakeNullLogger());
  PlanDraft draft;
  draft.source = source_name;
  draft.batch.size = 8;
  draft.fields.global_context = GlobalContextField::kFull;
  draft.closure_kernel = kernel;
  const auto source = *SourceTable::Default().Make(*library.Open("d"), draft);
  REQUIRE(source->examples() > 100);
  const auto examples = static_cast<std::uint32_t>(source->examples());
  std::vector<ExampleId> ids;
  for (std::uint32_t e = 0; e < examples; ++e) ids.emplace_back(e);
  BufferPool pool;
  BatchWriter writer = *BatchWriter::Create(source->tensors(), source->expand(), pool);
  const auto builder = source->NewBuilder();
  std::uint64_t counted = 0;
  for (int round = 0; round < 2; ++round) {
    writer.Begin({}, 0, 0, examples);
    const std::uint64_t before = allocations;
    REQUIRE(builder->Append(ids, writer).ok());
    counted = allocations - before;
    REQUIRE(writer.Seal().ok());
  }
  return counted;
}

TEST_CASE("examples take no allocation after warm-up, whatever the kernel", "[allocation]") {
  const auto kernel =
      GENERATE(ClosureKernel::kArray, ClosureKernel::kTable, ClosureKernel::kInTurns);
  CHECK(AllocationsOfASecondRound("proof_states", kernel) == 0);
  CHECK(AllocationsOfASecondRound("definitions", kernel) == 0);
}

}  // namespace
}  // namespace millrace::test
