#include "client/session/machine/free_steps.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <set>

namespace millrace::client {
namespace {

TEST_CASE("all steps are free at first, and none that is past", "[free_steps]") {
  FreeSteps free;
  CHECK(free.At(0) == 0);
  CHECK(free.At(1000) == 1000);
  free.Pass(70);
  CHECK(free.At(0) == 70);
  CHECK(free.At(5) == 75);
  CHECK_FALSE(free.IsFree(69));
  free.Free(3);
  CHECK(free.At(0) == 70);
  free.Pass(60);  // nothing comes back
  CHECK(free.At(0) == 70);
}

TEST_CASE("steps that are left out are free until they are taken", "[free_steps]") {
  FreeSteps free;
  free.Take(5);
  CHECK(free.At(4) == 4);
  CHECK(free.At(5) == 6);
  for (std::uint64_t step = 0; step < 5; ++step) free.Take(step);
  CHECK(free.At(0) == 6);
  free.Free(2);
  CHECK(free.At(0) == 2);
  CHECK(free.At(1) == 6);
}

TEST_CASE("free steps are found as in a set of them, whatever was done", "[free_steps]") {
  rc::prop("FreeSteps", [] {
    constexpr std::uint64_t kSteps = 400;
    FreeSteps free;
    std::set<std::uint64_t> expected;
    for (std::uint64_t step = 0; step < 2 * kSteps; ++step) expected.insert(step);
    std::uint64_t next = 0;
    for (int i = 0; i < 100; ++i) {
      const auto step = *rc::gen::inRange<std::uint64_t>(0, kSteps);
      switch (*rc::gen::inRange(0, 4)) {
        case 0:
          free.Free(step);
          if (step >= next) expected.insert(step);
          break;
        case 1:
          next = std::max(next, std::min(step, next + 20));
          free.Pass(next);
          expected.erase(expected.begin(), expected.lower_bound(next));
          break;
        default:
          free.Take(step);
          expected.erase(step);
      }
      std::uint64_t skipped = 0;
      for (const std::uint64_t each : expected) {
        if (skipped > 40) break;
        RC_ASSERT(free.At(skipped++) == each);
      }
      RC_ASSERT(free.IsFree(step) == expected.contains(step));
    }
  });
}

}  // namespace
}  // namespace millrace::client
