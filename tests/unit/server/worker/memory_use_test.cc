#include <catch2/catch.hpp>

#include <cstring>
#include <vector>

#include "server/worker/memory_use.h"

namespace millrace {
namespace {

TEST_CASE("work ahead has what it is given while the process is within its limit", "[memory]") {
  CHECK(WorkAheadBudget(250, 1000, {100, 0}, 0) == 250);
  CHECK(WorkAheadBudget(250, 1000, {750, 0}, 0) == 250);
}

TEST_CASE("work ahead shrinks by what all else takes beyond the rest, down to nothing",
          "[memory]") {
  CHECK(WorkAheadBudget(250, 1000, {800, 0}, 0) == 200);
  CHECK(WorkAheadBudget(250, 1000, {1000, 0}, 0) == 0);
  CHECK(WorkAheadBudget(250, 1000, {5000, 0}, 0) == 0);
}

TEST_CASE("batches themselves are not counted against batches, wherever they lie", "[memory]") {
  CHECK(WorkAheadBudget(250, 1000, {900, 0}, 150) == 250);    // on the heap
  CHECK(WorkAheadBudget(250, 1000, {750, 250}, 150) == 250);  // in shared memory
  CHECK(WorkAheadBudget(250, 1000, {900, 100}, 200) == 200);  // half each
  CHECK(WorkAheadBudget(250, 1000, {100, 0}, 150) == 250);    // not touched yet
}

TEST_CASE("the kernel's count of this process grows with what it touches", "[memory]") {
  const MemoryUse before = ReadMemoryUse();
  REQUIRE(before.anonymous > 0);
  std::vector<char> touched(64 << 20);
  std::memset(touched.data(), 1, touched.size());
  CHECK(ReadMemoryUse().anonymous >= before.anonymous + (60 << 20));
  CHECK(touched[12345] == 1);
}

}  // namespace
}  // namespace millrace
