// Draws the neighbourhood of roots, hop by hop. Nodes are numbered in the order in which they are
// met, roots first. Hop h goes through the nodes that the hop before met first, in the order of
// their numbers, and draws entries of their rows (place_draws.h): an entry whose node is new gives
// it the next number, and its edge is recorded. A node is gone through once. Batches must be the
// same on any host, so this order must not change.
//
// Nearly all time is spent on waiting for memory: for the two ends of a row, for its entries, and
// for the numbers of nodes. So rows are taken many at once. Their places are drawn; then one loop
// goes through these, which asks for entries far ahead, reads those that have arrived, and numbers
// the nodes of earlier ones meanwhile.
//
// The sampler is a template over the rows of a graph. Rows R provide
//   R::Node                          a node's number in the dataset: an unsigned integer
//   std::uint64_t nodes() const
//   bool LoadRow(Node, std::uint64_t* begin, std::uint64_t* end) const
//                                    the places of a node's entries; false if they cannot be right
//   Node LoadEntry(std::uint64_t place) const
//                                    where an entry leads; it may be no node
//   bool LoadLabel(std::uint64_t place, std::uint32_t* label) const
//                                    an entry's label; false if it is out of range
//   void AskForRow(Node) const, void AskForEntry(std::uint64_t place) const
//                                    ask the processor for what LoadRow and LoadEntry read
//   Status BadRow(Node), Status BadEntry(std::uint64_t place), Status BadLabel(std::uint64_t place)
//                                    what is wrong with these
// Each Load reads the data once.
//
// Not thread-safe: a sampler belongs to a thread. It allocates nothing once it has seen the largest
// graph.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "server/pipeline/neighbors/neighbor_options.h"
#include "server/pipeline/neighbors/number_table.h"
#include "server/pipeline/neighbors/place_draws.h"
#include "server/pipeline/neighbors/sampled_graph.h"

namespace millrace {

enum class SampleEnd : std::uint8_t {
  kDone,
  kTooLarge,  // more nodes or edges than are allowed
  kFailed,    // the data are impossible; status() says what
};

template <class Rows>
class NeighborSampler {
 public:
  using Node = typename Rows::Node;
  using Graph = SampledGraph<Node>;

  /// `rows` and `options` have to outlive the sampler.
  NeighborSampler(const Rows& rows, const NeighborOptions& options)
      : rows_(rows), options_(options), table_(options.most_nodes + 1) {}

  /// Draws the graph of the roots with a key. `numbers[i]` becomes the number of root i; equal
  /// roots have one number. `graph` is undefined if the result is not kDone. REQUIRES: the roots
  /// are nodes.
  SampleEnd Draw(std::span<const std::uint64_t> roots, std::uint64_t key, Graph& graph,
                 std::uint32_t* numbers);

  /// The error, if the last result is kFailed.
  const Status& status() const { return status_; }

 private:
  /// Rows that are taken at once, and entries at which no further row is taken.
  static constexpr std::size_t kRowsAtOnce = 512;
  static constexpr std::size_t kManyEntries = 4096;
  /// An entry is read so many entries after it was asked for, and numbered so many after that.
  static constexpr std::size_t kReadBehind = 32;
  static constexpr std::size_t kNumberBehind = 16;
  /// Meanwhile a row of those that are next is asked for, every so many entries.
  static constexpr std::size_t kEntriesARow = 4;

  /// A row, or its run of one label.
  struct Run {
    std::uint64_t begin = 0;
    std::uint32_t entries = 0;
    std::uint32_t node = 0;    // number in the graph
    std::uint32_t fanout = 0;  // number in fanouts_
    std::size_t first = 0;     // where its taken entries begin, among those of all runs
  };

  /// A fan-out at one hop, and the runs that have it.
  struct HopFanout {
    std::int64_t fanout;
    std::uint32_t relation;
    std::uint32_t label;
  };

  bool AddRoots(std::span<const std::uint64_t> roots, Graph& graph, std::uint32_t* numbers);
  SampleEnd Hop(std::uint32_t hop, std::uint64_t key, std::uint32_t begin, std::uint32_t end,
                Graph& graph);
  /// Finds the runs of nodes [begin, …) of the graph, and how many of their entries are taken.
  /// Returns the node at which it stopped; `begin` if the data are wrong.
  std::uint32_t FindRuns(std::uint32_t begin, std::uint32_t end, const Graph& graph);
  bool AddRunsByLabel(std::uint64_t begin, std::uint64_t end, std::uint32_t node);
  void AddRun(std::uint64_t begin, std::uint64_t entries, std::uint32_t node, std::uint32_t fanout);
  std::uint64_t TakenOf(std::uint64_t entries, std::int64_t fanout) const;
  /// Writes the places of the taken entries.
  void TakePlaces(std::uint32_t hop, std::uint64_t key, std::uint64_t* places);
  /// Numbers the nodes of the taken entries, and records the edges. Nodes [next, end) of the graph
  /// are those whose rows come next.
  SampleEnd AddEdges(std::uint32_t next, std::uint32_t end, Graph& graph);
  SampleEnd AddAllEdges(std::uint32_t next, std::uint32_t end, Graph& graph);
  SampleEnd AddEdgesUpTo(std::uint32_t most, bool leave_out, Graph& graph);
  SampleEnd FailOfEntries(const std::uint64_t* places);

  SampleEnd Fail(Status status) {
    status_ = std::move(status);
    return SampleEnd::kFailed;
  }

  const Rows& rows_;
  const NeighborOptions& options_;
  NumberTable<Node> table_;
  PlaceDraws draws_;
  std::uint32_t numbered_ = 0;  // numbers that the graph drawn last has given, also if it failed
  std::vector<HopFanout> fanouts_;
  std::vector<Run> runs_;
  std::size_t taken_ = 0;  // entries of all runs
  std::vector<std::uint64_t> begins_;
  std::vector<std::uint64_t> ends_;
  std::vector<Node> entries_;
  std::vector<std::size_t> drawn_;  // numbers of the runs that are drawn together
  std::vector<DrawnRow> drawn_rows_;
  std::vector<std::uint32_t> drawn_places_;
  Status status_;
};

template <class Rows>
SampleEnd NeighborSampler<Rows>::Draw(std::span<const std::uint64_t> roots, std::uint64_t key,
                                      Graph& graph, std::uint32_t* numbers) {
  table_.Forget(numbered_);
  numbered_ = 0;
  graph.Clear();
  if (!AddRoots(roots, graph, numbers)) return SampleEnd::kTooLarge;
  graph.hop_nodes.push_back(numbered_);
  std::uint32_t begin = 0;
  for (std::uint32_t hop = 0; hop < options_.hops(); ++hop) {
    const std::uint32_t end = numbered_;
    const std::size_t edges = graph.edges();
    if (const SampleEnd ended = Hop(hop, key, begin, end, graph); ended != SampleEnd::kDone) {
      return ended;
    }
    graph.hop_nodes.push_back(numbered_ - end);
    graph.hop_edges.push_back(static_cast<std::uint32_t>(graph.edges() - edges));
    begin = end;
  }
  return SampleEnd::kDone;
}

template <class Rows>
bool NeighborSampler<Rows>::AddRoots(std::span<const std::uint64_t> roots, Graph& graph,
                                     std::uint32_t* numbers) {
  graph.nodes.Reserve(roots.size());
  table_.Reserve(roots.size());
  auto table = table_.Enter();
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const auto root = static_cast<Node>(roots[i]);
    if (!table.Add(root, numbered_, &numbers[i])) continue;
    if (numbered_++ == options_.most_nodes) return false;
    graph.nodes.data()[numbered_ - 1] = root;
  }
  graph.nodes.SetSize(numbered_);
  return true;
}

template <class Rows>
SampleEnd NeighborSampler<Rows>::Hop(std::uint32_t hop, std::uint64_t key, std::uint32_t begin,
                                     std::uint32_t end, Graph& graph) {
  fanouts_.clear();
  if (options_.by_label.empty()) fanouts_.push_back({options_.fanout[hop], 0, 0});
  for (const LabelFanout& of : options_.by_label) {
    fanouts_.push_back({of.fanout[hop], of.label + 1, of.label});
  }
  while (begin < end) {
    const std::uint32_t next = FindRuns(begin, end, graph);
    if (next == begin) return SampleEnd::kFailed;
    begin = next;
    const std::size_t edges = graph.edges();
    if (taken_ > kMaxSampledEdges - edges) return SampleEnd::kTooLarge;
    graph.ReserveEdges(edges + taken_);
    TakePlaces(hop, key, graph.place.data() + edges);
    if (const SampleEnd ended = AddEdges(next, end, graph); ended != SampleEnd::kDone) return ended;
  }
  return SampleEnd::kDone;
}

template <class Rows>
std::uint32_t NeighborSampler<Rows>::FindRuns(std::uint32_t begin, std::uint32_t end,
                                              const Graph& graph) {
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(end - begin, kRowsAtOnce));
  begins_.resize(count);
  ends_.resize(count);
  const Node* const nodes = graph.nodes.data() + begin;
  bool right = true;
  for (std::uint32_t i = 0; i < count; ++i)
    right &= rows_.LoadRow(nodes[i], &begins_[i], &ends_[i]);
  runs_.clear();
  taken_ = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!right && !rows_.LoadRow(nodes[i], &begins_[i], &ends_[i])) {
      status_ = rows_.BadRow(nodes[i]);
      return begin;
    }
    if (options_.by_label.empty()) {
      AddRun(begins_[i], ends_[i] - begins_[i], begin + i, 0);
    } else if (!AddRunsByLabel(begins_[i], ends_[i], begin + i)) {
      return begin;
    }
    if (taken_ >= kManyEntries) return begin + i + 1;
  }
  return begin + count;
}

template <class Rows>
bool NeighborSampler<Rows>::AddRunsByLabel(std::uint64_t begin, std::uint64_t end,
                                           std::uint32_t node) {
  for (std::uint32_t i = 0; i < fanouts_.size(); ++i) {
    // The first entry from `begin` on whose label is at least that of the fan-out, or above it.
    const auto bound = [&](bool above, std::uint64_t* found) {
      std::uint64_t low = begin;
      std::uint64_t high = end;
      while (low < high) {
        const std::uint64_t middle = low + (high - low) / 2;
        std::uint32_t label = 0;
        if (!rows_.LoadLabel(middle, &label)) {
          status_ = rows_.BadLabel(middle);
          return false;
        }
        const bool before = above ? label <= fanouts_[i].label : label < fanouts_[i].label;
        (before ? low : high) = before ? middle + 1 : middle;
      }
      *found = low;
      return true;
    };
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    if (!bound(false, &first)) return false;
    begin = first;
    if (!bound(true, &last)) return false;
    begin = last;
    AddRun(first, last - first, node, i);
  }
  return true;
}

template <class Rows>
std::uint64_t NeighborSampler<Rows>::TakenOf(std::uint64_t entries, std::int64_t fanout) const {
  if (fanout == kAllEntries || entries == 0) return entries;
  const auto f = static_cast<std::uint64_t>(fanout);
  return options_.replace ? f : std::min(entries, f);
}

template <class Rows>
void NeighborSampler<Rows>::AddRun(std::uint64_t begin, std::uint64_t entries, std::uint32_t node,
                                   std::uint32_t fanout) {
  runs_.push_back({begin, static_cast<std::uint32_t>(entries), node, fanout, taken_});
  taken_ += TakenOf(entries, fanouts_[fanout].fanout);
}

template <class Rows>
void NeighborSampler<Rows>::TakePlaces(std::uint32_t hop, std::uint64_t key,
                                       std::uint64_t* places) {
  for (std::uint32_t which = 0; which < fanouts_.size(); ++which) {
    const HopFanout& of = fanouts_[which];
    drawn_.clear();
    drawn_rows_.clear();
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Run& run = runs_[i];
      if (run.fanout != which || run.entries == 0 || of.fanout == 0) continue;
      const bool all = of.fanout == kAllEntries || (!options_.replace && run.entries <= of.fanout);
      if (all) {
        for (std::uint32_t k = 0; k < run.entries; ++k) places[run.first + k] = run.begin + k;
      } else {
        drawn_.push_back(i);
        drawn_rows_.push_back({run.entries, run.node, of.relation});
      }
    }
    if (drawn_.empty()) continue;
    const auto fanout = static_cast<std::uint32_t>(of.fanout);
    drawn_places_.resize(drawn_.size() * fanout);
    draws_.Draw(drawn_rows_, {key, hop, fanout, options_.replace}, drawn_places_.data());
    const std::uint32_t* from = drawn_places_.data();
    for (const std::size_t i : drawn_) {
      std::uint64_t* const to = places + runs_[i].first;
      const std::uint64_t begin = runs_[i].begin;
      for (std::uint32_t k = 0; k < fanout; ++k) to[k] = begin + from[k];
      from += fanout;
    }
  }
}

template <class Rows>
SampleEnd NeighborSampler<Rows>::AddEdges(std::uint32_t next, std::uint32_t end, Graph& graph) {
  std::uint32_t* const row = graph.row.data() + graph.edges();
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const std::size_t behind = i + 1 < runs_.size() ? runs_[i + 1].first : taken_;
    for (std::size_t k = runs_[i].first; k < behind; ++k) row[k] = runs_[i].node;
  }
  entries_.resize(taken_);
  // A node that is written beyond the last one is not counted.
  graph.nodes.Reserve(std::size_t{numbered_} + taken_ + 1);
  table_.Reserve(std::min<std::uint64_t>(numbered_ + taken_, rows_.nodes()));
  if (options_.max_subgraph_size) {
    return AddEdgesUpTo(*options_.max_subgraph_size, true, graph);
  }
  if (numbered_ + taken_ > options_.most_nodes) {
    return AddEdgesUpTo(options_.most_nodes, false, graph);
  }
  return AddAllEdges(next, end, graph);
}

template <class Rows>
SampleEnd NeighborSampler<Rows>::AddAllEdges(std::uint32_t next, std::uint32_t end, Graph& graph) {
  const std::size_t edges = graph.edges();
  const std::uint64_t* const places = graph.place.data() + edges;
  std::uint32_t* const other = graph.other.data() + edges;
  Node* const nodes = graph.nodes.data();
  Node* const entries = entries_.data();
  const auto last = static_cast<Node>(rows_.nodes() - 1);
  auto table = table_.Enter();
  std::uint32_t count = numbered_;
  Node largest = 0;
  for (std::size_t ahead = 0; ahead < taken_ + kReadBehind + kNumberBehind; ++ahead) {
    if (ahead < taken_) rows_.AskForEntry(places[ahead]);
    if (const std::size_t i = ahead - kReadBehind; i < taken_) {
      entries[i] = rows_.LoadEntry(places[i]);
      largest = std::max(largest, entries[i]);
      table.Ask(entries[i]);
    }
    if (const std::size_t i = ahead - kReadBehind - kNumberBehind; i < taken_) {
      // An entry that is no node does no harm here; the check below finds it.
      const Node node = std::min(entries[i], last);
      const bool is_new = table.Add(node, count, &other[i]);
      nodes[count] = node;
      count += is_new ? 1 : 0;
    }
    if (const std::size_t row = next + ahead / kEntriesARow; row < end) rows_.AskForRow(nodes[row]);
  }
  numbered_ = count;  // also of a graph that failed: the table has to forget its nodes
  if (taken_ > 0 && largest > last) return FailOfEntries(places);
  graph.nodes.SetSize(count);
  graph.SetEdges(edges + taken_);
  return SampleEnd::kDone;
}

template <class Rows>
SampleEnd NeighborSampler<Rows>::AddEdgesUpTo(std::uint32_t most, bool leave_out, Graph& graph) {
  const std::size_t begin = graph.edges();
  const std::uint64_t* const places = graph.place.data() + begin;
  bool right = true;
  for (std::size_t i = 0; i < taken_; ++i) {
    entries_[i] = rows_.LoadEntry(places[i]);
    right &= entries_[i] < rows_.nodes();
  }
  if (!right) return FailOfEntries(places);
  auto table = table_.Enter();
  std::size_t to = begin;
  for (std::size_t i = 0; i < taken_; ++i) {
    std::uint32_t number;
    if (!table.Find(entries_[i], &number)) {
      if (numbered_ >= most && leave_out) continue;
      if (numbered_ >= most) return SampleEnd::kTooLarge;
      table.Add(entries_[i], numbered_, &number);
      graph.nodes.data()[numbered_++] = entries_[i];
    }
    graph.row.data()[to] = graph.row.data()[begin + i];
    graph.place.data()[to] = graph.place.data()[begin + i];
    graph.other.data()[to++] = number;
  }
  graph.nodes.SetSize(numbered_);
  graph.SetEdges(to);
  return SampleEnd::kDone;
}

/// REQUIRES: an entry is no node.
template <class Rows>
SampleEnd NeighborSampler<Rows>::FailOfEntries(const std::uint64_t* places) {
  const auto bad = std::find_if(entries_.begin(), entries_.end(),
                                [&](Node node) { return node >= rows_.nodes(); });
  return Fail(rows_.BadEntry(places[bad - entries_.begin()]));
}

}  // namespace millrace
