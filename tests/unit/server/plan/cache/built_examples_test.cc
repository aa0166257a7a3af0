#include "server/plan/cache/built_examples.h"

#include <catch2/catch.hpp>

#include <memory>

#include "tests/unit/server/plan/cache/faulty_files.h"
#include "tests/unit/server/plan/cache/made_up.h"

namespace millrace::test {
namespace {

BuiltExample Built(std::uint64_t number, std::size_t size = 100) {
  return {CacheKey(number), CacheValue(number, size)};
}

/// Two processes over one folder.
struct KeptWorld : CacheWorld {
  std::unique_ptr<BuiltExamples> NewProcess() const {
    auto begun = std::make_unique<BuiltExamples>(1 << 20, Start());
    begun->Flush();
    return begun;
  }
  void Add(std::uint64_t number, CacheLevel level = CacheLevel::kDisk) const {
    examples->Add(std::vector{Built(number)}, level, examples->damages());
  }
  bool OnDisk(std::uint64_t number) const {
    return Holds(NewProcess()->Find(CacheKey(number), CacheLevel::kDisk), number, 100);
  }
  std::unique_ptr<BuiltExamples> examples = NewProcess();
};

TEST_CASE("what was built is in memory at once, and on disk after the next look", "[cached]") {
  const KeptWorld world;
  world.Add(1);
  CHECK(Holds(world.examples->Find(CacheKey(1), CacheLevel::kMemory), 1, 100));
  world.examples->Flush();
  CHECK_FALSE(world.OnDisk(1));
  UncheckedExamples unchecked = world.examples->TakeUnchecked();
  world.Add(2);  // while the files are looked at
  world.examples->Reconcile(std::move(unchecked), FilesFound::kIntact);
  world.examples->Flush();
  CHECK(world.OnDisk(1));
  CHECK_FALSE(world.OnDisk(2));
  world.examples->Reconcile(world.examples->TakeUnchecked(), FilesFound::kIntact);
  world.examples->Flush();
  CHECK(world.OnDisk(2));
}

TEST_CASE("nothing that was built before damage was found is kept", "[cached]") {
  const KeptWorld world;
  world.Add(1);
  const std::uint64_t before = world.examples->damages();
  UncheckedExamples unchecked = world.examples->TakeUnchecked();
  world.Add(2);
  world.examples->Reconcile(std::move(unchecked), FilesFound::kDamaged);
  world.examples->Add(std::vector{Built(3)}, CacheLevel::kDisk, before);
  world.examples->Reconcile(world.examples->TakeUnchecked(), FilesFound::kIntact);
  world.examples->Flush();
  for (std::uint64_t number : {1, 2, 3}) {
    CHECK(world.examples->Find(CacheKey(number), CacheLevel::kDisk) == nullptr);
    CHECK_FALSE(world.OnDisk(number));
  }
  world.Add(4);
  world.examples->Reconcile(world.examples->TakeUnchecked(), FilesFound::kIntact);
  world.examples->Flush();
  CHECK(world.OnDisk(4));
}

TEST_CASE("after a look that was ended early, examples wait for the next one", "[cached]") {
  const KeptWorld world;
  world.Add(1);
  world.examples->Reconcile(world.examples->TakeUnchecked(), FilesFound::kUnknown);
  world.examples->Flush();
  CHECK_FALSE(world.OnDisk(1));
  world.examples->Reconcile(world.examples->TakeUnchecked(), FilesFound::kIntact);
  world.examples->Flush();
  CHECK(world.OnDisk(1));
}

TEST_CASE("at level memory the disk is neither read nor written", "[cached]") {
  const KeptWorld world;
  world.Add(1);
  world.Add(2, CacheLevel::kMemory);
  world.examples->Reconcile(world.examples->TakeUnchecked(), FilesFound::kIntact);
  world.examples->Flush();
  CHECK(world.OnDisk(1));
  CHECK_FALSE(world.OnDisk(2));
  const auto other = world.NewProcess();
  CHECK(other->Find(CacheKey(1), CacheLevel::kMemory) == nullptr);
  CHECK(other->stats().cache.disk->hits == 0);
}

TEST_CASE("what was found right before the end is on disk after it", "[cached]") {
  KeptWorld world;
  world.Add(1);
  world.examples->Reconcile(world.examples->TakeUnchecked(), FilesFound::kIntact);
  world.examples.reset();
  CHECK(world.OnDisk(1));
}

TEST_CASE("no more waits to be written than half of the memory, or 16 MiB", "[cached]") {
  const KeptWorld world;
  constexpr std::size_t kLarge = 5 << 20;
  for (std::uint64_t number = 0; number < 5; ++number) {
    world.examples->Add(std::vector{Built(number, kLarge)}, CacheLevel::kDisk, 0);
  }
  CHECK(world.examples->TakeUnchecked().size() == 3);
  CHECK(world.examples->stats().unwritten == 2);
  world.Add(7);
  CHECK(world.examples->TakeUnchecked().size() == 1);
}

TEST_CASE("a limit that shrinks makes the memory give way at once", "[cached]") {
  const KeptWorld world;
  for (std::uint64_t number = 0; number < 100; ++number) world.Add(number);
  const std::uint64_t full = world.examples->stats().cache.memory.bytes;
  world.examples->SetMemoryLimit(full / 2);
  CHECK(world.examples->stats().cache.memory.bytes <= full / 2);
  CHECK(world.examples->configured_memory() == 1 << 20);
  // Damage does not bring the old limit back.
  world.examples->Reconcile({}, FilesFound::kDamaged);
  CHECK(world.examples->stats().cache.memory.limit_bytes == full / 2);
}

}  // namespace
}  // namespace millrace::test
