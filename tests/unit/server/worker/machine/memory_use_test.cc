#include <catch2/catch.hpp>

#include "server/worker/machine/memory_use.h"

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
  CHECK(WorkAheadBudget(250, 1000, {900, 0}, 150) == 250);    // batches are on the heap
  CHECK(WorkAheadBudget(250, 1000, {750, 250}, 150) == 250);  // batches are in shared memory
  CHECK(WorkAheadBudget(250, 1000, {900, 100}, 200) == 200);  // half of them in each
  CHECK(WorkAheadBudget(250, 1000, {100, 0}, 150) == 250);    // their memory was not touched yet
}

TEST_CASE("processes of plugins count in the limit, whatever the batches take", "[memory]") {
  CHECK(WorkAheadBudget(250, 1000, {100, 0, 600}, 0) == 250);
  CHECK(WorkAheadBudget(250, 1000, {100, 0, 800}, 0) == 100);
  CHECK(WorkAheadBudget(250, 1000, {100, 0, 2000}, 0) == 0);
  CHECK(WorkAheadBudget(250, 1000, {100, 0, 800}, 150) == 200);  // batches are on the heap
  CHECK(CacheBudget(250, 1000, {100, 0, 500}, 0, 250) == 150);
}

TEST_CASE("processes of plugins leave half of the room for batches", "[memory]") {
  CHECK(PluginRoom(250, 1000, {100, 0, 200}, 0) == 575);
  CHECK(PluginRoom(250, 1000, {100, 0, 800}, 0) == -25);
  CHECK(PluginRoom(250, 1000, {350, 0, 200}, 250) == 575);  // the batches are on the heap
}

TEST_CASE("as many processes run as there is room for, never more than twice as many as before",
          "[memory]") {
  CHECK(ProcessesInRoom(16, 1, 100, 10'000) == 2);
  CHECK(ProcessesInRoom(16, 8, 800, 10'000) == 16);
  CHECK(ProcessesInRoom(16, 8, 800, 300) == 10);
  CHECK(ProcessesInRoom(16, 8, 800, 130) == 8);  // not into the last quarter
  CHECK(ProcessesInRoom(16, 8, 800, 0) == 8);
  CHECK(ProcessesInRoom(16, 8, 800, -1) == 7);
  CHECK(ProcessesInRoom(16, 8, 800, -10'000) == 1);
  CHECK(ProcessesInRoom(4, 4, 400, 10'000) == 4);
  CHECK(ProcessesInRoom(4, 0, 0, 10'000) == 1);
}

TEST_CASE("the cache has what batches and everything else leave", "[memory]") {
  CHECK(CacheBudget(250, 1000, {100, 0}, 0, 250) == 250);
  CHECK(CacheBudget(250, 1000, {600, 0}, 0, 250) == 150);
  CHECK(CacheBudget(250, 1000, {750, 0}, 0, 250) == 0);
  CHECK(CacheBudget(250, 1000, {5000, 0}, 0, 0) == 0);
  CHECK(CacheBudget(250, 1000, {700, 0}, 200, 250) == 250);  // 200 of them are batches
}

}  // namespace
}  // namespace millrace
