#include "server/kinds/graph/generator/rmat_generator.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/kinds/graph/format/verify.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using test::TempDir;

std::shared_ptr<const GraphDataset> Rmat(const fs::path& dir, const RmatOptions& options) {
  GraphGeneratorReport report;
  const Status status = GenerateRmat(dir, options, &report);
  INFO(status.message());
  REQUIRE(status.ok());
  auto dataset = GraphDataset::Open(dir);
  REQUIRE(dataset.ok());
  CHECK(report.nodes == options.nodes);
  CHECK(report.edges == options.edges);
  CHECK((*dataset)->nodes() == options.nodes);
  CHECK((*dataset)->edges() == options.edges);
  return *std::move(dataset);
}

/// Pairs of (row, entry).
std::vector<std::pair<std::uint64_t, std::uint64_t>> Entries(const GraphDataset& dataset) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> entries;
  for (std::uint64_t n = 0; n < dataset.nodes(); ++n) {
    const GraphRange row = *dataset.Row(n);
    for (std::uint64_t e = row.begin; e < row.end; ++e) {
      entries.emplace_back(n, *dataset.Neighbour(e));
    }
  }
  return entries;
}

std::uint64_t ClassOf(const GraphDataset& dataset, std::uint64_t node) {
  return dataset.Find("node_feature/y")->NumberAt(node);
}

float Feature(const GraphDataset& dataset, std::uint64_t node, std::uint64_t f) {
  const GraphArray& x = *dataset.Find("node_feature/x");
  return LoadOnce<float>(x.data + 4 * (node * x.type.shape[1] + f));
}

TEST_CASE("an R-MAT graph has the recorded bytes, another seed gives others", "[rmat_generator]") {
  const TempDir dir;
  RmatOptions options = {.seed = 1, .nodes = 1000, .edges = 7000, .features = 5};
  CHECK(Rmat(dir / "plain", options)->digest().ToHex() == "1128e23581f9c9addfe367732858b758");
  options.rows = GraphRows::kTarget;
  options.classes = 7;
  const Digest128 digest = Rmat(dir / "classes", options)->digest();
  CHECK(digest.ToHex() == "1aea9219aba2408f4aeb0173c8ee2886");
  options.seed = 2;
  CHECK(Rmat(dir / "other", options)->digest() != digest);
}

TEST_CASE("an R-MAT graph has the same bytes if its rows do not fit into memory",
          "[rmat_generator]") {
  const TempDir dir;
  RmatOptions options = {.nodes = 300, .edges = 4000, .features = 0};
  const Digest128 digest = Rmat(dir / "whole", options)->digest();
  for (const std::uint64_t at_once : {1, 100, 3999}) {
    options.entries_at_once = at_once;
    CHECK(Rmat(dir / std::to_string(at_once), options)->digest() == digest);
  }
}

TEST_CASE("a few nodes of an R-MAT graph have most edges, whatever their number",
          "[rmat_generator]") {
  const TempDir dir;
  const std::uint64_t nodes = 20000;
  const auto dataset = Rmat(dir / "graph", {.nodes = nodes, .edges = 16 * nodes, .features = 0});
  CHECK(VerifyGraph(*dataset, {}).ok());
  CHECK(dataset->Find("node_feature/x") == nullptr);
  std::vector<std::uint64_t> out(nodes);
  std::vector<std::uint64_t> in(nodes);
  std::uint64_t of_lower_half = 0;
  std::uint64_t of_even_numbers = 0;
  for (const auto& [source, target] : Entries(*dataset)) {
    ++out[source];
    ++in[target];
    of_lower_half += static_cast<std::uint64_t>(source < nodes / 2);
    of_even_numbers += static_cast<std::uint64_t>(source % 2 == 0);
  }
  for (std::vector<std::uint64_t>* const degrees : {&out, &in}) {
    std::sort(degrees->begin(), degrees->end(), std::greater<>());
    const auto most = degrees->begin() + nodes / 20;
    CHECK(degrees->front() > 1000);
    CHECK(std::accumulate(degrees->begin(), most, std::uint64_t{0}) > 16 * nodes / 3);
    CHECK(std::count(degrees->begin(), degrees->end(), 0u) > 1000);
  }
  // Without new numbers, 76 % of the edges would begin in the lower half, and as many at even ones.
  CHECK(of_lower_half > 16 * nodes * 45 / 100);
  CHECK(of_lower_half < 16 * nodes * 55 / 100);
  CHECK(of_even_numbers > 16 * nodes * 45 / 100);
  CHECK(of_even_numbers < 16 * nodes * 55 / 100);
}

TEST_CASE("rows of an R-MAT graph go by sources or by targets of the same edges",
          "[rmat_generator]") {
  const TempDir dir;
  RmatOptions options = {.nodes = 500, .edges = 3000, .features = 0, .classes = 3};
  auto by_source = Entries(*Rmat(dir / "source", options));
  options.rows = GraphRows::kTarget;
  const auto dataset = Rmat(dir / "target", options);
  CHECK(dataset->description().rows == GraphRows::kTarget);
  auto by_target = Entries(*dataset);
  for (auto& [row, entry] : by_target) std::swap(row, entry);
  std::sort(by_source.begin(), by_source.end());
  std::sort(by_target.begin(), by_target.end());
  CHECK(by_source == by_target);
}

TEST_CASE("equal chances of the quadrants give about equal degrees", "[rmat_generator]") {
  const TempDir dir;
  const auto dataset = Rmat(
      dir / "graph", {.nodes = 1024, .edges = 102400, .a = 25, .b = 25, .c = 25, .features = 0});
  for (std::uint64_t n = 0; n < 1024; ++n) {
    CHECK(dataset->Row(n)->size() > 50);
    CHECK(dataset->Row(n)->size() < 150);
  }
}

TEST_CASE("half of the edges of an R-MAT graph stay in the node's class", "[rmat_generator]") {
  const TempDir dir;
  const auto dataset = Rmat(
      dir / "graph", {.nodes = 10003, .edges = 100000, .features = 0, .classes = 10, .roots = 77});
  std::uint64_t stay = 0;
  for (const auto& [source, target] : Entries(*dataset)) {
    stay += static_cast<std::uint64_t>(ClassOf(*dataset, source) == ClassOf(*dataset, target));
  }
  CHECK(stay > 53000);  // 55 % are expected: half, and a tenth of the others
  CHECK(stay < 57000);
  std::vector<std::uint64_t> members(10);
  for (std::uint64_t n = 0; n < 10003; ++n) ++members.at(ClassOf(*dataset, n));
  CHECK(*std::min_element(members.begin(), members.end()) >= 1000);
  CHECK(*std::max_element(members.begin(), members.end()) <= 1001);
}

TEST_CASE("lists of roots of an R-MAT graph have no node in common", "[rmat_generator]") {
  const auto check = [](const RmatOptions& options, std::uint64_t train, std::uint64_t others) {
    const TempDir dir;
    const auto dataset = Rmat(dir / "graph", options);
    std::set<std::uint64_t> nodes;
    for (const char* const name : {"roots/train", "roots/valid", "roots/test"}) {
      const GraphArray& list = *dataset->Find(name);
      CHECK(list.rows() == (name == std::string("roots/train") ? train : others));
      for (std::uint64_t r = 0; r < list.rows(); ++r) nodes.insert(*dataset->Root(list, r));
    }
    CHECK(nodes.size() == train + 2 * others);
  };
  check({.nodes = 1000, .edges = 10}, 100, 50);
  check({.nodes = 1000, .edges = 10, .roots = 500}, 500, 250);
  check({.nodes = 5, .edges = 10}, 1, 1);
  check({.nodes = 4, .edges = 10, .roots = 2}, 2, 1);
}

TEST_CASE("features of an R-MAT graph tell the class of half of the nodes", "[rmat_generator]") {
  const TempDir dir;
  const std::uint64_t nodes = 4000;
  const auto dataset =
      Rmat(dir / "graph", {.nodes = nodes, .edges = 10, .features = 65, .classes = 4});
  // The class whose mean is nearest.
  std::vector<std::vector<double>> means(4, std::vector<double>(65));
  for (std::uint64_t n = 0; n < nodes; ++n) {
    for (std::uint64_t f = 0; f < 65; ++f) {
      const float value = Feature(*dataset, n, f);
      REQUIRE((value >= -1.5f && value < 1.5f));
      means[ClassOf(*dataset, n)][f] += value / 1000;
    }
  }
  std::uint64_t right = 0;
  for (std::uint64_t n = 0; n < nodes; ++n) {
    const auto similarity = [&](std::uint64_t c) {
      double sum = 0;
      for (std::uint64_t f = 0; f < 65; ++f) sum += means[c][f] * Feature(*dataset, n, f);
      return sum;
    };
    std::uint64_t best = 0;
    for (std::uint64_t c = 1; c < 4; ++c) best = similarity(c) > similarity(best) ? c : best;
    right += static_cast<std::uint64_t>(best == ClassOf(*dataset, n));
  }
  CHECK(right > nodes * 55 / 100);  // 62.5 % are expected: half, and a quarter of the others
  CHECK(right < nodes * 70 / 100);
}

TEST_CASE("numbers of an R-MAT graph that are out of range are refused", "[rmat_generator]") {
  const TempDir dir;
  const auto error = [&](const RmatOptions& options) {
    GraphGeneratorReport report;
    const Status status = GenerateRmat(dir / "graph", options, &report);
    CHECK(status.code() == StatusCode::kInvalidArgument);
    return status.message();
  };
  CHECK_THAT(error({.nodes = 3}), Contains("nodes: expected 4 to 2147483647, got 3"));
  CHECK_THAT(error({.edges = 0}), Contains("edges: expected 1 to 4294967295"));
  CHECK_THAT(error({.a = 24}), Contains("a: expected 25 to 100"));
  CHECK_THAT(error({.a = 57, .b = 44}), Contains("b: expected 0 to 43"));
  CHECK_THAT(error({.a = 57, .b = 19, .c = 25}), Contains("c: expected 0 to 24"));
  CHECK_THAT(error({.nodes = 10, .roots = 6}), Contains("roots: expected 0 to 5"));
  CHECK_FALSE(fs::exists(dir / "graph"));
}

}  // namespace
}  // namespace millrace
