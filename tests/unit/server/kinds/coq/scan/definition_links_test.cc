#include <catch2/catch.hpp>

#include <set>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/kinds/coq/scan/definition_links.h"

namespace millrace {
namespace {

TEST_CASE("intervals of the forest of previous definitions are its ancestors", "[links]") {
  rc::prop("x is an ancestor of y exactly when x.enter <= y.enter < x.exit", [] {
    const auto count = static_cast<std::uint32_t>(*rc::gen::inRange(1, 30));
    // A forest with shuffled numbers: the definition number[i] follows one of those before it.
    std::vector<std::uint32_t> number(count);
    for (std::uint32_t i = 0; i < count; ++i) number[i] = (i * 7 + 3) % count;
    if (count % 7 == 0) {
      for (std::uint32_t i = 0; i < count; ++i) number[i] = i;
    }
    FileBlob blob;
    blob.definitions.resize(count);
    std::vector<std::uint32_t> cluster_of(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto before = *rc::gen::inRange<std::uint32_t>(0, i + 1);
      blob.definitions[number[i]].previous = before == i ? kNoRef : number[before];
      cluster_of[number[i]] = number[i];
    }
    const std::uint32_t representative = number[*rc::gen::inRange<std::uint32_t>(0, count)];
    RC_ASSERT(LinkDefinitions(cluster_of, representative, blob).ok());
    for (std::uint32_t y = 0; y < count; ++y) {
      std::set<std::uint32_t> ancestors;
      for (std::uint32_t x = y; x != kNoRef; x = blob.definitions[x].previous) ancestors.insert(x);
      RC_ASSERT(blob.definitions[y].depth + 1 == ancestors.size());
      for (std::uint32_t x = 0; x < count; ++x) {
        const bool inside = blob.definitions[x].enter <= blob.definitions[y].enter &&
                            blob.definitions[y].enter < blob.definitions[x].exit;
        RC_ASSERT(inside == (ancestors.count(x) != 0));
      }
    }
    RC_ASSERT(blob.spine.front() == representative);
    RC_ASSERT(blob.spine.size() == blob.definitions[representative].depth + 1);
    RC_ASSERT(blob.clusters.size() == count);
  });
}

TEST_CASE("a chain of a million definitions needs no stack", "[links]") {
  constexpr std::uint32_t kCount = 1'000'000;
  FileBlob blob;
  blob.definitions.resize(kCount);
  std::vector<std::uint32_t> cluster_of(kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    blob.definitions[i].previous = i + 1 < kCount ? i + 1 : kNoRef;
    cluster_of[i] = i;
  }
  REQUIRE(LinkDefinitions(cluster_of, 0, blob).ok());
  CHECK(blob.spine.size() == kCount);
  blob.definitions[kCount - 1].previous = 0;
  FileBlob cyclic;
  cyclic.definitions = blob.definitions;
  CHECK(LinkDefinitions(cluster_of, 0, cyclic).code() == StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace
