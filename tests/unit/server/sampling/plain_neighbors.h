// The drawing of neighbourhoods as the page on pipelines describes it, slowly and without tricks.
// It shares only Philox with the code under test, whose words are known answers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "server/sampling/neighbor_options.h"
#include "server/sampling/philox.h"

namespace millrace::test {

/// The words of one row, and draws from them.
class PlainWords {
 public:
  PlainWords(std::uint64_t key, std::uint32_t number, std::uint32_t relation, std::uint32_t hop)
      : key_(key), number_(number), relation_(relation), hop_(hop) {}

  std::uint32_t Next() {
    const std::uint32_t k = used_++;
    return Philox4x32(key_, {k / 4, number_, relation_, hop_})[k % 4];
  }
  /// A number of [0, m).
  std::uint64_t Below(std::uint64_t m) {
    constexpr std::uint64_t kAll = std::uint64_t{1} << 32;
    for (;;) {
      const std::uint64_t product = Next() * m;
      if (product % kAll >= kAll % m) return product / kAll;
    }
  }
  std::uint32_t used() const { return used_; }

 private:
  std::uint64_t key_;
  std::uint32_t number_;
  std::uint32_t relation_;
  std::uint32_t hop_;
  std::uint32_t used_ = 0;
};

/// The places that are taken of a row of d entries, ascending.
inline std::vector<std::uint32_t> PlainPlaces(PlainWords words, std::uint64_t d, std::int64_t f,
                                              bool replace) {
  std::multiset<std::uint32_t> places;
  const auto few = static_cast<std::uint64_t>(f);
  if (d == 0 || f == 0) return {};
  if (f == -1 || (d <= few && !replace)) {
    for (std::uint64_t i = 0; i < d; ++i) places.insert(static_cast<std::uint32_t>(i));
  } else if (replace) {
    for (std::int64_t i = 0; i < f; ++i) places.insert(static_cast<std::uint32_t>(words.Below(d)));
  } else {
    for (std::uint64_t j = d - few; j < d; ++j) {
      const auto t = static_cast<std::uint32_t>(words.Below(j + 1));
      places.insert(places.contains(t) ? static_cast<std::uint32_t>(j) : t);
    }
  }
  return {places.begin(), places.end()};
}

struct PlainEntry {
  std::uint64_t node = 0;
  std::uint32_t label = 0;
};

/// Rows whose entries stand by label.
using PlainRows = std::vector<std::vector<PlainEntry>>;

/// Empty rows, short ones, and now and then a long one; parallel edges and self loops.
inline PlainRows RandomRows(std::mt19937_64& random, std::uint64_t nodes, std::uint32_t labels,
                            std::uint64_t longest) {
  PlainRows rows(nodes);
  for (std::uint64_t node = 0; node < nodes; ++node) {
    const std::uint64_t kind = random() % 8;
    const std::uint64_t entries = kind == 0   ? 0
                                  : kind == 1 ? random() % (longest + 1)
                                              : random() % 6;
    for (std::uint64_t i = 0; i < entries; ++i) {
      const std::uint64_t to = random() % 6 == 0 ? node : random() % nodes;
      const auto label = static_cast<std::uint32_t>(random() % labels);
      for (std::uint64_t twice = random() % 5 == 0 ? 2 : 1; twice > 0; --twice) {
        rows[node].push_back({to, label});
      }
    }
    std::stable_sort(rows[node].begin(), rows[node].end(),
                     [](const PlainEntry& a, const PlainEntry& b) { return a.label < b.label; });
  }
  return rows;
}

struct PlainNeighbor {
  std::uint32_t row = 0;    // the node whose row has the edge, by its number in the drawn graph
  std::uint32_t other = 0;  // likewise
  std::uint64_t place = 0;  // among the entries of all rows
  std::uint32_t label = 0;
  friend bool operator==(const PlainNeighbor&, const PlainNeighbor&) = default;
};

struct PlainNeighbors {
  std::vector<std::uint64_t> nodes;
  std::vector<PlainNeighbor> edges;  // as recorded
  std::vector<std::uint32_t> roots;
  std::vector<std::uint32_t> hop_nodes;
  std::vector<std::uint32_t> hop_edges;
};

inline PlainNeighbors DrawByThePage(const PlainRows& rows, std::span<const std::uint64_t> roots,
                                    const NeighborOptions& options, std::uint64_t key) {
  std::vector<std::uint64_t> begins = {0};
  for (const auto& row : rows) begins.push_back(begins.back() + row.size());
  PlainNeighbors drawn;
  std::map<std::uint64_t, std::uint32_t> numbers;
  const auto number = [&](std::uint64_t node) {
    const auto [found, is_new] =
        numbers.try_emplace(node, static_cast<std::uint32_t>(drawn.nodes.size()));
    if (is_new) drawn.nodes.push_back(node);
    return found->second;
  };
  for (const std::uint64_t root : roots) drawn.roots.push_back(number(root));
  drawn.hop_nodes.push_back(static_cast<std::uint32_t>(drawn.nodes.size()));
  std::uint32_t begin = 0;
  for (std::uint32_t hop = 0; hop < options.hops(); ++hop) {
    const auto end = static_cast<std::uint32_t>(drawn.nodes.size());
    const std::size_t edges = drawn.edges.size();
    for (std::uint32_t n = begin; n < end; ++n) {
      const std::uint64_t node = drawn.nodes[n];
      const auto go_through = [&](std::uint64_t first, std::uint64_t d, std::uint32_t relation,
                                  std::int64_t f) {
        PlainWords words(key, n, relation, hop);
        for (const std::uint32_t place : PlainPlaces(words, d, f, options.replace)) {
          const PlainEntry& entry = rows[node][first + place];
          const bool full =
              options.max_subgraph_size && drawn.nodes.size() >= *options.max_subgraph_size;
          if (full && !numbers.contains(entry.node)) continue;
          const std::uint32_t other = number(entry.node);
          drawn.edges.push_back({n, other, begins[node] + first + place, entry.label});
        }
      };
      if (options.by_label.empty()) go_through(0, rows[node].size(), 0, options.fanout[hop]);
      for (const LabelFanout& of : options.by_label) {
        const auto in_run = [&](const PlainEntry& entry) { return entry.label == of.label; };
        const auto first = std::find_if(rows[node].begin(), rows[node].end(), in_run);
        const auto d = std::count_if(rows[node].begin(), rows[node].end(), in_run);
        go_through(static_cast<std::uint64_t>(first - rows[node].begin()),
                   static_cast<std::uint64_t>(d), of.label + 1, of.fanout[hop]);
      }
    }
    drawn.hop_nodes.push_back(static_cast<std::uint32_t>(drawn.nodes.size() - end));
    drawn.hop_edges.push_back(static_cast<std::uint32_t>(drawn.edges.size() - edges));
    begin = end;
  }
  return drawn;
}

}  // namespace millrace::test
