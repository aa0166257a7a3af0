#include "server/plan/cache/memory_cache.h"

#include <malloc.h>
#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <thread>
#include <vector>

#include "tests/unit/server/plan/cache/made_up.h"

namespace millrace {
namespace {

using test::CacheKey;
using test::CacheValue;
using test::Holds;

std::uint64_t ChargeOf(std::size_t size) { return MemoryCache::Charge(*CacheValue(0, size)); }

/// The same, as plainly as possible.
struct PlainCache {
  std::uint64_t limit;
  std::list<std::pair<std::uint64_t, std::size_t>> used = {};  // number and size, oldest first
  std::uint64_t evictions = 0;

  auto At(std::uint64_t number) {
    return std::find_if(used.begin(), used.end(), [&](const auto& e) { return e.first == number; });
  }
  std::uint64_t Bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& entry : used) bytes += ChargeOf(entry.second);
    return bytes;
  }
  void Shrink(std::uint64_t most) {
    while (Bytes() > most) {
      used.pop_front();
      ++evictions;
    }
  }
  std::optional<std::size_t> Find(std::uint64_t number) {
    const auto found = At(number);
    if (found == used.end()) return std::nullopt;
    used.splice(used.end(), used, found);
    return used.back().second;
  }
  void Add(std::uint64_t number, std::size_t size) {
    if (Find(number) || ChargeOf(size) > limit) return;
    Shrink(limit - ChargeOf(size));
    used.emplace_back(number, size);
  }
};

TEST_CASE("a memory cache keeps and evicts what a plain model does", "[cache][property]") {
  CHECK(rc::check([] {
    PlainCache model{*rc::gen::inRange<std::uint64_t>(0, 6000)};
    MemoryCache cache(model.limit);
    std::uint64_t hits = 0;
    const auto steps = *rc::gen::inRange(0, 200);
    for (int i = 0; i < steps; ++i) {
      const auto number = *rc::gen::inRange<std::uint64_t>(0, 12);
      switch (*rc::gen::inRange(0, 8)) {
        case 0:
          model.limit = *rc::gen::inRange<std::uint64_t>(0, 6000);
          model.Shrink(model.limit);
          cache.SetLimit(model.limit);
          break;
        case 1:
        case 2:
        case 3: {
          const auto size = *rc::gen::inRange<std::size_t>(0, 1500);
          model.Add(number, size);
          RC_ASSERT(cache.Add(CacheKey(number), CacheValue(number, size)).value != nullptr);
          break;
        }
        default: {
          const auto expected = model.Find(number);
          const ExamplePtr found = cache.Find(CacheKey(number));
          RC_ASSERT((found != nullptr) == expected.has_value());
          if (expected) RC_ASSERT(Holds(found, number, *expected));
          hits += expected.has_value();
        }
      }
      const MemoryCacheStats stats = cache.stats();
      RC_ASSERT(stats.bytes == model.Bytes());
      RC_ASSERT(stats.bytes <= model.limit);
      RC_ASSERT(stats.entries == model.used.size());
      RC_ASSERT(stats.evictions == model.evictions);
      RC_ASSERT(stats.hits == hits);
    }
  }));
}

TEST_CASE("a value larger than the limit evicts nothing and is given back", "[cache]") {
  MemoryCache cache(ChargeOf(100) + ChargeOf(50));
  cache.Add(CacheKey(1), CacheValue(1, 100));
  const auto added = cache.Add(CacheKey(2), CacheValue(2, 10'000));
  CHECK_FALSE(added.is_new);
  CHECK(Holds(added.value, 2, 10'000));
  CHECK(cache.Find(CacheKey(2)) == nullptr);
  CHECK(Holds(cache.Find(CacheKey(1)), 1, 100));
  CHECK(cache.stats().refusals == 1);
}

TEST_CASE("a value stays readable after its eviction", "[cache]") {
  MemoryCache cache(1 << 20);
  cache.Add(CacheKey(1), CacheValue(1, 1000));
  const ExamplePtr held = cache.Find(CacheKey(1));
  cache.SetLimit(0);
  CHECK(cache.Find(CacheKey(1)) == nullptr);
  CHECK(cache.stats().bytes == 0);
  CHECK(Holds(held, 1, 1000));
}

TEST_CASE("equal keys that threads add at once count once and share a value", "[cache][threads]") {
  MemoryCache cache(64 << 20);
  constexpr int kThreads = 4;
  constexpr std::uint64_t kKeys = 2000;
  std::vector<std::vector<ExamplePtr>> values(kThreads);
  std::atomic<std::uint64_t> added{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t k = 0; k < kKeys; ++k) {
        const auto result = cache.Add(CacheKey(k), CacheValue(k, 100));
        added += result.is_new;
        values[t].push_back(result.value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const MemoryCacheStats stats = cache.stats();
  CHECK(added == kKeys);
  CHECK(stats.additions == kKeys);
  CHECK(stats.entries == kKeys);
  CHECK(stats.bytes == kKeys * ChargeOf(100));
  for (int t = 1; t < kThreads; ++t) CHECK(values[t] == values[0]);
}

TEST_CASE("threads find right bytes, and the limit holds at every moment", "[cache][threads]") {
  constexpr std::uint64_t kLimit = 200'000;
  MemoryCache cache(kLimit);
  std::atomic<bool> broken{false};
  std::atomic<int> running{4};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t state = static_cast<std::uint64_t>(t) + 1;
      for (int i = 0; i < 5000; ++i) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        const std::uint64_t number = (state >> 40) % 500;
        const std::size_t size = 100 + number;
        ExamplePtr value = cache.Find(CacheKey(number));
        if (value == nullptr) value = cache.Add(CacheKey(number), CacheValue(number, size)).value;
        if (!Holds(value, number, size)) broken = true;
        // The limit is never raised above kLimit.
        if (i % 100 == 0) cache.SetLimit(i % 200 == 0 ? kLimit / 2 : kLimit);
      }
      --running;
    });
  }
  while (running != 0) {
    if (cache.stats().bytes > kLimit) broken = true;
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(broken);
  cache.SetLimit(1000);
  CHECK(cache.stats().bytes <= 1000);
  cache.SetLimit(0);
  CHECK(cache.stats().bytes == 0);
  CHECK(cache.stats().entries == 0);
}

TEST_CASE("bytes never exceed the limit, not even while a value is added", "[cache][threads]") {
  constexpr std::uint64_t kLimit = 20'000;
  MemoryCache cache(kLimit);
  std::atomic<int> running{2};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t n = 0; n < 30'000; ++n) {
        cache.Add(CacheKey(2 * n + t), CacheValue(0, 2000));
      }
      --running;
    });
  }
  std::uint64_t most = 0;
  while (running != 0) most = std::max(most, cache.stats().bytes);
  for (std::thread& thread : threads) thread.join();
  CHECK(most <= kLimit);
  CHECK(most > kLimit / 2);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(_GLIBCXX_TSAN)
TEST_CASE("the bytes that a memory cache counts are those of the heap", "[cache]") {
  // The table of entries may have grown just now, or soon will.
  for (const std::uint64_t entries : {3000, 10'000, 40'000, 100'000}) {
    for (const std::size_t size : {0, 10, 300, 1024, 5000}) {
      if (entries * size > 100'000'000) continue;
      MemoryCache cache(std::uint64_t{1} << 32);
      const auto before = mallinfo2();
      for (std::uint64_t k = 0; k < entries; ++k) cache.Add(CacheKey(k), CacheValue(k, size));
      const auto after = mallinfo2();
      const double used = static_cast<double>(after.uordblks + after.hblkhd) -
                          static_cast<double>(before.uordblks + before.hblkhd);
      const double counted = static_cast<double>(cache.stats().bytes);
      INFO(entries << " entries of " << size << " bytes: counted " << counted << ", used " << used);
      CHECK(counted >= used * 0.97);
      CHECK(counted <= used * 1.15);
    }
  }
}
#endif

TEST_CASE("many keys are found as one by one, and count as used", "[cache]") {
  MemoryCache cache(std::uint64_t{64} << 20);
  constexpr std::uint64_t kValues = 1500;  // more than are looked for at once
  for (std::uint64_t n = 0; n < kValues; n += 2) cache.Add(CacheKey(n), CacheValue(n, 50));
  std::vector<Digest128> keys;
  for (std::uint64_t n = 0; n < kValues; ++n) keys.push_back(CacheKey(kValues - 1 - n));
  keys.push_back(CacheKey(0));  // a key may come twice
  std::vector<ExamplePtr> values(keys.size());
  cache.FindAll(keys, values);
  for (std::uint64_t n = 0; n < kValues; ++n) {
    const ExamplePtr& value = values[kValues - 1 - n];
    CHECK((n % 2 == 0 ? Holds(value, n, 50) : value == nullptr));
  }
  CHECK(Holds(values.back(), 0, 50));
  CHECK(cache.stats().hits == kValues / 2 + 1);
  CHECK(cache.stats().misses == kValues / 2);
  // What was found last stays longest.
  values.clear();
  std::vector<ExamplePtr> again(10);
  cache.FindAll(std::span(keys).last(10), again);
  cache.SetLimit(cache.stats().bytes / 50);
  for (std::uint64_t n = 0; n < 9; n += 2) CHECK(cache.Find(CacheKey(n)) != nullptr);
}

}  // namespace
}  // namespace millrace
