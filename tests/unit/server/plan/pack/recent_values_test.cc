#include <catch2/catch.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "server/plan/pack/recent_values.h"

namespace millrace::test {
namespace {

struct Kept {
  std::uint64_t number = 0;
  std::uint64_t size = 0;
  std::uint64_t bytes() const { return size; }
};
using KeptValues = RecentValues<Kept>;
using KeptPtr = KeptValues::Pointer;

/// Gets a number whose value has 1,000 bytes, or says that it had to be made.
bool IsMade(KeptValues& values, std::uint64_t number, std::uint64_t size = 1000) {
  bool made = false;
  const auto value = values.Get(number, [&]() -> Result<KeptPtr> {
    made = true;
    return KeptPtr(std::make_shared<const Kept>(Kept{number, size}));
  });
  CHECK((*value)->number == number);
  return made;
}

TEST_CASE("the values that were used last are kept within the limit", "[pack][cache]") {
  KeptValues values(3700);  // three values, with what the cache needs for each
  CHECK(IsMade(values, 1));
  CHECK(IsMade(values, 2));
  CHECK(IsMade(values, 3));
  CHECK_FALSE(IsMade(values, 1));
  CHECK(IsMade(values, 4));  // 2 was not used for longest
  CHECK_FALSE(IsMade(values, 1));
  CHECK_FALSE(IsMade(values, 3));
  CHECK_FALSE(IsMade(values, 4));
  CHECK(IsMade(values, 2));
  const RecentValuesStats stats = values.stats();
  CHECK(stats.found == 4);
  CHECK(stats.made == 5);
  CHECK(stats.values == 3);
  CHECK(stats.bytes <= 3700);
  CHECK(stats.bytes > 3000);
}

TEST_CASE("the value that was used last is kept though it is above the limit", "[pack][cache]") {
  KeptValues values(0);
  CHECK(IsMade(values, 1, 5000));
  CHECK_FALSE(IsMade(values, 1));
  CHECK(IsMade(values, 2));
  CHECK_FALSE(IsMade(values, 2));
  CHECK(IsMade(values, 1));
  CHECK(values.stats().values == 1);
}

TEST_CASE("an error is not kept", "[pack][cache]") {
  KeptValues values(10'000);
  const auto failed = values.Get(7, []() -> Result<KeptPtr> { return DataLoss("cannot be made"); });
  CHECK(failed.status().message() == "cannot be made");
  CHECK(values.stats().values == 0);
  CHECK(IsMade(values, 7));
  CHECK_FALSE(IsMade(values, 7));
}

TEST_CASE("a value that several threads want is made once", "[pack][cache]") {
  KeptValues values(10'000);
  std::atomic<int> made = 0;
  std::atomic<int> asked = 0;
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        ++asked;
        const auto value = values.Get(5, [&]() -> Result<KeptPtr> {
          ++made;
          while (asked < 4) std::this_thread::yield();  // until all want it
          return KeptPtr(std::make_shared<const Kept>(Kept{5, 10}));
        });
        right += value.ok() && (*value)->number == 5 ? 1 : 0;
      });
    }
  }
  CHECK(made == 1);
  CHECK(right == 4);
}

TEST_CASE("a thread that waits for a value makes it if another one could not", "[pack][cache]") {
  KeptValues values(10'000);
  std::atomic<int> calls = 0;
  std::atomic<int> asked = 0;
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        ++asked;
        const auto value = values.Get(5, [&]() -> Result<KeptPtr> {
          const bool first = calls++ == 0;
          while (asked < 3) std::this_thread::yield();
          if (first) return Unavailable("not yet");
          return KeptPtr(std::make_shared<const Kept>(Kept{5, 10}));
        });
        right += value.ok() ? 1 : 0;
      });
    }
  }
  CHECK(calls == 2);
  CHECK(right == 2);
}

}  // namespace
}  // namespace millrace::test
