// The small parts of a plan: bitmaps, labels, splits.
#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include <rapidcheck/catch.h>

#include "server/dataset/split.h"
#include "server/pipeline/node_labels.h"
#include "server/pipeline/ranked_bitmap.h"
#include "tests/unit/server/pipeline/fake_index.h"

namespace millrace::test {
namespace {

TEST_CASE("rank and select of a bitmap are each other's inverse", "[bitmap]") {
  rc::prop("for sets of every density", [] {
    const auto size = *rc::gen::inRange<std::uint64_t>(1, 20'000);
    const auto one_in = *rc::gen::element<int>(1, 2, 30, 3000);
    const auto begin = *rc::gen::inRange<std::uint64_t>(0, size);
    RankedBitmap bitmap(size);
    std::vector<std::uint64_t> members;
    std::uint64_t state = begin;
    for (std::uint64_t n = begin; n < size; ++n) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      if ((state >> 33) % static_cast<std::uint64_t>(one_in) != 0) continue;
      bitmap.Set(n);
      members.push_back(n);
    }
    bitmap.Seal();
    RC_ASSERT(bitmap.count() == members.size());
    for (std::uint64_t rank = 0; rank < members.size(); ++rank) {
      RC_ASSERT(bitmap.Select(rank) == members[rank]);
      RC_ASSERT(bitmap.Rank(members[rank]) == rank);
      RC_ASSERT(bitmap.Test(members[rank]));
      RC_ASSERT(bitmap.Next(members[rank]) == members[rank]);
      if (rank > 0) RC_ASSERT(bitmap.Next(members[rank - 1] + 1) == members[rank]);
    }
    RC_ASSERT(bitmap.Rank(size) == members.size());
  });
}

TEST_CASE("labels go along the spine where only spines count, else through the list", "[labels]") {
  std::vector<FakeFile> files(2);
  files[0].definitions = {{}, {.previous = 0}, {.previous = 0}};
  files[0].representative = 1;
  files[1].definitions = {{}};
  const FakeIndex index(files);
  const NodeLabels all(index, false);
  CHECK(all.size() == 30);
  CHECK(all.Label(2) == 28);
  CHECK(all.Definition(29) == 3);
  CHECK(all.Find({0, 2}) == 28);
  CHECK(all.Find({1, 1}) == NodeLabels::kNoDefinition);
  const NodeLabels spine(index, true);
  CHECK(spine.size() == 28);
  CHECK(spine.Label(1) == 26);
  CHECK(spine.Label(0) == 27);
  CHECK(spine.Label(2) == kNone);
  CHECK(spine.Definition(26) == 1);
  CHECK(spine.Find({0, 2}) == kNone);
  CHECK(spine.Find({1, 0}) == kNone);
}

TEST_CASE("the hash split is the reference's", "[split]") {
  // From Python: int.from_bytes(md5(b"<identity>#<seed>").digest(), "big") % 1000000007 …
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

TEST_CASE("proportions that cannot be are refused", "[split]") {
  SplitOptions options;
  options.proportions = {3, -1};
  CHECK(HashSplit::Create(options).status().message() ==
        "split.proportions: -1 is negative: expected numbers from 0 up");
  options.proportions = {0, 0};
  CHECK_FALSE(HashSplit::Create(options).ok());
}

std::vector<FakeFile> ThreeFiles() {
  std::vector<FakeFile> files(3);
  files[0].name = "a/one.bin";
  files[1].name = "a/two.bin";
  files[1].dependencies = {0};
  files[2].name = "b/three.bin";
  files[2].dependencies = {1};
  return files;
}

TEST_CASE("a file has the highest list with a prefix of its name", "[split]") {
  const FakeIndex index(ThreeFiles());
  SplitOptions options;
  options.prefixes = {{"a/t", "b/"}, {"b/three"}};
  CHECK(*FilePrefixLabels(index, options) == std::vector<std::uint32_t>{0, 1, 2});
}

TEST_CASE("a prefix that matches nothing is an error that names it", "[split]") {
  const FakeIndex index(ThreeFiles());
  SplitOptions options;
  options.prefixes = {{"b/"}, {"c/"}};
  CHECK(FilePrefixLabels(index, options).status().message() ==
        "split.prefixes: no file's name starts with 'c/' (list 2): check it against the names that "
        "`millrace inspect` prints");
}

TEST_CASE("a file that depends on one of a higher label is an error that names both", "[split]") {
  const FakeIndex index(ThreeFiles());
  SplitOptions options;
  options.prefixes = {{"a/two"}};
  CHECK(
      FilePrefixLabels(index, options).status().message() ==
      "split.prefixes: file 'b/three.bin' (label 0) depends on 'a/two.bin' (label 1): a file must "
      "not depend on one of a higher label");
}

}  // namespace
}  // namespace millrace::test
