#include "server/plan/cache/disk_cache.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <fstream>
#include <latch>
#include <thread>
#include <vector>

#include "tests/unit/server/plan/cache/faulty_files.h"
#include "tests/unit/server/plan/cache/made_up.h"

namespace millrace {
namespace {

using test::CacheBytes;
using test::CacheKey;
using test::CacheWorld;
using test::Holds;

void AddNumbers(DiskCache& cache, std::uint64_t begin, std::uint64_t end, std::size_t size) {
  for (std::uint64_t n = begin; n < end; ++n) cache.Add(CacheKey(n), CacheBytes(n, size));
}

/// How many of the numbers are found. Fails the test if one is found with wrong bytes.
std::uint64_t CountFound(DiskCache& cache, std::uint64_t begin, std::uint64_t end,
                         std::size_t size) {
  std::uint64_t found = 0;
  for (std::uint64_t n = begin; n < end; ++n) {
    const ExamplePtr value = cache.Find(CacheKey(n));
    if (value == nullptr) continue;
    if (!Holds(value, n, size)) FAIL("wrong bytes of " << n);
    ++found;
  }
  return found;
}

TEST_CASE("a disk cache finds what was added, also after a restart", "[cache][disk]") {
  const CacheWorld world;
  for (const std::size_t size : {0, 1, 15, 16, 17, 1000, 30'000}) {
    const auto cache = world.Start();
    cache->Add(CacheKey(size), CacheBytes(size, size));
    CHECK(Holds(cache->Find(CacheKey(size)), size, size));
    CHECK(cache->Find(CacheKey(size + 1'000'000)) == nullptr);
  }
  const auto cache = world.Start();
  for (const std::size_t size : {0, 1, 15, 16, 17, 1000, 30'000}) {
    const ExamplePtr value = cache->Find(CacheKey(size));
    CHECK(Holds(value, size, size));
    CHECK(reinterpret_cast<std::uintptr_t>(value->bytes().data()) % kCacheUnit == 0);
  }
  CHECK(cache->stats().hits == 7);
  CHECK(cache->stats().failures == 0);
  CHECK(world.logger->warnings == 0);
}

TEST_CASE("a killed writer's records are found without a table", "[cache][disk]") {
  const CacheWorld world;
  const auto killed = world.Start();  // lives until the end of the test, so it writes no table
  AddNumbers(*killed, 0, 500, 1000);
  const auto cache = world.Start();
  CHECK(CountFound(*cache, 0, 500, 1000) == 500);
}

TEST_CASE("an equal key is written once", "[cache][disk]") {
  const CacheWorld world;
  const auto cache = world.Start();
  for (int i = 0; i < 3; ++i) AddNumbers(*cache, 0, 10, 100);
  CHECK(cache->stats().writes == 10);
  const auto again = world.Start();
  AddNumbers(*again, 0, 10, 100);
  CHECK(again->stats().writes == 0);
}

TEST_CASE("the limit of a folder holds at every moment, and the oldest segments go first",
          "[cache][disk]") {
  CacheWorld world;
  world.options.limit_bytes = 10 * world.options.segment_bytes;
  const auto cache = world.Start();
  std::uint64_t evictions = 0;
  for (std::uint64_t n = 0; n < 3000; ++n) {
    cache->Add(CacheKey(n), CacheBytes(n, 1000));
    CHECK(cache->Find(CacheKey(0)) != nullptr);  // the first segment is always in use
    const DiskCacheStats stats = cache->stats();
    CHECK(stats.bytes <= world.options.limit_bytes);
    CHECK(world.BytesOnDisk() <= stats.bytes);
    evictions = stats.evictions;
  }
  CHECK(evictions > 20);
  CHECK(CountFound(*cache, 2600, 3000, 1000) == 400);  // the newest
  CHECK(CountFound(*cache, 0, 60, 1000) == 60);        // in use
  CHECK(CountFound(*cache, 100, 2000, 1000) == 0);
  CHECK(cache->stats().failures == 0);
}

TEST_CASE("the order of uses is known after a restart", "[cache][disk]") {
  CacheWorld world;
  world.options.limit_bytes = 5 * world.options.segment_bytes;
  {
    const auto cache = world.Start();
    AddNumbers(*cache, 0, 200, 1000);
    CHECK(CountFound(*cache, 0, 10, 1000) == 10);
  }
  const auto cache = world.Start();
  AddNumbers(*cache, 1000, 1150, 1000);
  CHECK(cache->stats().evictions > 0);
  CHECK(CountFound(*cache, 0, 10, 1000) == 10);
  CHECK(CountFound(*cache, 70, 110, 1000) == 0);
}

TEST_CASE("a value that fits no segment is not written", "[cache][disk]") {
  CacheWorld world;
  const auto cache = world.Start();
  AddNumbers(*cache, 0, 1, world.options.segment_bytes);
  CHECK(cache->stats().skipped == 1);
  const std::size_t largest =
      SegmentWriter::LargestRecord(world.options.segment_bytes) / 16 * 16 - sizeof(RecordHeader);
  AddNumbers(*cache, 1, 2, largest);
  CHECK(CountFound(*cache, 1, 2, largest) == 1);
  for (const std::uint64_t limit : {0, 1, 64, 200}) {
    world.options.limit_bytes = limit;
    world.options.segment_bytes = 0;
    const auto tiny = world.Start();
    AddNumbers(*tiny, 10, 11, 100);
    CHECK(tiny->stats().failures == 0);
    CHECK(tiny->stats().skipped == 1);
  }
}

TEST_CASE("two caches share a folder: each finds what the other wrote", "[cache][disk]") {
  CacheWorld world;
  const auto first = world.Start();
  const auto second = world.Start();
  AddNumbers(*first, 0, 150, 1000);  // two whole segments and a part of one
  AddNumbers(*second, 1000, 1150, 1000);
  first->Scan();
  second->Scan();
  CHECK(CountFound(*first, 1000, 1150, 1000) == 150);
  CHECK(CountFound(*second, 0, 150, 1000) == 150);
  // The one that was being written goes on.
  AddNumbers(*first, 150, 160, 1000);
  second->Scan();
  CHECK(CountFound(*second, 150, 160, 1000) == 10);
  CHECK(second->stats().failures == 0);
}

TEST_CASE("a cache finds what another one wrote after enough lookups", "[cache][disk]") {
  CacheWorld world;
  const auto first = world.Start();
  const auto second = world.Start();
  AddNumbers(*first, 0, 10, 1000);
  CHECK(CountFound(*second, 0, 10, 1000) == 0);
  for (std::uint64_t i = 0; i < DiskCache::kLookupsAScan; ++i) second->Find(CacheKey(1'000'000));
  CHECK(CountFound(*second, 0, 10, 1000) == 10);
}

TEST_CASE("two caches over one folder evict together", "[cache][disk]") {
  CacheWorld world;
  world.options.limit_bytes = 6 * world.options.segment_bytes;
  const auto first = world.Start();
  const auto second = world.Start();
  for (std::uint64_t round = 0; round < 30; ++round) {
    AddNumbers(*first, round * 100, round * 100 + 100, 1000);
    AddNumbers(*second, 100'000 + round * 100, 100'000 + round * 100 + 100, 1000);
    // Each may exceed the limit by the segment that it is writing.
    CHECK(world.BytesOnDisk() <= world.options.limit_bytes + world.options.segment_bytes);
    CountFound(*first, 0, round * 100, 1000);
    CountFound(*second, 0, round * 100, 1000);
  }
  CHECK(first->stats().failures == 0);
  CHECK(second->stats().failures == 0);
}

TEST_CASE("records beyond the memory of the index are forgotten, the oldest first",
          "[cache][disk]") {
  CacheWorld world;
  world.options.limit_bytes = 64 << 20;
  world.options.index_bytes = 64 << 10;
  {
    const auto cache = world.Start();
    for (std::uint64_t n = 0; n < 20'000; ++n) {
      cache->Add(CacheKey(n), CacheBytes(n, 100));
      if (cache->stats().index_bytes > world.options.index_bytes) FAIL("the index is too large");
    }
    CHECK(CountFound(*cache, 19'500, 20'000, 100) == 500);
    CHECK(CountFound(*cache, 0, 10'000, 100) == 0);
    CHECK(cache->stats().failures == 0);
  }
  const auto cache = world.Start();
  CHECK(cache->stats().index_bytes <= world.options.index_bytes);
  CHECK(CountFound(*cache, 19'500, 20'000, 100) == 500);
  CHECK(CountFound(*cache, 0, 10'000, 100) == 0);
  world.options.index_bytes = 1 << 20;
  CHECK(CountFound(*world.Start(), 0, 20'000, 100) == 20'000);
}

TEST_CASE("a cache goes on when it has no number left for a segment", "[cache][disk]") {
  CacheWorld world;
  world.options.limit_bytes = 4 * world.options.segment_bytes;
  world.options.segment_numbers = 20;
  const auto cache = world.Start();
  for (std::uint64_t n = 0; n < 6000; n += 10) {
    AddNumbers(*cache, n, n + 10, 1000);
    CHECK(CountFound(*cache, n, n + 10, 1000) == 10);
    CHECK(cache->stats().bytes <= world.options.limit_bytes);
  }
  CHECK(CountFound(*cache, 5900, 6000, 1000) == 100);
  CHECK(cache->stats().failures == 0);
}

TEST_CASE("few segments are open at once", "[cache][disk]") {
  CacheWorld world;
  world.options.open_files = 3;
  const auto cache = world.Start();
  AddNumbers(*cache, 0, 800, 1000);
  CHECK(cache->stats().segments > 10);
  CHECK(CountFound(*cache, 0, 800, 1000) == 800);
  const auto in_folder = [&] {
    std::size_t open = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
      open += target.starts_with(world.folder.string());
    }
    return open;
  };
  CHECK(in_folder() <= 3 + 1);  // and the one that is being written
}

TEST_CASE("threads over two caches of one folder find right bytes", "[cache][disk][threads]") {
  CacheWorld world;
  world.options.limit_bytes = 8 * world.options.segment_bytes;
  world.options.open_files = 2;
  const auto first = world.Start();
  const auto second = world.Start();
  std::atomic<bool> wrong{false};
  std::atomic<std::uint64_t> found{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      DiskCache& cache = t % 2 == 0 ? *first : *second;
      std::uint64_t state = static_cast<std::uint64_t>(t) + 1;
      for (int i = 0; i < 1000; ++i) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        const std::uint64_t n = (state >> 40) % 600;
        if (const ExamplePtr value = cache.Find(CacheKey(n))) {
          ++found;
          if (!Holds(value, n, 500 + n)) wrong = true;
        } else {
          cache.Add(CacheKey(n), CacheBytes(n, 500 + n));
        }
        if (i % 100 == 99) cache.Scan();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(wrong);
  CHECK(found > 1000);
  CHECK(world.BytesOnDisk() <= world.options.limit_bytes + world.options.segment_bytes);
}

TEST_CASE("a record whose writer is slow is in the table of its segment",
          "[cache][disk][threads]") {
  const CacheWorld world;
  std::latch begun(1);
  std::latch may_go_on(1);
  {
    const auto cache = world.Start();
    AddNumbers(*cache, 0, 1, 1000);
    std::atomic<bool> is_first{true};
    world.files->before_write = [&](std::uint64_t) {
      if (!is_first.exchange(false)) return;
      begun.count_down();
      may_go_on.wait();
    };
    std::thread slow([&] { AddNumbers(*cache, 1, 2, 1000); });
    begun.wait();
    AddNumbers(*cache, 2, 300, 1000);
    CHECK(cache->Find(CacheKey(1)) == nullptr);
    AddNumbers(*cache, 1, 2, 1000);  // is being written
    may_go_on.count_down();
    slow.join();
    CHECK(cache->stats().writes == 300);
    CHECK(CountFound(*cache, 0, 300, 1000) == 300);
  }
  CHECK(CountFound(*world.Start(), 0, 300, 1000) == 300);
}

TEST_CASE("equal keys that threads add at once are written once", "[cache][disk][threads]") {
  CacheWorld world;
  world.options.segment_bytes = 8 << 10;
  {
    const auto cache = world.Start();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) threads.emplace_back([&] { AddNumbers(*cache, 0, 500, 500); });
    for (std::thread& thread : threads) thread.join();
    CHECK(cache->stats().writes == 500);
    CHECK(CountFound(*cache, 0, 500, 500) == 500);
  }
  // The tables have all of them.
  CHECK(CountFound(*world.Start(), 0, 500, 500) == 500);
}

}  // namespace
}  // namespace millrace
