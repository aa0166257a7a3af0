// The sampler, compared with the page.
#include "server/sampling/neighbor_sampler.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/server/sampling/plain_neighbors.h"

namespace millrace::test {
namespace {

/// Rows of a graph in memory, which tests may make wrong.
template <class N>
class MemoryRows {
 public:
  using Node = N;

  explicit MemoryRows(const PlainRows& rows) : nodes_(rows.size()) {
    for (const auto& row : rows) {
      begins.push_back(entries.size());
      for (const PlainEntry& entry : row) {
        entries.push_back(static_cast<N>(entry.node));
        labels.push_back(entry.label);
      }
      ends.push_back(entries.size());
    }
  }

  std::uint64_t nodes() const { return nodes_; }
  bool LoadRow(N node, std::uint64_t* begin, std::uint64_t* end) const {
    *begin = begins[node];
    *end = ends[node];
    return *begin <= *end && *end <= entries.size();
  }
  N LoadEntry(std::uint64_t place) const { return entries.at(place); }
  bool LoadLabel(std::uint64_t place, std::uint32_t* label) const {
    *label = labels.at(place);
    return *label < 100;
  }
  void AskForRow(N node) const { static_cast<void>(begins.at(node)); }
  void AskForEntry(std::uint64_t place) const { static_cast<void>(entries.at(place)); }
  void AskForEntries(std::uint64_t place, std::uint64_t count) const {
    static_cast<void>(entries.at(place));
    static_cast<void>(entries.at(place + count - 1));
  }
  Status BadRow(N node) const { return DataLoss("row " + std::to_string(node)); }
  Status BadEntry(std::uint64_t place) const { return DataLoss("entry " + std::to_string(place)); }
  Status BadLabel(std::uint64_t place) const { return DataLoss("label " + std::to_string(place)); }

  std::vector<std::uint64_t> begins;
  std::vector<std::uint64_t> ends;
  std::vector<N> entries;
  std::vector<std::uint32_t> labels;

 private:
  std::uint64_t nodes_;
};

Fanout AnyFanout(std::mt19937_64& random, std::size_t hops) {
  Fanout fanout;
  for (std::size_t hop = 0; hop < hops; ++hop) {
    const std::int64_t choices[] = {-1, 0, 1, 2, 3, 5, 9, 20, 33, 70};
    fanout.push_back(choices[random() % std::size(choices)]);
  }
  return fanout;
}

NeighborOptions AnyOptions(std::mt19937_64& random, std::uint32_t labels) {
  NeighborOptions options;
  const std::size_t hops = 1 + random() % 4;
  if (random() % 2 == 0) {
    options.fanout = AnyFanout(random, hops);
  } else {
    for (std::uint32_t label = 0; label < labels; ++label) {
      if (random() % 3 > 0) options.by_label.push_back({label, AnyFanout(random, hops)});
    }
    if (options.by_label.empty()) options.by_label.push_back({0, AnyFanout(random, hops)});
  }
  options.replace = random() % 3 == 0;
  if (random() % 3 == 0) options.max_subgraph_size = static_cast<std::uint32_t>(1 + random() % 40);
  return options;
}

template <class N>
PlainNeighbors AsPlain(const SampledGraph<N>& graph, const MemoryRows<N>& rows,
                       std::vector<std::uint32_t> roots) {
  PlainNeighbors plain;
  const std::span<const N> nodes = graph.nodes.span();
  plain.nodes.assign(nodes.begin(), nodes.end());
  for (std::size_t e = 0; e < graph.edges(); ++e) {
    const std::uint64_t place = graph.place.data()[e];
    plain.edges.push_back(
        {graph.row.data()[e], graph.other.data()[e], place, rows.labels.at(place)});
  }
  plain.roots = std::move(roots);
  plain.hop_nodes = graph.hop_nodes;
  plain.hop_edges = graph.hop_edges;
  return plain;
}

void CheckSame(const PlainNeighbors& got, const PlainNeighbors& expected) {
  REQUIRE(got.nodes == expected.nodes);
  REQUIRE(got.roots == expected.roots);
  REQUIRE(got.hop_nodes == expected.hop_nodes);
  REQUIRE(got.hop_edges == expected.hop_edges);
  REQUIRE((got.edges == expected.edges));
}

/// A sampler with what it writes to.
template <class N>
struct Sampled {
  Sampled(const MemoryRows<N>& of, const NeighborOptions& options)
      : rows(of), sampler(of, options) {}

  SampleEnd Draw(const std::vector<std::uint64_t>& roots, std::uint64_t key) {
    numbers.resize(roots.size());
    return sampler.Draw(roots, key, graph, numbers.data());
  }
  PlainNeighbors Plain() const { return AsPlain(graph, rows, numbers); }

  const MemoryRows<N>& rows;
  NeighborSampler<MemoryRows<N>> sampler;
  SampledGraph<N> graph;
  std::vector<std::uint32_t> numbers;
};

template <class N>
void CompareWithThePage(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto labels = static_cast<std::uint32_t>(1 + random() % 4);
  const PlainRows plain = RandomRows(random, 1 + random() % 60, labels, 200);
  const MemoryRows<N> rows(plain);
  NeighborOptions options = AnyOptions(random, labels);
  options.most_nodes = 1000;
  INFO("seed " << seed);
  Sampled<N> sampled(rows, options);
  for (int graph = 0; graph < 4; ++graph) {
    std::vector<std::uint64_t> roots(1);
    if (!options.max_subgraph_size) roots.resize(random() % 30);
    for (std::uint64_t& root : roots) root = random() % plain.size();
    const std::uint64_t key = random();
    REQUIRE(sampled.Draw(roots, key) == SampleEnd::kDone);
    CheckSame(sampled.Plain(), DrawByThePage(plain, roots, options, key));
  }
}

TEST_CASE("drawn graphs are those of the page", "[neighbors]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CompareWithThePage<std::uint32_t>(seed);
    CompareWithThePage<std::uint64_t>(seed);
  }
}

TEST_CASE("graphs of more rows and entries than are taken at once are those of the page",
          "[neighbors]") {
  std::mt19937_64 random(7);
  constexpr std::uint64_t kNodes = 6000;
  PlainRows plain = RandomRows(random, kNodes, 3, 40);
  // One row has more entries than are taken at once, others nearly as many.
  for (const auto& [node, entries] :
       {std::pair(1, 20'000), std::pair(2, 8191), std::pair(3, 8192), std::pair(4, 8193)}) {
    plain[node].assign(entries, {});
    for (PlainEntry& entry : plain[node]) entry = {random() % kNodes, 1};
  }
  const MemoryRows<std::uint32_t> rows(plain);
  std::vector<std::uint64_t> roots = {5, 1, 2, 3, 4};
  while (roots.size() < 1600) roots.push_back(random() % kNodes);
  std::vector<NeighborOptions> all;
  all.push_back({.fanout = {3, -1, 2}});
  all.push_back({.fanout = {-1, 7}});
  all.push_back({.fanout = {40, 10}, .replace = true});
  all.push_back({.fanout = {}, .by_label = {{0, {2, 2}}, {1, {-1, 4}}, {2, {1, -1}}}});
  all.push_back({.fanout = {20, 20}, .max_subgraph_size = 4500});
  for (NeighborOptions& options : all) {
    options.most_nodes = kNodes;
    Sampled<std::uint32_t> sampled(rows, options);
    for (const std::uint64_t key : {1u, 2u}) {
      const PlainNeighbors expected = DrawByThePage(plain, roots, options, key);
      CHECK(expected.hop_nodes[0] > 512);
      CHECK(expected.edges.size() > 8192);
      REQUIRE(sampled.Draw(roots, key) == SampleEnd::kDone);
      CheckSame(sampled.Plain(), expected);
    }
  }
}

TEST_CASE("all entries of enough hops are the breadth-first closure", "[neighbors]") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    const PlainRows plain = RandomRows(random, 40, 2, 10);
    const MemoryRows<std::uint32_t> rows(plain);
    NeighborOptions options;
    options.fanout.assign(40, kAllEntries);
    options.most_nodes = 40;
    Sampled<std::uint32_t> sampled(rows, options);
    const std::uint64_t root = random() % plain.size();
    REQUIRE(sampled.Draw({root}, random()) == SampleEnd::kDone);
    const PlainNeighbors got = sampled.Plain();
    // Breadth first, every entry of every node that is reached.
    std::vector<std::uint64_t> queue = {root};
    std::vector<std::pair<std::uint64_t, std::uint64_t>> edges;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (const PlainEntry& entry : plain[queue[i]]) {
        edges.emplace_back(queue[i], entry.node);
        if (std::find(queue.begin(), queue.end(), entry.node) != queue.end()) continue;
        queue.push_back(entry.node);
      }
    }
    CHECK(got.nodes == queue);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> got_edges;
    for (const PlainNeighbor& edge : got.edges) {
      got_edges.emplace_back(got.nodes[edge.row], got.nodes[edge.other]);
    }
    CHECK((got_edges == edges));
    // So it is if every label is named.
    NeighborOptions by_label = {.fanout = {},
                                .by_label = {{0, options.fanout}, {1, options.fanout}}};
    by_label.most_nodes = 40;
    Sampled<std::uint32_t> labelled(rows, by_label);
    REQUIRE(labelled.Draw({root}, random()) == SampleEnd::kDone);
    CheckSame(labelled.Plain(), got);
  }
}

TEST_CASE("a graph that is too large is said to be, and the next one is right", "[neighbors]") {
  PlainRows plain(20'000);
  for (std::uint64_t node = 0; node < plain.size(); ++node) {
    plain[node] = {{(node + 1) % plain.size(), 0}, {(node * 7 + 3) % plain.size(), 0}};
  }
  plain[0].clear();
  const MemoryRows<std::uint32_t> rows(plain);
  NeighborOptions options = {.fanout = Fanout(14, kAllEntries)};
  options.most_nodes = 900;
  Sampled<std::uint32_t> sampled(rows, options);
  for (const std::vector<std::uint64_t>& roots :
       {std::vector<std::uint64_t>{1}, {0}, {1, 2, 3}, {0, 0}}) {
    const PlainNeighbors expected = DrawByThePage(plain, roots, options, 1);
    const bool fits = expected.nodes.size() <= 900;
    CHECK(fits == (roots[0] == 0));
    CHECK(sampled.Draw(roots, 1) == (fits ? SampleEnd::kDone : SampleEnd::kTooLarge));
    if (fits) CheckSame(sampled.Plain(), expected);
  }
  // So are more roots than there may be nodes.
  std::vector<std::uint64_t> many(901);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i;
  CHECK(sampled.Draw(many, 1) == SampleEnd::kTooLarge);
  many.back() = 0;
  options.fanout = {0};
  Sampled<std::uint32_t> roots_only(rows, options);
  CHECK(roots_only.Draw(many, 1) == SampleEnd::kDone);
  CHECK(roots_only.graph.nodes.size() == 900);
  CHECK(roots_only.numbers.back() == 0);
  many.back() = 900;
  CHECK(roots_only.Draw(many, 1) == SampleEnd::kTooLarge);
  // The root that was one too many is forgotten with the others.
  REQUIRE(roots_only.Draw({5, 900}, 1) == SampleEnd::kDone);
  CHECK(roots_only.numbers == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("numbers that are out of range end the graph where they are met", "[neighbors]") {
  const PlainRows plain = {{{1, 0}, {2, 1}}, {{0, 0}}, {{2, 0}, {0, 1}, {1, 1}}};
  // With three nodes at most, every new one is looked at; with more, not.
  for (const auto& [by_label, most] :
       {std::pair(false, 3), std::pair(true, 3), std::pair(false, 100), std::pair(true, 100)}) {
    NeighborOptions options;
    if (by_label) {
      options.by_label = {{0, {-1, -1}}, {1, {-1, -1}}};
    } else {
      options.fanout = {-1, -1};
    }
    options.most_nodes = static_cast<std::uint32_t>(most);
    MemoryRows<std::uint32_t> rows(plain);
    Sampled<std::uint32_t> sampled(rows, options);
    REQUIRE(sampled.Draw({0}, 1) == SampleEnd::kDone);
    const PlainNeighbors right = sampled.Plain();
    const auto fails = [&](const std::string& what) {
      CHECK(sampled.Draw({0}, 1) == SampleEnd::kFailed);
      CHECK(sampled.sampler.status().message() == what);
      // The graph after it is not the worse for it.
      const std::vector<std::uint32_t> entries = std::exchange(rows.entries, {1, 2, 0, 2, 0, 1});
      const auto ends = std::exchange(rows.ends, {2, 3, 6});
      const auto labels = std::exchange(rows.labels, {0, 1, 0, 0, 1, 1});
      REQUIRE(sampled.Draw({0}, 1) == SampleEnd::kDone);
      CheckSame(sampled.Plain(), right);
      rows.entries = entries;
      rows.ends = ends;
      rows.labels = labels;
    };
    rows.entries[1] = 3;
    fails("entry 1");
    rows.entries[1] = 2;
    rows.entries[2] = 3;
    fails("entry 2");
    rows.entries[2] = ~0u;
    fails("entry 2");
    rows.entries[2] = 0;
    rows.ends[2] = 7;
    fails("row 2");
    rows.ends[2] = 2;
    fails("row 2");
    rows.ends[2] = 6;
    // Labels are read only where rows are cut by them.
    rows.labels[4] = 100;
    if (by_label) fails("label 4");
    rows.labels[4] = 1;
    REQUIRE(sampled.Draw({0}, 1) == SampleEnd::kDone);
    CHECK(sampled.graph.edges() == 6);
  }
}

TEST_CASE("labels that do not ascend are no way out of a row", "[neighbors]") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    const PlainRows plain = RandomRows(random, 30, 4, 60);
    MemoryRows<std::uint32_t> rows(plain);
    std::shuffle(rows.labels.begin(), rows.labels.end(), random);
    NeighborOptions options = {.fanout = {},
                               .by_label = {{0, {3, -1}}, {1, {-1, 2}}, {3, {4, 5}}},
                               .replace = random() % 2 == 0};
    options.most_nodes = 30;
    Sampled<std::uint32_t> sampled(rows, options);
    std::vector<std::uint64_t> roots = {random() % 30, random() % 30};
    REQUIRE(sampled.Draw(roots, random()) == SampleEnd::kDone);
    for (std::size_t e = 0; e < sampled.graph.edges(); ++e) {
      const std::uint32_t node = sampled.graph.nodes.data()[sampled.graph.row.data()[e]];
      const std::uint64_t place = sampled.graph.place.data()[e];
      CHECK(place >= rows.begins[node]);
      CHECK(place < rows.ends[node]);
    }
  }
}

}  // namespace
}  // namespace millrace::test
