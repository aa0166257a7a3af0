// A builder allocates nothing for each root after a warm-up, and a plan's memory is bounded. This
// is a program of its own, because it counts every operator new.
#include <malloc.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>
#include <new>

#include "common/batch/batch_writer.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/coq/coq_columns.h"
#include "server/kinds/coq/coq_kind.h"
#include "server/kinds/coq/coq_parts.h"
#include "server/kinds/coq/generator/generator.h"
#include "server/plan/facts/plan_facts.h"
#include "server/plan/plan_library.h"
#include "server/sampling/closure_parts.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"
#include "tests/support/dataset_fixture.h"

namespace {
std::atomic<std::uint64_t> allocations{0};
std::atomic<std::uint64_t> held_bytes{0};
}  // namespace

// These are not inlined, because the compiler would then warn that malloc and free do not match.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  held_bytes += malloc_usable_size(memory);
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  if (memory != nullptr) held_bytes -= malloc_usable_size(memory);
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  operator delete(memory);
}

namespace millrace::test {
namespace {

/// Builds all examples of a source twice and returns the allocations of the second round.
std::uint64_t AllocationsOfASecondRound(const std::string& source_name, ClosureKernel kernel) {
  const TempDir dir;
  GeneratorReport report;
  REQUIRE(GenerateDataset(dir.path(), {.seed = 5, .nodes = 20'000}, &report).ok());
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  options.datasets["d"].dir = dir.path();
  PlanLibrary library(options, MakeNullLogger());
  PlanParts parts;
  parts.Edit<CoqFieldsPart>().global_context = GlobalContextField::kFull;
  parts.Edit<ClosurePart>().kernel = kernel;
  const auto source = *MakeCoqKind()->sources().Make(source_name, *library.Open("d"), parts);
  REQUIRE(source->examples() > 100);
  const auto examples = static_cast<std::uint32_t>(source->examples());
  std::vector<ExampleId> ids;
  for (std::uint32_t e = 0; e < examples; ++e) ids.emplace_back(e);
  BufferPool pool;
  BatchWriter writer = *BatchWriter::Create(source->tensors(), source->expand(), pool);
  const auto reader = source->NewReader();
  std::uint64_t counted = 0;
  for (int round = 0; round < 2; ++round) {
    writer.Begin({}, 0, 0, examples);
    const std::uint64_t before = allocations;
    REQUIRE(reader->Append(ids, writer).ok());
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

/// A generated dataset of 2,000 definitions.
struct Proofs {
  explicit Proofs(std::uint64_t proof_states) {
    GeneratorReport report;
    REQUIRE(GenerateDataset(dir.path(),
                            {.seed = 5,
                             .nodes = 100'000,
                             .files = 20,
                             .definitions = 2'000,
                             .proof_states = proof_states},
                            &report)
                .ok());
  }
  TempDir dir;
};

/// The memory that a compiled plan holds, without its dataset.
std::uint64_t BytesOfPlan(const Proofs& proofs, const PlanParts& parts, bool facts_only) {
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  options.datasets["d"].dir = proofs.dir.path();
  PlanLibrary library(options, MakeNullLogger());
  REQUIRE(library.Open("d").ok());
  // The first plan also makes things that all plans share, so they are not counted.
  REQUIRE(library.Compile(parts, "d", {1, 1}, {1, 1}).ok());
  const std::uint64_t before = held_bytes;
  auto plan = library.Compile(parts, "d", {2, 2}, {2, 2});
  REQUIRE(plan.ok());
  REQUIRE((*plan)->counts().selected > 1'000);
  if (!facts_only) return held_bytes - before;
  const auto facts = std::make_shared<const PlanFacts>((*plan)->facts());
  plan->reset();
  return held_bytes - before;
}

TEST_CASE("a plan holds half a byte an example and 40 bytes a definition at most", "[allocation]") {
  PlanParts all;
  all.Edit<SourcePart>().name = "proof_states";
  all.Edit<BatchPart>().size = 8;
  PlanParts some = all;
  some.Edit<SplitPart>().split.method = SplitMethod::kHash;
  some.Edit<SplitPart>().split.proportions = {3, 1};
  some.Edit<SplitPart>().take = {0};
  some.Edit<FilterPart>().conditions = {{.column = kNoneArgumentColumn, .zero = true}};
  some.Edit<CoqNumberingPart>().required_tactic_occurrence = 2;
  PlanParts spine = some;
  spine.Edit<CoqNumberingPart>().restrict_to_spine = true;
  constexpr std::uint64_t kFew = 10'000;
  constexpr std::uint64_t kMany = 210'000;
  const Proofs few(kFew);
  const Proofs many(kMany);
  for (const PlanParts& parts : {all, some, spine}) {
    const std::uint64_t small = BytesOfPlan(few, parts, false);
    CHECK(small < 40 * 2'000 + kFew / 2 + 16'000);
    const std::uint64_t large = BytesOfPlan(many, parts, false);
    CHECK(static_cast<double>(large) < static_cast<double>(small) + 0.5 * (kMany - kFew));
  }
}

TEST_CASE("what a dispatcher keeps of a plan does not grow with the dataset", "[allocation]") {
  PlanParts parts;
  parts.Edit<SourcePart>().name = "proof_states";
  parts.Edit<BatchPart>().size = 8;
  const std::uint64_t small = BytesOfPlan(Proofs(10'000), parts, true);
  CHECK(small < 16'000);
  CHECK(BytesOfPlan(Proofs(50'000), parts, true) < small + 200);
}

}  // namespace
}  // namespace millrace::test
