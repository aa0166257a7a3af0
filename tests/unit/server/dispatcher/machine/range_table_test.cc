#include <catch2/catch.hpp>

#include <vector>

#include "server/dispatcher/machine/range_table.h"

namespace millrace::test {
namespace {

using Ranges = std::vector<std::uint64_t>;
constexpr WorkerId kOne({1, 1});
constexpr WorkerId kTwo({1, 2});

TEST_CASE("ranges are given once, and again after they are taken back", "[columns]") {
  RangeTable table(1000);
  CHECK(table.ranges() == 4);
  CHECK(table.SizeOf(3) == 232);
  CHECK(table.Open(9) == Ranges{0, 1, 2, 3});
  table.Give(0, kOne);
  table.Give(1, kTwo);
  CHECK(table.Open(9) == Ranges{2, 3});
  table.Done(1);
  table.TakeBack(kOne);
  table.TakeBack(kTwo);
  CHECK(table.given().empty());
  CHECK(table.Open(2) == Ranges{0, 2});
  table.Give(0, kTwo);
  table.Done(0);  // by anybody
  CHECK(table.given().empty());
  CHECK(table.measured() == 512);
  CHECK_FALSE(table.complete());
  table.Done(3);
  table.Done(2);
  CHECK(table.complete());
  CHECK(table.Open(9).empty());
}

TEST_CASE("ranges that were measured before are not open", "[columns]") {
  RangeTable table(1024);
  table.Done(0);
  table.Done(2);
  CHECK(table.Open(1) == Ranges{1});
  table.Give(1, kOne);
  CHECK(table.Open(9) == Ranges{3});
  table.Give(3, kOne);
  table.TakeBack(kOne);
  CHECK(table.Open(9) == Ranges{1, 3});
}

TEST_CASE("a source without examples is measured", "[columns]") {
  const RangeTable table(0);
  CHECK(table.complete());
  CHECK(table.Open(9).empty());
}

}  // namespace
}  // namespace millrace::test
