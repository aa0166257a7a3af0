#include <catch2/catch.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/plan/order/bounds.h"
#include "server/plan/order/classes.h"
#include "tests/unit/server/plan/order/golden_orders.h"

namespace millrace::test {
namespace {

using ClassBounds = std::vector<std::uint64_t>;
using ValuesOfRows = std::vector<std::int64_t>;

std::size_t PlainClass(const ClassBounds& bounds, std::int64_t value) {
  return static_cast<std::size_t>(std::count_if(
      bounds.begin(), bounds.end(),
      [value](std::uint64_t bound) { return bound < static_cast<std::uint64_t>(value); }));
}

/// Both passes, the second one in two pieces.
Result<Classes> ClassesOf(const ClassBounds& bounds, const ValuesOfRows& values) {
  ClassCounter counter(bounds);
  counter.Add(values);
  Classes::Builder builder(bounds, counter.counts(), values.size());
  builder.Add(std::span(values).first(values.size() / 3));
  builder.Add(std::span(values).subspan(values.size() / 3));
  return std::move(builder).Build();
}

/// Compares all answers with plain lists.
void CheckClasses(const ClassBounds& bounds, const ValuesOfRows& values) {
  const Result<Classes> classes = ClassesOf(bounds, values);
  REQUIRE(classes.status() == OkStatus());
  std::vector<std::vector<std::uint64_t>> rows(bounds.size() + 1);
  for (std::uint64_t row = 0; row < values.size(); ++row) {
    std::vector<std::uint64_t>& of = rows[PlainClass(bounds, values[row])];
    const Classes::Member member{PlainClass(bounds, values[row]), of.size()};
    of.push_back(row);
    const bool has_class = member.c < bounds.size();
    REQUIRE(classes->ClassOf(row) == (has_class ? std::optional(member) : std::nullopt));
    if (has_class) REQUIRE(classes->Find(member.c, row) == member.i);
  }
  for (const std::uint64_t row : {values.size(), std::size_t{1} << 40}) {
    REQUIRE(classes->ClassOf(row) == std::nullopt);
  }
  REQUIRE(classes->size() == bounds.size());
  for (std::size_t c = 0; c < bounds.size(); ++c) {
    REQUIRE(classes->count(c) == rows[c].size());
    for (std::uint64_t i = 0; i < rows[c].size(); ++i) REQUIRE(classes->Select(c, i) == rows[c][i]);
  }
}

TEST_CASE("the class of a value is the number of bounds below it", "[classes]") {
  for (const std::size_t count : {0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 1023, 1024}) {
    ClassBounds bounds;
    for (std::uint64_t i = 0; i < count; ++i) bounds.push_back(i * 3);
    const ClassFinder finder(bounds);
    REQUIRE(finder.size() == count);
    for (std::int64_t value = 0; value < static_cast<std::int64_t>(3 * count + 3); ++value) {
      REQUIRE(finder(value) == PlainClass(bounds, value));
    }
    REQUIRE(finder(std::int64_t{1} << 40) == count);
    REQUIRE(finder(-1) == count);
  }
}

TEST_CASE("classes have the rows that plain lists have", "[classes]") {
  rc::prop("for any values and bounds, among them bounds that do not occur", [] {
    const auto most = *rc::gen::element<std::int64_t>(1, 5, 60);
    const auto set = *rc::gen::container<std::set<std::uint64_t>>(
        rc::gen::inRange<std::uint64_t>(0, static_cast<std::uint64_t>(most)));
    const auto values = *rc::gen::scale(
        20, rc::gen::container<ValuesOfRows>(rc::gen::inRange<std::int64_t>(0, most)));
    CheckClasses({set.begin(), set.end()}, values);
  });
}

TEST_CASE("classes may be rare, contiguous, empty or all rows", "[classes]") {
  ValuesOfRows values(20'000);
  SECTION("a class has three rows") {
    for (const std::size_t row : {0, 12'345, 19'999}) values[row] = 7;
  }
  SECTION("rows of a class are neighbours") {
    for (std::size_t row = 0; row < values.size(); ++row) {
      values[row] = static_cast<std::int64_t>(row / 4000 * 3);
    }
  }
  SECTION("one class has all rows") {}
  SECTION("all rows are above the last bound") { values.assign(values.size(), 100); }
  CheckClasses({0, 3, 6, 7, 8, 9}, values);
  CheckClasses({7}, values);
}

TEST_CASE("there may be no rows and no classes", "[classes]") {
  CheckClasses({}, {});
  CheckClasses({}, {1, 2, 3});
  CheckClasses({5, 9}, {});
}

TEST_CASE("a first pass counts rows with and without a class", "[classes]") {
  ClassCounter counter(ClassBounds{2, 5});
  counter.Add(ValuesOfRows{1, 3, 9, 2, 6});
  counter.Add(ValuesOfRows{0});
  CHECK(std::vector(counter.counts().begin(), counter.counts().end()) == ClassBounds{3, 1});
  CHECK(counter.above() == 2);
  CHECK(counter.largest() == 9);
}

TEST_CASE("values that change between the two passes are an error", "[classes]") {
  const auto build = [](const ValuesOfRows& values) {
    Classes::Builder builder(ClassBounds{2, 5}, ClassBounds{2, 1}, 4);
    builder.Add(values);
    return std::move(builder).Build().status().code();
  };
  CHECK(build({1, 2, 3, 6}) == StatusCode::kOk);
  CHECK(build({1, 2, 3, 3}) == StatusCode::kAborted);     // one row too many in a class
  CHECK(build({1, 2, 6, 6}) == StatusCode::kAborted);     // one too few
  CHECK(build({1, 2, 3}) == StatusCode::kAborted);        // too few rows
  CHECK(build({1, 2, 3, 6, 6}) == StatusCode::kAborted);  // too many
}

TEST_CASE("rows beyond the count of a class are not written past its end", "[classes]") {
  Classes::Builder builder(ClassBounds{2}, ClassBounds{1}, 10'000'000);
  builder.Add(ValuesOfRows(10'000'000, 1));
  CHECK(std::move(builder).Build().status().code() == StatusCode::kAborted);
}

TEST_CASE("classes have the recorded numbers of rows", "[classes][golden]") {
  std::size_t cases = 0;
  for (const std::string name : {"bucket", "bucket_large"}) {
    for (const GoldenOrder& one : GoldenOrders(name)) {
      const nlohmann::json& params = one.params;
      INFO(params.dump().substr(0, 300));
      const ValuesOfRows values = GoldenValues(params);
      const auto bounds = one.expected["bounds"].get<ClassBounds>();
      const auto counts = one.expected["counts"].get<ClassBounds>();
      ValueHistogram histogram(params.value("budget", ValueHistogram::kMaxValue));
      histogram.Add(values);
      if (params.contains("count")) CHECK(BestBounds(histogram, params["count"]) == bounds);
      CHECK(BucketCounts(histogram, bounds) == counts);
      const Result<Classes> classes = ClassesOf(bounds, values);
      REQUIRE(classes.status() == OkStatus());
      REQUIRE(classes->size() == counts.size());
      for (std::size_t c = 0; c < counts.size(); ++c) CHECK(classes->count(c) == counts[c]);
      ++cases;
    }
  }
  CHECK(cases == 21);
}

}  // namespace
}  // namespace millrace::test
