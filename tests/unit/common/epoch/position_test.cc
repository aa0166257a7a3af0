#include "common/epoch/position.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {
namespace {

StepArithmetic Make(const StepOptions& options) { return StepArithmetic::Create(options).value(); }

std::string CreateError(const StepOptions& options) {
  return StepArithmetic::Create(options).status().ToString();
}

/// Random options that are valid for `world_size`, with orders short enough to go through one by
/// one.
StepOptions AnyOptions(std::uint32_t world_size, bool global, bool keep) {
  StepOptions options{.keep = keep, .world_size = world_size};
  // Every world size that AnyWorldSize gives divides 24.
  if (global) {
    options.global_size = 24 * *rc::gen::inRange<std::uint64_t>(1, 3);
  } else {
    options.size = *rc::gen::inRange<std::uint64_t>(1, 9);
  }
  options.examples = *rc::gen::inRange<std::uint64_t>(1, 300);
  return options;
}

std::uint32_t AnyWorldSize() { return *rc::gen::element<std::uint32_t>(1, 2, 3, 4, 6, 8); }

TEST_CASE("a full step gives every rank its even part", "[position]") {
  const auto steps = Make({.examples = 100, .size = 8, .world_size = 4});
  CHECK(steps.stride() == 32);
  CHECK(steps.batch_size() == 8);
  CHECK(steps.RankExamples({0, 32}, 0) == ExampleRange{32, 8});
  CHECK(steps.RankExamples({0, 32}, 3) == ExampleRange{56, 8});
  CHECK(steps.Next({5, 32}) == Position{5, 64});
  CHECK(steps.Ordinal({0, 64}, 3) == 11);
}

TEST_CASE("a global size makes the same steps for any world size", "[position]") {
  for (const std::uint32_t world_size : {1u, 2u, 4u, 8u}) {
    const auto steps = Make({.examples = 1000, .global_size = 64, .world_size = world_size});
    CHECK(steps.stride() == 64);
    CHECK(steps.batch_size() == 64 / world_size);
    CHECK(steps.Next({0, 128}) == Position{0, 192});
  }
}

TEST_CASE("the tail under keep is split so that ranks differ by one at most", "[position]") {
  const auto steps = Make({.examples = 10, .size = 2, .keep = true, .world_size = 4});
  const Position tail{0, 8};
  REQUIRE(steps.IsTail(tail));
  CHECK(steps.RankExamples(tail, 0) == ExampleRange{8, 0});
  CHECK(steps.RankExamples(tail, 1) == ExampleRange{8, 1});
  CHECK(steps.RankExamples(tail, 2) == ExampleRange{9, 0});
  CHECK(steps.RankExamples(tail, 3) == ExampleRange{9, 1});
  CHECK(steps.Next(tail) == Position{1, 0});
}

TEST_CASE("the end of an epoch is the start of the next", "[position]") {
  CHECK(Make({.examples = 64, .size = 32}).Next({7, 32}) == Position{8, 0});
  CHECK(Make({.examples = 64, .size = 32, .keep = true}).Next({7, 32}) == Position{8, 0});
  CHECK(Make({.examples = 70, .size = 32}).Next({7, 32}) == Position{8, 0});
  CHECK(Make({.examples = 70, .size = 32, .keep = true}).Next({7, 32}) == Position{7, 64});
}

TEST_CASE("a last step that is whole is no tail", "[position]") {
  const auto keep = Make({.examples = 64, .size = 32, .keep = true});
  CHECK_FALSE(keep.IsTail({0, 32}));
  CHECK(keep.IsTail({0, 33}));
  CHECK_FALSE(keep.IsTail({0, 64}));
  CHECK_FALSE(Make({.examples = 64, .size = 32}).IsTail({0, 33}));
}

TEST_CASE("steps and what is left out are counted from a position", "[position]") {
  const auto drop = Make({.examples = 70, .size = 32});
  CHECK(drop.StepsFrom(0) == 2);
  CHECK(drop.StepsFrom(10) == 1);
  CHECK(drop.StepsFrom(64) == 0);
  CHECK(drop.StepsFrom(1000) == 0);
  CHECK(drop.LeftOut() == 6);
  CHECK(drop.LeftOut(10) == 28);
  const auto keep = Make({.examples = 70, .size = 32, .keep = true});
  CHECK(keep.StepsFrom(0) == 3);
  CHECK(keep.StepsFrom(70) == 0);
  CHECK(keep.LeftOut() == 0);
}

TEST_CASE("a step of an epoch has a position, and one beyond it has none", "[position]") {
  const auto steps = Make({.examples = 70, .size = 8, .keep = true, .world_size = 4});
  CHECK(*steps.StepAt(5, 0) == Position{5, 0});
  CHECK(*steps.StepAt(5, 2) == Position{5, 64});
  CHECK(steps.StepAt(5, 3).status() == OutOfRange("step 3: an epoch has the steps 0 to 2"));
  CHECK(steps.StepAt(~std::uint64_t{0}, 0).status().code() == StatusCode::kOutOfRange);
  CHECK(Make({.examples = 7, .size = 8}).StepAt(0, 0).status() ==
        OutOfRange("step 0: an epoch has no step"));
}

TEST_CASE("a start where a step lies is taken as it is", "[position]") {
  CHECK(Make({.examples = 70, .size = 32}).Start({3, 38}).value() == Position{3, 38});
  CHECK(Make({.examples = 70, .size = 32, .keep = true}).Start({3, 69}).value() == Position{3, 69});
}

TEST_CASE("a resumed epoch of which drop leaves nothing is over", "[position]") {
  CHECK(Make({.examples = 70, .size = 32}).Start({3, 39}).value() == Position{4, 0});
}

TEST_CASE("an epoch without a step under drop is refused with the numbers", "[position]") {
  const auto steps = Make({.examples = 31, .size = 8, .world_size = 4});
  const std::string message =
      "FAILED_PRECONDITION: an epoch of 31 examples has no step of 32 (4 ranks with 8 each), and "
      "`remainder: drop` leaves out what does not fill one: use smaller batches, fewer ranks, or "
      "`remainder: keep`";
  CHECK(steps.Start({0, 0}).status().ToString() == message);
  // Later epochs have no step either.
  CHECK(steps.Start({2, 5}).status().ToString() == message);
  CHECK(Make({.examples = 32, .size = 8, .world_size = 4}).Start({0, 0}).ok());
}

TEST_CASE("a start beyond the epoch is refused with the numbers", "[position]") {
  CHECK(
      Make({.examples = 70, .size = 32}).Start({3, 70}).status().ToString() ==
      "OUT_OF_RANGE: cannot start at epoch 3, example 70: an epoch has 70 examples, expected 0 to "
      "69");
  CHECK(Make({.examples = 70, .size = 32}).Start({~std::uint64_t{0}, 69}).status().code() ==
        StatusCode::kOutOfRange);
}

TEST_CASE("an empty epoch is refused", "[position]") {
  for (const bool keep : {false, true}) {
    const auto steps = Make({.examples = 0, .size = 1, .keep = keep});
    CHECK(steps.Start({0, 0}).status().ToString() ==
          "FAILED_PRECONDITION: the pipeline selects no example: an epoch would be empty");
    CHECK(steps.StepsFrom(0) == 0);
  }
}

TEST_CASE("sizes that cannot be are refused with the numbers", "[position]") {
  CHECK(CreateError({.examples = 9}) ==
        "INVALID_ARGUMENT: batch size is 0 and global size is 0: expected exactly one of them, at "
        "least 1");
  CHECK(CreateError({.examples = 9, .size = 2, .global_size = 4}) ==
        "INVALID_ARGUMENT: batch size is 2 and global size is 4: expected exactly one of them, at "
        "least 1");
  CHECK(CreateError({.examples = 9, .size = std::uint64_t{1} << 31}) ==
        "INVALID_ARGUMENT: batch size 2147483648 is out of range: expected 1 to 2147483647");
  CHECK(CreateError({.examples = 9, .global_size = std::uint64_t{1} << 32, .world_size = 2}) ==
        "INVALID_ARGUMENT: global batch size 4294967296 gives 2147483648 examples to each of 2 "
        "ranks: expected at most 2147483647");
  CHECK(CreateError({.examples = ~std::uint64_t{0}, .size = 1}) ==
        "INVALID_ARGUMENT: an epoch of 18446744073709551615 examples is too long: expected at most "
        "4611686018427387904");
}

TEST_CASE("a world size that cannot be is refused with both numbers", "[position]") {
  CHECK(CreateError({.examples = 9, .size = 2, .world_size = 0}) ==
        "INVALID_ARGUMENT: world size is 0: expected at least 1");
  CHECK(CreateError({.examples = 9, .global_size = 64, .world_size = 6}) ==
        "INVALID_ARGUMENT: global batch size 64 cannot be shared evenly by 6 ranks: choose a world "
        "size that divides it");
}

TEST_CASE("the largest batches do not overflow", "[position]") {
  const std::uint64_t most = (std::uint64_t{1} << 31) - 1;
  const std::uint32_t ranks = ~std::uint32_t{0};
  const std::uint64_t n = StepArithmetic::kMaxExamples;
  const auto steps = Make({.examples = n, .size = most, .keep = true, .world_size = ranks});
  CHECK(steps.stride() == most * ranks);
  CHECK(steps.IsTail({0, 0}));
  const ExampleRange last = steps.RankExamples({0, 0}, ranks - 1);
  CHECK(last.first + last.count == n);
  CHECK(steps.Locate(n - 1, {0, 0}).value().rank == ranks - 1);
  CHECK(steps.Locate(n - 1, {0, 0}).value().row == last.count - 1);
  CHECK(steps.Next({0, 0}) == Position{1, 0});
}

TEST_CASE("every example comes once while the world size changes in an epoch", "[position]") {
  rc::prop("for size and global_size, keep and drop", [] {
    const bool keep = *rc::gen::arbitrary<bool>();
    StepOptions options = AnyOptions(AnyWorldSize(), *rc::gen::arbitrary<bool>(), keep);
    std::vector<int> seen(options.examples, 0);
    Position at{4, 0};
    std::uint64_t resumed_at = 0;
    while (at.epoch == 4) {
      resumed_at = at.example;
      auto steps = Make(options);
      const auto start = steps.Start(at);
      if (!start.ok()) RC_DISCARD("no step for this world size");
      at = *start;
      auto left = *rc::gen::inRange(1, 6);  // steps before the world size changes again
      for (; at.epoch == 4 && left > 0; --left) {
        RC_ASSERT(steps.StepsFrom(at.example) > 0u);
        for (std::uint32_t rank = 0; rank < options.world_size; ++rank) {
          const ExampleRange range = steps.RankExamples(at, rank);
          for (std::uint64_t i = 0; i < range.count; ++i) ++seen[range.first + i];
        }
        at = steps.Next(at);
      }
      if (at.epoch == 4) options.world_size = AnyWorldSize();
    }
    RC_ASSERT(at == (Position{5, 0}));
    const std::uint64_t left_out = Make(options).LeftOut(resumed_at);
    RC_ASSERT(!keep || left_out == 0u);
    RC_ASSERT(left_out < Make(options).stride());
    for (std::uint64_t i = 0; i < seen.size(); ++i) {
      RC_ASSERT(seen[i] == (i < seen.size() - left_out ? 1 : 0));
    }
  });
}

TEST_CASE("an example is located where its rank's batch has it", "[position]") {
  rc::prop("from any position", [] {
    const StepOptions options =
        AnyOptions(AnyWorldSize(), *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>());
    const auto steps = Make(options);
    const Position from{2, *rc::gen::inRange<std::uint64_t>(0, options.examples)};
    std::vector<std::optional<Location>> expected(options.examples);
    for (Position at = from; at.epoch == 2 && steps.StepsFrom(at.example) > 0;
         at = steps.Next(at)) {
      for (std::uint32_t rank = 0; rank < options.world_size; ++rank) {
        const ExampleRange range = steps.RankExamples(at, rank);
        for (std::uint32_t row = 0; row < range.count; ++row) {
          expected[range.first + row] = {
              .position = at, .step = at.example / steps.stride(), .rank = rank, .row = row};
        }
      }
    }
    for (std::uint64_t place = 0; place < options.examples; ++place) {
      RC_ASSERT(steps.Locate(place, from) == expected[place]);
    }
    RC_ASSERT(!steps.Locate(options.examples, from).has_value());
  });
}

TEST_CASE("ranks share a step without gap or overlap at any size", "[position]") {
  rc::prop("up to orders of 2^42 and batches of 2^31 - 1", [] {
    const auto any = [](std::uint64_t end) {
      return *rc::gen::resize(1000, rc::gen::inRange<std::uint64_t>(0, end));
    };
    const auto world_size = static_cast<std::uint32_t>(1 + any(40));
    const auto steps = Make({.examples = 1 + any(std::uint64_t{1} << 42),
                             .size = 1 + any((std::uint64_t{1} << 31) - 1),
                             .keep = true,
                             .world_size = world_size});
    const std::uint64_t n = steps.options().examples;
    const Position at{0, any(n)};
    std::uint64_t next = at.example;
    std::uint64_t least = ~std::uint64_t{0};
    std::uint64_t most = 0;
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      const ExampleRange range = steps.RankExamples(at, rank);
      RC_ASSERT(range.first == next);
      next += range.count;
      least = std::min<std::uint64_t>(least, range.count);
      most = std::max<std::uint64_t>(most, range.count);
      if (range.count > 0) {
        const auto location = steps.Locate(next - 1, at);
        RC_ASSERT(location.has_value());
        RC_ASSERT(location->rank == rank);
        RC_ASSERT(location->row == range.count - 1);
      }
    }
    RC_ASSERT(next == std::min(n, at.example + steps.stride()));
    RC_ASSERT(most - least <= 1u);
  });
}

}  // namespace
}  // namespace millrace
