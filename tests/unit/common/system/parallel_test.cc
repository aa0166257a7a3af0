#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <vector>

#include "common/system/parallel.h"

namespace millrace {
namespace {

TEST_CASE("every piece of parallel work is done once", "[parallel]") {
  for (const unsigned threads : {0u, 1u, 2u, 9u}) {
    std::vector<std::atomic<int>> done(1000);
    ParallelFor(threads, done.size(), [&](std::size_t i) { ++done[i]; });
    CHECK(std::all_of(done.begin(), done.end(), [](const auto& n) { return n == 1; }));
  }
}

}  // namespace
}  // namespace millrace
