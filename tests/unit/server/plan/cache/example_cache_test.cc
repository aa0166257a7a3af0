#include "server/plan/cache/example_cache.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/server/plan/cache/faulty_files.h"
#include "tests/unit/server/plan/cache/made_up.h"

namespace millrace {
namespace {

using test::CacheKey;
using test::CacheValue;
using test::CacheWorld;
using test::Holds;

TEST_CASE("an example is found in memory first, then on disk, and then in memory again",
          "[cache]") {
  const CacheWorld world;
  ExampleCache cache(1 << 20, world.Start());
  CHECK(cache.Find(CacheKey(1)) == nullptr);
  cache.Add(CacheKey(1), CacheValue(1, 1000));
  CHECK(Holds(cache.Find(CacheKey(1)), 1, 1000));
  CHECK(cache.stats().disk->hits == 0);
  cache.SetLimit(0);
  cache.SetLimit(1 << 20);
  CHECK(Holds(cache.Find(CacheKey(1)), 1, 1000));
  CHECK(cache.stats().disk->hits == 1);
  CHECK(Holds(cache.Find(CacheKey(1)), 1, 1000));
  const ExampleCacheStats stats = cache.stats();
  CHECK(stats.disk->hits == 1);
  CHECK(stats.hits() == 3);
  CHECK(stats.misses() == 1);
}

TEST_CASE("a cache without memory serves from the disk", "[cache]") {
  const CacheWorld world;
  ExampleCache cache(0, world.Start());
  for (std::uint64_t n = 0; n < 100; ++n) {
    CHECK(Holds(cache.Add(CacheKey(n), CacheValue(n, 1000)), n, 1000));
  }
  for (std::uint64_t n = 0; n < 100; ++n) CHECK(Holds(cache.Find(CacheKey(n)), n, 1000));
  CHECK(cache.stats().memory.bytes == 0);
}

TEST_CASE("a cache without a disk has only memory", "[cache]") {
  ExampleCache cache(1 << 20);
  const ExamplePtr first = cache.Add(CacheKey(1), CacheValue(1, 10));
  CHECK(cache.Add(CacheKey(1), CacheValue(1, 10)) == first);
  CHECK(cache.Find(CacheKey(1)) == first);
  CHECK(cache.Find(CacheKey(2)) == nullptr);
  CHECK_FALSE(cache.stats().disk.has_value());
  CHECK(cache.stats().misses() == 1);
}

TEST_CASE("an example that only memory has is written to the disk when it is added again",
          "[cache]") {
  CacheWorld world;
  ExampleCache cache(1 << 20, world.Start());
  world.files->create = EACCES;
  cache.Add(CacheKey(1), CacheValue(1, 1000));
  world.files->create = 0;
  world.clock->Advance(DiskCache::kPause);
  cache.Add(CacheKey(1), CacheValue(1, 1000));
  CHECK(cache.stats().disk->writes == 1);
}

TEST_CASE("threads share memory and disk while the limit changes", "[cache][threads]") {
  CacheWorld world;
  world.options.limit_bytes = 6 * world.options.segment_bytes;
  ExampleCache cache(100'000, world.Start());
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t state = static_cast<std::uint64_t>(t) + 1;
      for (int i = 0; i < 2000; ++i) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        const std::uint64_t n = (state >> 40) % 500;
        ExamplePtr value = cache.Find(CacheKey(n));
        if (value == nullptr) value = cache.Add(CacheKey(n), CacheValue(n, 300 + n));
        if (!Holds(value, n, 300 + n)) wrong = true;
        if (i % 200 == 0) cache.SetLimit((state >> 20) % 200'000);
        if (cache.stats().memory.bytes > 200'000) wrong = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(wrong);
  CHECK(cache.stats().hits() > 0);
}

}  // namespace
}  // namespace millrace
