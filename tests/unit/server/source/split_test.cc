#include <catch2/catch.hpp>

#include "server/source/split.h"

namespace millrace::test {
namespace {

TEST_CASE("the hash split is the reference's", "[split]") {
  // The values come from Python: int.from_bytes(md5(b"<identity>#<seed>").digest(), "big") %
  // 1000000007 …
  SplitOptions options;
  options.method = SplitMethod::kHash;
  options.proportions = {9, 1};
  const HashSplit two = *HashSplit::Create(options);
  for (std::uint64_t identity = 0; identity < 40; ++identity) {
    const bool second = identity == 8 || identity == 25 || identity == 32 || identity == 39;
    CHECK(two.Label(identity) == (second ? 1 : 0));
  }
  options.proportions = {8, 1, 1};
  options.seed = 42;
  const HashSplit three = *HashSplit::Create(options);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::uint32_t expected = i == 3 || i == 17 ? 2 : (i == 5 ? 1 : 0);
    CHECK(three.Label(~std::uint64_t{0} - i) == expected);
  }
}

TEST_CASE("a part of proportion 0 has nothing", "[split]") {
  SplitOptions options;
  options.method = SplitMethod::kHash;
  options.proportions = {0, 1};
  const HashSplit second = *HashSplit::Create(options);
  for (std::uint64_t identity = 0; identity < 100; ++identity) CHECK(second.Label(identity) == 1);
}

TEST_CASE("an identity on the bound of two parts belongs to the first", "[split]") {
  // int.from_bytes(md5(b"1#0").digest(), "big") % 1000000007
  constexpr std::int64_t kPlace = 579632512;
  const auto label = [](std::int64_t first) {
    SplitOptions options;
    options.method = SplitMethod::kHash;
    options.proportions = {first, 1'000'000'007 - first};
    return HashSplit::Create(options)->Label(1);
  };
  CHECK(label(kPlace) == 0);
  CHECK(label(kPlace - 1) == 1);
}

TEST_CASE("a split has a label for each part, and file prefixes one more", "[split]") {
  SplitOptions options;
  options.proportions = {8, 1, 1};
  options.prefixes = {{"a"}, {"b", "c"}};
  CHECK(options.labels() == 1);
  options.method = SplitMethod::kHash;
  CHECK(options.labels() == 3);
  options.method = SplitMethod::kFilePrefix;
  CHECK(options.labels() == 3);
  options.prefixes.clear();
  CHECK(options.labels() == 1);
}

TEST_CASE("proportions that cannot be are refused", "[split]") {
  SplitOptions options;
  options.proportions = {3, -1};
  CHECK(HashSplit::Create(options).status().message() ==
        "split.proportions: -1 is negative: expected numbers from 0 up");
  options.proportions = {0, 0};
  CHECK_FALSE(HashSplit::Create(options).ok());
}

}  // namespace
}  // namespace millrace::test
