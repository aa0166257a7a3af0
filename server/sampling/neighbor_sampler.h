// Draws the neighbourhood of roots, hop by hop. Nodes are numbered in the order in which they are
// met, roots first. Hop h visits the nodes that the hop before met first, in the order of their
// numbers, and draws entries of their rows (place_draws.h): a new node gets the next number, and
// the edge of each entry is recorded. A node is visited once. Batches must be the same on any host,
// so this order must not change.
//
// Time would be spent on waiting for memory, for the two ends of a row, for its entries, and for
// the numbers of nodes; and on branches that no processor predicts. So rows are taken in chunks:
// the places of one chunk are drawn, and its entries are prefetched, before the nodes of the chunk
// before are numbered. If runs and nodes are of two kinds, both results are written and one is
// counted.
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
//   void AskForRow(Node) const, void AskForEntry(std::uint64_t place) const,
//   void AskForEntries(std::uint64_t place, std::uint64_t count) const
//                                    prefetch the data of LoadRow and LoadEntry; count >= 1
//   Status BadRow(Node), Status BadEntry(std::uint64_t place), Status BadLabel(std::uint64_t place)
//                                    the errors of these
// Each Load reads the data once.
//
// Not thread-safe: a sampler belongs to a thread. It allocates nothing once it has seen the largest
// graph.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/base/unroll.h"
#include "server/sampling/neighbor_options.h"
#include "server/sampling/number_table.h"
#include "server/sampling/place_draws.h"
#include "server/sampling/sampled_graph.h"

namespace millrace {

enum class SampleEnd : std::uint8_t {
  kDone,
  kTooLarge,  // more nodes or edges than are allowed
  kFailed,    // the data are impossible; status() has the reason
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
  /// A chunk ends at the row with which it reaches this many entries.
  static constexpr std::size_t kManyEntries = 512;
  /// A row is prefetched this many rows before it is read.
  static constexpr std::uint32_t kRowsAhead = 32;
  /// Nodes are numbered this many entries after these were read. As many are read at a time.
  static constexpr std::size_t kNumberBehind = 8;
  /// Values of a run that are written whatever its length. Excess values are where later runs are
  /// written, or behind the last one.
  static constexpr std::size_t kWrittenAtLeast = 16;

  /// A fan-out at one hop.
  struct HopFanout {
    std::uint32_t fanout;
    std::uint32_t relation;
    std::uint32_t label;
    std::uint32_t most_whole;  // longest run that is taken whole
  };
  /// Where a run begins, and where its taken entries begin among the chunk's entries. A run is a
  /// row, or the entries of a row that have one label.
  struct Run {
    std::uint64_t begin;
    std::uint32_t entries;
    std::uint32_t first;
  };
  /// Runs that are taken whole, or from which one fan-out is drawn. Values behind the first `count`
  /// do not count.
  struct Runs {
    std::vector<Run> runs;
    std::vector<DrawnRow> rows;  // only of drawn runs
    std::size_t count = 0;
  };
  /// The runs of rows that follow each other.
  struct Chunk {
    Runs whole;                         // all their entries are taken
    std::vector<Runs> drawn;            // by fan-out
    std::uint64_t taken = 0;            // entries of all runs
    std::vector<std::uint64_t> places;  // of the taken entries; further ones do not count
    std::vector<std::uint32_t> nodes;   // the nodes in whose rows they are, likewise
  };

  bool AddRoots(std::span<const std::uint64_t> roots, Graph& graph, std::uint32_t* numbers);
  SampleEnd Hop(std::uint32_t hop, std::uint64_t key, std::uint32_t begin, std::uint32_t end,
                Graph& graph);
  void SetFanouts(std::uint32_t hop);
  void AddFanout(std::int64_t fanout, std::uint32_t relation, std::uint32_t label);
  /// Makes `coming_` the runs of nodes [*begin, end) of the graph, or of as many as a chunk has,
  /// and moves *begin behind them. False if the data are wrong.
  bool FindRuns(std::uint32_t* begin, std::uint32_t end, const Graph& graph);
  bool AddRunsByLabel(std::uint64_t begin, std::uint64_t end, std::uint32_t node);
  void AddRun(std::uint64_t begin, std::uint64_t entries, std::uint32_t node, std::uint32_t fanout);
  /// Notes that `taken` entries of `coming_`, from `first` on, are in the row of `node`.
  void NoteNode(std::size_t first, std::uint32_t taken, std::uint32_t node);
  /// Draws the places of the entries of `coming_`, and prefetches these entries.
  void TakePlaces(std::uint32_t hop, std::uint64_t key);
  void TakeWhole(const Run& run);
  void TakeDrawn(const Runs& runs, const DrawOptions& options);
  /// Numbers the nodes of the entries of `chunk_`, and records the edges.
  SampleEnd AddEdges(Graph& graph);
  SampleEnd AddAllEdges(Graph& graph);
  SampleEnd AddEdgesUpTo(std::uint32_t most, bool leave_out, Graph& graph);
  SampleEnd FailOfEntries();

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
  Chunk chunk_;
  Chunk coming_;  // the chunk behind it
  std::vector<Node> entries_;
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
  SetFanouts(hop);
  const std::uint32_t asked = std::min(end - begin, kRowsAhead);
  for (const Node node : graph.nodes.span().subspan(begin, asked)) rows_.AskForRow(node);
  coming_.taken = 0;
  while (begin < end || coming_.taken > 0) {
    std::swap(chunk_, coming_);
    if (!FindRuns(&begin, end, graph)) return SampleEnd::kFailed;
    if (coming_.taken > kMaxSampledEdges) return SampleEnd::kTooLarge;
    TakePlaces(hop, key);
    if (const SampleEnd ended = AddEdges(graph); ended != SampleEnd::kDone) return ended;
  }
  return SampleEnd::kDone;
}

template <class Rows>
void NeighborSampler<Rows>::SetFanouts(std::uint32_t hop) {
  fanouts_.clear();
  if (options_.by_label.empty()) AddFanout(options_.fanout[hop], 0, 0);
  for (const LabelFanout& of : options_.by_label) AddFanout(of.fanout[hop], of.label + 1, of.label);
  // Every run that counts has an entry, so that a chunk has no more runs than this.
  const std::size_t most = kManyEntries + fanouts_.size();
  for (Chunk* const chunk : {&chunk_, &coming_}) {
    chunk->whole.runs.resize(most);
    chunk->drawn.resize(fanouts_.size());
    for (Runs& drawn : chunk->drawn) {
      drawn.runs.resize(most);
      drawn.rows.resize(most);
    }
  }
}

template <class Rows>
void NeighborSampler<Rows>::AddFanout(std::int64_t fanout, std::uint32_t relation,
                                      std::uint32_t label) {
  const bool all = fanout == kAllEntries;
  const auto f = all ? 0 : static_cast<std::uint32_t>(fanout);
  const std::uint32_t most_whole =
      all ? std::numeric_limits<std::uint32_t>::max() : (options_.replace ? 0 : f);
  fanouts_.push_back({f, relation, label, most_whole});
}

template <class Rows>
bool NeighborSampler<Rows>::FindRuns(std::uint32_t* begin, std::uint32_t end, const Graph& graph) {
  coming_.taken = 0;
  coming_.whole.count = 0;
  for (Runs& drawn : coming_.drawn) drawn.count = 0;
  const Node* const nodes = graph.nodes.data();
  for (; *begin < end && coming_.taken < kManyEntries; ++*begin) {
    if (end - *begin > kRowsAhead) rows_.AskForRow(nodes[*begin + kRowsAhead]);
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    if (!rows_.LoadRow(nodes[*begin], &first, &last)) {
      status_ = rows_.BadRow(nodes[*begin]);
      return false;
    }
    if (options_.by_label.empty()) {
      AddRun(first, last - first, *begin, 0);
    } else if (!AddRunsByLabel(first, last, *begin)) {
      return false;
    }
  }
  return true;
}

template <class Rows>
bool NeighborSampler<Rows>::AddRunsByLabel(std::uint64_t begin, std::uint64_t end,
                                           std::uint32_t node) {
  for (std::uint32_t i = 0; i < fanouts_.size(); ++i) {
    // The first entry from `begin` on whose label is at least the fan-out's label, or above it.
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
void NeighborSampler<Rows>::AddRun(std::uint64_t begin, std::uint64_t entries, std::uint32_t node,
                                   std::uint32_t fanout) {
  const Run run{begin, static_cast<std::uint32_t>(entries),
                static_cast<std::uint32_t>(coming_.taken)};
  const bool whole = run.entries <= fanouts_[fanout].most_whole;
  const std::uint32_t taken = whole ? run.entries : fanouts_[fanout].fanout;
  Runs& drawn = coming_.drawn[fanout];
  coming_.whole.runs[coming_.whole.count] = run;
  drawn.runs[drawn.count] = run;
  drawn.rows[drawn.count] = {run.entries, node};
  coming_.whole.count += std::size_t{whole} & std::size_t{taken != 0};
  drawn.count += std::size_t{!whole} & std::size_t{taken != 0};
  coming_.taken += taken;
  // A chunk with more is not used.
  if (coming_.taken <= kMaxSampledEdges) NoteNode(run.first, taken, node);
}

template <class Rows>
void NeighborSampler<Rows>::NoteNode(std::size_t first, std::uint32_t taken, std::uint32_t node) {
  const std::size_t end = first + std::max<std::size_t>(taken, kWrittenAtLeast);
  if (coming_.nodes.size() < end) [[unlikely]]
    coming_.nodes.resize(end);
  std::uint32_t* const nodes = coming_.nodes.data() + first;
  for (std::size_t k = 0; k < kWrittenAtLeast; ++k) nodes[k] = node;
  for (std::size_t k = kWrittenAtLeast; k < taken; ++k) nodes[k] = node;
}

template <class Rows>
void NeighborSampler<Rows>::TakePlaces(std::uint32_t hop, std::uint64_t key) {
  const std::size_t most = coming_.taken + kWrittenAtLeast;
  if (coming_.places.size() < most) coming_.places.resize(most);
  for (const Run& run : std::span(coming_.whole.runs).first(coming_.whole.count)) TakeWhole(run);
  for (std::size_t which = 0; which < fanouts_.size(); ++which) {
    const HopFanout& of = fanouts_[which];
    TakeDrawn(coming_.drawn[which], {key, hop, of.fanout, options_.replace, of.relation});
  }
}

template <class Rows>
void NeighborSampler<Rows>::TakeWhole(const Run& run) {
  std::uint64_t* const places = coming_.places.data() + run.first;
  for (std::size_t k = 0; k < kWrittenAtLeast; ++k) places[k] = run.begin + k;
  for (std::size_t k = kWrittenAtLeast; k < run.entries; ++k) places[k] = run.begin + k;
  rows_.AskForEntries(run.begin, run.entries);
}

template <class Rows>
void NeighborSampler<Rows>::TakeDrawn(const Runs& runs, const DrawOptions& options) {
  const std::size_t most = runs.count * options.fanout + kDrawSlack;
  if (drawn_places_.size() < most) drawn_places_.resize(most);
  draws_.Draw(std::span(runs.rows).first(runs.count), options, drawn_places_.data());
  const std::uint32_t* from = drawn_places_.data();
  for (const Run& run : std::span(runs.runs).first(runs.count)) {
    std::uint64_t* const places = coming_.places.data() + run.first;
    for (std::uint32_t k = 0; k < options.fanout; ++k) {
      places[k] = run.begin + from[k];
      rows_.AskForEntry(places[k]);
    }
    from += options.fanout;
  }
}

template <class Rows>
SampleEnd NeighborSampler<Rows>::AddEdges(Graph& graph) {
  const std::size_t taken = chunk_.taken;
  if (taken > kMaxSampledEdges - graph.edges()) return SampleEnd::kTooLarge;
  entries_.resize(taken);
  graph.ReserveEdges(graph.edges() + taken);
  // A node that is written beyond the last one is not counted.
  graph.nodes.Reserve(std::size_t{numbered_} + taken + 1);
  table_.Reserve(std::min<std::uint64_t>(numbered_ + taken, rows_.nodes()));
  if (options_.max_subgraph_size) {
    return AddEdgesUpTo(*options_.max_subgraph_size, true, graph);
  }
  if (numbered_ + taken > options_.most_nodes) {
    return AddEdgesUpTo(options_.most_nodes, false, graph);
  }
  return AddAllEdges(graph);
}

template <class Rows>
SampleEnd NeighborSampler<Rows>::AddAllEdges(Graph& graph) {
  const std::size_t taken = chunk_.taken;
  const std::size_t edges = graph.edges();
  if (options_.places) std::copy_n(chunk_.places.data(), taken, graph.place.data() + edges);
  std::copy_n(chunk_.nodes.data(), taken, graph.row.data() + edges);
  const std::uint64_t* const places = chunk_.places.data();
  std::uint32_t* const other = graph.other.data() + edges;
  Node* const nodes = graph.nodes.data();
  Node* const entries = entries_.data();
  const auto last = static_cast<Node>(rows_.nodes() - 1);
  auto table = table_.Enter();
  std::uint32_t count = numbered_;
  Node largest = 0;
  const auto read = [&](std::size_t from, std::size_t many) __attribute__((always_inline)) {
    MILLRACE_UNROLL(8)
    for (std::size_t i = from; i < from + many; ++i) {
      entries[i] = rows_.LoadEntry(places[i]);
      largest = std::max(largest, entries[i]);
      table.Ask(entries[i]);
    }
  };
  const auto number = [&](std::size_t from, std::size_t many) __attribute__((always_inline)) {
    MILLRACE_UNROLL(8)
    for (std::size_t i = from; i < from + many; ++i) {
      // An entry that is not a node is harmless here; the check below finds it.
      const Node node = std::min(entries[i], last);
      const bool is_new = table.Add(node, count, &other[i]);
      nodes[count] = node;
      count += is_new ? 1 : 0;
    }
  };
  std::size_t ahead = std::min(taken, kNumberBehind);
  read(0, ahead);
  for (; ahead + kNumberBehind <= taken; ahead += kNumberBehind) {
    read(ahead, kNumberBehind);
    number(ahead - kNumberBehind, kNumberBehind);
  }
  const std::size_t numbered = ahead - std::min(ahead, kNumberBehind);
  read(ahead, taken - ahead);
  number(numbered, taken - numbered);
  numbered_ = count;  // also of a graph that failed: the table has to forget its nodes
  if (taken > 0 && largest > last) return FailOfEntries();
  graph.nodes.SetSize(count);
  graph.SetEdges(edges + taken);
  return SampleEnd::kDone;
}

template <class Rows>
SampleEnd NeighborSampler<Rows>::AddEdgesUpTo(std::uint32_t most, bool leave_out, Graph& graph) {
  const std::size_t taken = chunk_.taken;
  bool right = true;
  for (std::size_t i = 0; i < taken; ++i) {
    entries_[i] = rows_.LoadEntry(chunk_.places[i]);
    right &= entries_[i] < rows_.nodes();
  }
  if (!right) return FailOfEntries();
  auto table = table_.Enter();
  std::size_t to = graph.edges();
  for (std::size_t i = 0; i < taken; ++i) {
    std::uint32_t number;
    if (!table.Find(entries_[i], &number)) {
      if (numbered_ >= most && leave_out) continue;
      if (numbered_ >= most) return SampleEnd::kTooLarge;
      table.Add(entries_[i], numbered_, &number);
      graph.nodes.data()[numbered_++] = entries_[i];
    }
    graph.row.data()[to] = chunk_.nodes[i];
    graph.place.data()[to] = chunk_.places[i];
    graph.other.data()[to++] = number;
  }
  graph.nodes.SetSize(numbered_);
  graph.SetEdges(to);
  return SampleEnd::kDone;
}

/// REQUIRES: an entry is not a node.
template <class Rows>
SampleEnd NeighborSampler<Rows>::FailOfEntries() {
  const auto bad = std::find_if(entries_.begin(), entries_.end(),
                                [&](Node node) { return node >= rows_.nodes(); });
  return Fail(rows_.BadEntry(chunk_.places[bad - entries_.begin()]));
}

}  // namespace millrace
