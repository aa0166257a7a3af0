#include "server/worker/machine/batch_slices.h"

#include <catch2/catch.hpp>

#include <vector>

#include "server/worker/machine/shared_builds.h"

namespace millrace {
namespace {

TEST_CASE("slices take about 10 ms, and short batches have one", "[slices]") {
  CHECK(BatchSlices::CountOf(1024, 15.36) == 1024);
  CHECK(BatchSlices::CountOf(1000, 0.1) == 10);
  CHECK(BatchSlices::CountOf(1000, 0.095) == 10);  // of 106 rows each
  CHECK(BatchSlices::CountOf(3, 0.02) == 2);
  CHECK(BatchSlices::CountOf(1000, 0.0199) == 1);
  CHECK(BatchSlices::CountOf(1, 15) == 1);
  CHECK(BatchSlices::CountOf(0, 15) == 1);
  CHECK(BatchSlices::CountOf(1000, 0) == 1);  // nothing is known
  CHECK(BatchSlices::MayShare(0));
  CHECK(BatchSlices::MayShare(0.02));
  CHECK_FALSE(BatchSlices::MayShare(0.0199));
}

TEST_CASE("who began a batch takes its first rows, and helpers its last ones", "[slices]") {
  BatchSlices slices(10, 0.03);  // of 4 rows each
  CHECK(slices.TakeFirst() == RowSlice{0, 4});
  CHECK(slices.TakeLast() == RowSlice{6, 4});
  CHECK(slices.seconds_left() == Approx(0.006));
  CHECK(slices.TakeFirst() == RowSlice{4, 2});
  CHECK_FALSE(slices.TakeFirst());
  CHECK_FALSE(slices.may_be_helped());
  slices.Ended({4, 2}, 1, true);
  slices.Ended({0, 4}, 1, true);
  CHECK_FALSE(slices.ended());
  slices.Ended({6, 4}, 1, true);
  CHECK(slices.ended());
}

TEST_CASE("after a failure only the rows below it are built", "[slices]") {
  BatchSlices slices(10, 1);  // of a row each
  CHECK(slices.TakeLast() == RowSlice{9, 1});
  CHECK(slices.TakeLast() == RowSlice{8, 1});
  CHECK(slices.TakeFirst() == RowSlice{0, 1});
  slices.Ended({9, 1}, 0.1, false);  // nothing above it is left
  CHECK(slices.TakeFirst() == RowSlice{1, 1});
  slices.Ended({0, 1}, 0.1, true);
  slices.Ended({1, 1}, 0.1, false);
  CHECK_FALSE(slices.TakeFirst());
  CHECK_FALSE(slices.may_be_helped());
  CHECK_FALSE(slices.ended());  // row 8 is under way
  slices.Ended({8, 1}, 0.1, true);
  CHECK(slices.ended());
}

TEST_CASE("if the time of a batch is not known, its first rows say how long the others take",
          "[slices]") {
  BatchSlices slow(1024, 0);
  CHECK_FALSE(slow.may_be_helped());
  CHECK(slow.TakeFirst() == RowSlice{0, 1});
  slow.Ended({0, 1}, 0.015, true);
  CHECK(slow.may_be_helped());
  CHECK(slow.seconds_left() == Approx(1023 * 0.015));
  CHECK(slow.TakeLast() == RowSlice{1023, 1});

  BatchSlices fast(100, 0);
  std::vector<std::size_t> rows;
  while (const auto slice = fast.TakeFirst()) {
    rows.push_back(slice->rows);
    fast.Ended(*slice, 0.0001 * static_cast<double>(slice->rows), true);
  }
  CHECK(rows == std::vector<std::size_t>{1, 2, 4, 8, 16, 32, 37});

  // A process that starts for the first row makes it look slow.
  BatchSlices late(1000, 0);
  late.Ended(*late.TakeFirst(), 1, true);
  CHECK(late.TakeFirst()->rows == 1);
  late.Ended({1, 1}, 0.001, true);
  CHECK(late.TakeFirst()->rows == 2);
  late.Ended({2, 2}, 0.002, true);
  CHECK(late.TakeFirst()->rows == 4);
  late.Ended({4, 4}, 0.004, true);
  CHECK(late.TakeFirst()->rows == 8);
  late.Ended({8, 8}, 0.008, true);
  CHECK(late.TakeFirst()->rows == 10);
}

BuildTask Task(std::uint64_t build) {
  BuildTask task;
  task.build = build;
  return task;
}

TEST_CASE("a helper goes to the first batch that suits and has enough left", "[slices]") {
  const auto any = [](const BuildTask&) { return true; };
  SharedBuilds builds;
  CHECK_FALSE(builds.TakeToHelp(0, any));
  builds.Begin(Task(7), 4, 0.04, 8);
  builds.Begin(Task(9), 100, 1, 8);
  CHECK(builds.TakeToHelp(0, any)->task.build == 7);
  CHECK(builds.TakeToHelp(0.02, any)->task.build == 7);
  CHECK(builds.TakeToHelp(0.021, any)->task.build == 9);
  CHECK_FALSE(builds.TakeToHelp(2, any));
  CHECK(builds.TakeToHelp(0, [](const BuildTask& task) { return task.build == 9; })->task.build ==
        9);
  CHECK(builds.TakeOwn(7)->slice == RowSlice{0, 1});
  CHECK(builds.TakeOwn(7)->slice == RowSlice{1, 1});
  CHECK_FALSE(builds.TakeOwn(7));
  CHECK_FALSE(builds.TakeOwn(8));
  CHECK(builds.End(7));
  CHECK_FALSE(builds.End(7));
}

TEST_CASE("no more threads are at a batch than a plugin has processes", "[slices]") {
  const auto any = [](const BuildTask&) { return true; };
  SharedBuilds builds;
  builds.Begin(Task(1), 10, 1, 2);
  const auto own = builds.TakeOwn(1);
  REQUIRE(own);
  const auto help = builds.TakeToHelp(0, any);
  REQUIRE(help);
  CHECK_FALSE(builds.TakeToHelp(0, any));
  CHECK_FALSE(builds.Ended(*help, 0.1, true).ended);
  CHECK(builds.TakeToHelp(0, any));
}

TEST_CASE("helpers are told once that it is known how long rows take", "[slices]") {
  SharedBuilds builds;
  builds.Begin(Task(1), 10, 0, 8);
  CHECK(builds.Ended(*builds.TakeOwn(1), 0.1, true).helpers_may_come);
  CHECK_FALSE(builds.Ended(*builds.TakeOwn(1), 0.1, true).helpers_may_come);
}

}  // namespace
}  // namespace millrace
