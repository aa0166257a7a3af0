#include "common/epoch/permutation.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/hash.h"

namespace millrace {
namespace {

/// Whether all places have different values, and the place of every value is found.
bool IsBijection(const Permutation& permutation) {
  std::vector<bool> seen(permutation.size(), false);
  for (std::uint64_t place = 0; place < permutation.size(); ++place) {
    const std::uint64_t value = permutation(place);
    if (value >= permutation.size() || seen[value] || permutation.Inverse(value) != place) {
      return false;
    }
    seen[value] = true;
  }
  return true;
}

std::string DigestOfOrder(const Permutation& permutation) {
  std::vector<std::uint64_t> order(permutation.size());
  for (std::uint64_t i = 0; i < order.size(); ++i) order[i] = permutation(i);
  return Xxh3(std::as_bytes(std::span(order))).ToHex();
}

TEST_CASE("the order of every size to 4096 is a bijection with its inverse", "[permutation]") {
  for (std::uint64_t n = 1; n <= 4096; ++n) {
    INFO("n " << n);
    REQUIRE(IsBijection(Permutation(n * 31, n % 7, n)));
  }
}

TEST_CASE("longer orders are bijections", "[permutation]") {
  for (const std::uint64_t n : {65'535u, 65'536u, 65'537u, 1'000'003u}) {
    INFO("n " << n);
    REQUIRE(IsBijection(Permutation(3, 4, n)));
  }
}

TEST_CASE("values and places of long orders lead back to each other", "[permutation]") {
  rc::prop("to the largest size, next to squares and powers of two", [] {
    const auto below = [](std::uint64_t end) {
      return *rc::gen::resize(1000, rc::gen::inRange<std::uint64_t>(0, end));
    };
    const std::uint64_t base = *rc::gen::oneOf(
        rc::gen::map(rc::gen::inRange<std::uint64_t>(6, 61),
                     [](auto k) { return std::uint64_t{1} << k; }),
        rc::gen::map(
            rc::gen::resize(1000, rc::gen::inRange<std::uint64_t>(10, std::uint64_t{1} << 30)),
            [](auto root) { return root * root; }),
        rc::gen::resize(1000, rc::gen::inRange<std::uint64_t>(67, std::uint64_t{1} << 40)),
        rc::gen::just(Permutation::kMaxSize - 2));
    const std::uint64_t n = base + 2 - *rc::gen::inRange<std::uint64_t>(0, 5);
    const Permutation permutation(*rc::gen::arbitrary<std::uint64_t>(),
                                  *rc::gen::arbitrary<std::uint64_t>(), n);
    for (const std::uint64_t x : {std::uint64_t{0}, n - 1, below(n), below(n), below(n)}) {
      RC_ASSERT(permutation(x) < n);
      RC_ASSERT(permutation.Inverse(permutation(x)) == x);
      RC_ASSERT(permutation.Inverse(x) < n);
      RC_ASSERT(permutation(permutation.Inverse(x)) == x);
    }
  });
}

TEST_CASE("neighbouring places of the longest orders have values of their own", "[permutation]") {
  for (const std::uint64_t n : {(std::uint64_t{1} << 40) + 1, Permutation::kMaxSize}) {
    const Permutation permutation(1, 0, n);
    std::set<std::uint64_t> values;
    for (std::uint64_t i = 0; i < 10'000; ++i) values.insert(permutation(n / 3 + i));
    CHECK(values.size() == 10'000);
  }
}

TEST_CASE("every seed and epoch has an order of its own", "[permutation]") {
  // These are small numbers, and numbers that differ in one bit; each of them is a seed and an
  // epoch.
  std::set<std::uint64_t> words;
  for (std::uint64_t i = 0; i < 100; ++i) words.insert({i, ~i, 0x9E3779B97F4A7C15u * i});
  for (int bit = 0; bit < 64; ++bit) words.insert(std::uint64_t{1} << bit);
  std::set<std::array<std::uint64_t, 4>> beginnings;
  for (const std::uint64_t seed : words) {
    for (const std::uint64_t epoch : words) {
      const Permutation p(seed, epoch, std::uint64_t{1} << 40);
      beginnings.insert({p(0), p(1), p(2), p(3)});
    }
  }
  CHECK(beginnings.size() == words.size() * words.size());
}

TEST_CASE("orders that differ by one in size have nothing in common", "[permutation]") {
  const Permutation p(0, 0, 100'000);
  const Permutation q(0, 0, 100'001);
  int same = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) same += p(i) == q(i);
  CHECK(same < 10);
}

TEST_CASE("a division by the reciprocal is exact at every border", "[permutation]") {
  // The test visits the first and the last place of each row of a network, where a quotient that is
  // off by one would show.
  for (const std::uint64_t n :
       {std::uint64_t{65}, std::uint64_t{4095}, (std::uint64_t{1} << 61) + 1}) {
    const Permutation permutation(9, 9, n);
    const std::uint64_t step = n < 5000 ? 1 : n / 4099;
    for (std::uint64_t place = 0; place < n - step; place += step) {
      REQUIRE(permutation.Inverse(permutation(place)) == place);
    }
  }
}

TEST_CASE("the numbers never change", "[permutation]") {
  // These values are part of `semantics: 1`: a difference here breaks every cursor and every
  // recorded run.
  const auto first_eight = [](std::uint64_t seed, std::uint64_t epoch, std::uint64_t n) {
    std::vector<std::uint64_t> values;
    const Permutation permutation(seed, epoch, n);
    for (std::uint64_t i = 0; i < 8; ++i) values.push_back(permutation(i));
    return values;
  };
  using Values = std::vector<std::uint64_t>;
  CHECK(first_eight(0, 0, 8) == Values{5, 1, 2, 6, 7, 4, 3, 0});
  CHECK(first_eight(0, 1, 8) == Values{1, 2, 5, 6, 0, 7, 4, 3});
  CHECK(first_eight(1, 0, 64) == Values{16, 38, 41, 60, 53, 13, 47, 52});
  CHECK(first_eight(1, 0, 65) == Values{34, 28, 9, 51, 61, 42, 52, 46});
  CHECK(first_eight(42, 7, 1'000'000) ==
        Values{481002, 216086, 368264, 414463, 16206, 413566, 641656, 563300});
  CHECK(first_eight(~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 40) ==
        Values{769296851952, 597692728816, 533889728653, 925028770263, 426758229854, 914668303677,
               873694804961, 1058131254523});
  CHECK(first_eight(5, 5, Permutation::kMaxSize) ==
        Values{1174083153341122751, 4250823492039734569, 64536244908513990, 1101831761973593339,
               2017762655513290110, 1369355912533146980, 95293103417958354, 3585070714124937083});
  CHECK(DigestOfOrder({1, 2, 64}) == "5fb6a78cca0533b26c07e029be798efe");
  CHECK(DigestOfOrder({1, 2, 65}) == "002e2a07808f8b362257adf752a6a141");
  CHECK(DigestOfOrder({1, 2, 65'535}) == "5385c0c372dd1b77787edc3e90784f89");
  CHECK(DigestOfOrder({1, 2, 65'536}) == "01e61ef42f63d681d232a9f3b5717e72");
}

}  // namespace
}  // namespace millrace
