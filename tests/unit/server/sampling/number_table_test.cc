#include "server/sampling/number_table.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>

namespace millrace::test {
namespace {

TEMPLATE_TEST_CASE("a table of numbers is a map, whatever it grows to", "[neighbors]",
                   std::uint32_t, std::uint64_t) {
  std::mt19937_64 random(5);
  constexpr std::uint32_t kMost = 5000;
  NumberTable<TestType> table(kMost);
  // Nodes lie beside each other, or far from each other, or many have the same lower half.
  const auto any_node = [&random](int graph) {
    const std::uint64_t any = random();
    if (graph % 3 == 0) return any % 6000;
    return graph % 3 == 1 ? any : (any & 0xFFFFFFFF'000000FF);
  };
  for (int graph = 0; graph < 60; ++graph) {
    // A node of 32 bits has but 256 values if it keeps so few.
    const std::size_t most = graph % 3 == 2 && sizeof(TestType) == 4 ? 200 : kMost;
    const std::size_t nodes = 1 + random() % most;
    std::map<TestType, std::uint32_t> expected;
    std::uint32_t count = 0;
    std::size_t reserved = 0;
    while (count < nodes) {
      if (count == reserved) {
        reserved = std::min(nodes, reserved + 1 + random() % 1500);
        table.Reserve(reserved);
      }
      auto entered = table.Enter();
      const auto node = static_cast<TestType>(any_node(graph));
      const auto [at, is_new] = expected.try_emplace(node, count);
      std::uint32_t number = ~0u;
      REQUIRE(entered.Find(node, &number) == !is_new);
      REQUIRE(entered.Add(node, count, &number) == is_new);
      REQUIRE(number == at->second);
      count += is_new ? 1 : 0;
    }
    std::uint32_t number = 0;
    for (const auto& [node, expected_number] : expected) {
      REQUIRE(table.Enter().Find(node, &number));
      REQUIRE(number == expected_number);
    }
    table.Forget(count);
    for (const auto& entry : expected) REQUIRE_FALSE(table.Enter().Find(entry.first, &number));
  }
}

TEST_CASE("a table of numbers forgets too when its stamps start anew", "[neighbors]") {
  constexpr std::uint32_t kMost = 1u << 29;
  NumberTable<std::uint32_t> table(kMost);
  std::uint32_t number = 0;
  for (std::uint32_t graph = 0; graph < 40; ++graph) {
    // As if the graph had all nodes that it may have.
    REQUIRE(table.Enter().Add(7, 0, &number));
    REQUIRE(table.Enter().Add(8 + graph, kMost - 1, &number));
    REQUIRE(number == kMost - 1);
    table.Forget(kMost);
    REQUIRE_FALSE(table.Enter().Find(7, &number));
    REQUIRE_FALSE(table.Enter().Find(8 + graph, &number));
  }
}

}  // namespace
}  // namespace millrace::test
