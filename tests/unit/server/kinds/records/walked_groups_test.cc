// The table of steps between records that were taken before.
#include "server/kinds/records/walked_groups.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

namespace millrace {
namespace {

using Ends = std::vector<std::uint32_t>;

bool operator==(const WalkedGroups::Steps& a, const WalkedGroups::Steps& b) {
  return a.count == b.count && a.bytes == b.bytes;
}

TEST_CASE("steps that were taken are known, as far as they lead", "[walked_groups]") {
  WalkedGroups groups(4);
  CHECK(groups.Find(0, 15).count == 0);
  groups.Add(0, 0, Ends{10, 30, 60});
  CHECK((groups.Find(0, 15) == WalkedGroups::Steps{3, 60}));
  CHECK((groups.Find(0, 3) == WalkedGroups::Steps{3, 60}));
  CHECK((groups.Find(0, 2) == WalkedGroups::Steps{2, 30}));
  CHECK(groups.Find(0, 0).count == 0);
  CHECK(groups.Find(4, 15).count == 0);  // has the same entry
  groups.Add(0, 3, Ends{100});
  CHECK((groups.Find(0, 15) == WalkedGroups::Steps{4, 100}));
}

TEST_CASE("a longer way stays if a shorter one comes", "[walked_groups]") {
  WalkedGroups groups(4);
  groups.Add(3, 0, Ends{10, 30, 60});
  groups.Add(3, 0, Ends{10});
  CHECK((groups.Find(3, 15) == WalkedGroups::Steps{3, 60}));
}

TEST_CASE("another group takes the place, and what follows on steps that are gone is not kept",
          "[walked_groups]") {
  WalkedGroups groups(4);
  groups.Add(1, 0, Ends{10, 30});
  groups.Add(5, 0, Ends{7});
  CHECK(groups.Find(1, 15).count == 0);
  CHECK((groups.Find(5, 15) == WalkedGroups::Steps{1, 7}));
  groups.Add(1, 2, Ends{60});
  CHECK(groups.Find(1, 15).count == 0);
  CHECK((groups.Find(5, 15) == WalkedGroups::Steps{1, 7}));
}

TEST_CASE("threads that write and read one entry never see steps of another group",
          "[walked_groups]") {
  WalkedGroups groups(1);
  std::atomic<std::uint64_t> wrong = 0;
  std::atomic<std::uint64_t> found = 0;
  const auto work = [&](std::uint64_t group) {
    Ends ends(15);
    std::iota(ends.begin(), ends.end(), static_cast<std::uint32_t>(group * 1000 + 1));
    for (int i = 0; i < 50'000; ++i) {
      groups.Add(group, 0, std::span(ends).first(1 + i % 15));
      const WalkedGroups::Steps steps = groups.Find(group, 1 + i % 15);
      if (steps.count == 0) continue;
      ++found;
      if (steps.bytes != group * 1000 + steps.count) ++wrong;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t group = 0; group < 4; ++group) threads.emplace_back(work, group);
  }
  CHECK(found > 0);
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace millrace
