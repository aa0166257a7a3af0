// Breadth-first closures of data that are far from the processor. They are the same closures as in
// closure_builder.h, over the same views, but built in steps. Several builders take turns on one
// thread. Memory that one builder prefetches in its turn has arrived at its next turn.
//
// A turn has three parts. It puts the edges that were asked for in an earlier turn into the line.
// It follows the edges in the line, which numbers new nodes and asks for their words. It reads the
// nodes that were asked for in an earlier turn, and asks for their edges. So nothing waits for
// memory, except for data that were asked for only one turn ago.
//
// Not thread-safe: a builder belongs to a thread. It allocates nothing once it has seen the largest
// example.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/batch/layout/layout.h"
#include "server/sampling/closure.h"
#include "server/sampling/closure_options.h"
#include "server/sampling/scratch_array.h"
#include "server/sampling/visited.h"

namespace millrace {

template <class View>
class ClosureInTurns {
 public:
  using Node = typename View::Node;
  static constexpr bool kTakesTurns = true;

  /// REQUIRES: options.order is kBreadthFirst.
  ClosureInTurns(std::uint64_t nodes, const ClosureOptions& options)
      : options_(options), visited_(nodes) {}

  /// Begins the closure of the roots. REQUIRES: the roots are distinct.
  void Begin(View& view, std::span<const Node> roots, Closure& closure);
  /// Takes one turn. Returns true when the closure is finished: *end then has the result, and
  /// `closure` is undefined if that is not kDone.
  bool Advance(View& view, Closure& closure, ClosureEnd* end);

  /// Gives the number of a node in the closure built last. False if the node is not in it.
  /// REQUIRES: slot < nodes.
  bool Find(std::uint64_t slot, std::uint32_t* number) { return visited_.Find(slot, number); }
  /// The node with a number in the closure built last. REQUIRES: it has that many nodes.
  const Node& NodeAt(std::uint32_t number) const { return found_.data()[number].node; }

 private:
  struct Found {
    Node node;
    LoadedNode<View> loaded;
  };

  ClosureEnd TakeTurn(View& view, Closure& closure);
  ClosureEnd FollowEdges(View& view, Closure& closure);
  ClosureEnd ReadNodes(View& view, std::uint32_t until);
  ClosureEnd CopyEdges(const View& view, Closure& closure);
  ClosureEnd LabelNodes(View& view, Closure& closure);
  void Add(const Node& node);

  ClosureOptions options_;
  StampedTable visited_;
  ScratchArray<Found> found_;  // by number
  std::uint32_t roots_ = 0;
  std::uint32_t numbered_ = 0;
  std::uint32_t read_ = 0;    // nodes that have been read
  std::uint32_t copied_ = 0;  // nodes whose edges are in the line
  std::size_t followed_ = 0;  // edges of the line that have been followed
  // How many of the followed edges belong to the closure. They are moved to the front of the line.
  std::size_t kept_ = 0;
  ClosureEnd end_ = ClosureEnd::kDone;
};

template <class View>
void ClosureInTurns<View>::Add(const Node& node) {
  found_.Reserve(numbered_ + 1);
  found_.data()[numbered_++].node = node;
  found_.SetSize(numbered_);
}

template <class View>
void ClosureInTurns<View>::Begin(View& view, std::span<const Node> roots, Closure& closure) {
  visited_.Forget(numbered_);
  found_.SetSize(0);
  closure.SetEdges(0);
  numbered_ = read_ = copied_ = 0;
  followed_ = kept_ = 0;
  roots_ = static_cast<std::uint32_t>(roots.size());
  end_ = roots.size() > kMaxExampleNodes ? ClosureEnd::kTooLarge : ClosureEnd::kDone;
  if (end_ != ClosureEnd::kDone) return;
  auto visited = visited_.Enter();
  for (const Node& root : roots) {
    visited.NumberOr(view.Slot(root), numbered_);
    view.PrefetchNode(root);
    Add(root);
  }
}

template <class View>
bool ClosureInTurns<View>::Advance(View& view, Closure& closure, ClosureEnd* end) {
  if (end_ == ClosureEnd::kDone) end_ = TakeTurn(view, closure);
  if (end_ == ClosureEnd::kDone && (copied_ < numbered_ || followed_ < closure.edges())) {
    return false;
  }
  // The nodes that were numbered before the example ended are read all the same: a boundary node
  // without label among them takes precedence over the reason that ended it.
  const ClosureEnd read = ReadNodes(view, numbered_);
  const ClosureEnd labelled = LabelNodes(view, closure);
  closure.SetEdges(kept_);
  *end = labelled != ClosureEnd::kDone ? labelled : read != ClosureEnd::kDone ? read : end_;
  return true;
}

template <class View>
ClosureEnd ClosureInTurns<View>::TakeTurn(View& view, Closure& closure) {
  const std::uint32_t asked_for = numbered_;
  if (const ClosureEnd end = CopyEdges(view, closure); end != ClosureEnd::kDone) return end;
  if (const ClosureEnd end = FollowEdges(view, closure); end != ClosureEnd::kDone) return end;
  return ReadNodes(view, asked_for);
}

template <class View>
ClosureEnd ClosureInTurns<View>::FollowEdges(View& view, Closure& closure) {
  const NodeLimit limit(options_.max_subgraph_size, roots_);
  auto visited = visited_.Enter();
  std::uint64_t* const words = closure.edge_words.data();
  EdgeEnds* const ends = closure.edge_ends.data();
  for (; followed_ < closure.edges(); ++followed_) {
    const std::uint64_t word = words[followed_];
    if (view.Skips(word)) continue;
    const typename View::Home& source = view.HomeAt(ends[followed_].target);
    typename View::Target target;
    std::uint32_t number;
    if (numbered_ == limit.full) {
      if (!view.Peek(word, source, &target)) return view.FollowAny(word, source, &target);
      if (!visited.Find(target.slot, &number)) {
        if (limit.limited) continue;
        return ClosureEnd::kTooLarge;
      }
    } else {
      if (!view.Follow(word, source, &target)) {
        if (const ClosureEnd end = view.FollowAny(word, source, &target);
            end != ClosureEnd::kDone) {
          return end;
        }
      }
      number = visited.NumberOr(target.slot, numbered_);
      if (number == numbered_) {
        const Node node = view.NodeOf(target);
        view.PrefetchNode(node);
        Add(node);
      }
    }
    words[kept_] = word;
    ends[kept_++] = {ends[followed_].source, number};
  }
  return ClosureEnd::kDone;
}

template <class View>
ClosureEnd ClosureInTurns<View>::ReadNodes(View& view, std::uint32_t until) {
  for (; read_ < until; ++read_) {
    Found& found = found_.data()[read_];
    if (const ClosureEnd end = view.LoadAny(found.node, &found.loaded); end != ClosureEnd::kDone) {
      return end;
    }
    view.PrefetchEdges(found.loaded.edges);
    if (found.loaded.label == View::kBoundary) view.PrefetchLabel(found.node);
  }
  return ClosureEnd::kDone;
}

template <class View>
ClosureEnd ClosureInTurns<View>::CopyEdges(const View& view, Closure& closure) {
  for (; copied_ < read_; ++copied_) {
    const Found& found = found_.data()[copied_];
    // Roots are expanded even if they are boundary nodes.
    if (options_.stop_at_boundary && found.loaded.label == View::kBoundary && copied_ >= roots_) {
      continue;
    }
    const std::size_t size = closure.edges();
    const std::size_t grown = size + found.loaded.count;
    if (grown > kMaxExampleEdges) return ClosureEnd::kTooLarge;
    closure.edge_words.Reserve(grown);
    closure.edge_ends.Reserve(grown);
    view.Copy(found.loaded.edges, found.loaded.count, closure.edge_words.data() + size);
    std::fill_n(closure.edge_ends.data() + size, found.loaded.count,
                EdgeEnds{copied_, view.HomeOf(found.node)});
    closure.SetEdges(grown);
  }
  return ClosureEnd::kDone;
}

template <class View>
ClosureEnd ClosureInTurns<View>::LabelNodes(View& view, Closure& closure) {
  closure.node_labels.Reserve(read_);
  std::uint32_t* const labels = closure.node_labels.data();
  for (std::uint32_t number = 0; number < read_; ++number) {
    const Found& found = found_.data()[number];
    labels[number] = found.loaded.label;
    if (found.loaded.label != View::kBoundary) continue;
    if (const ClosureEnd end = view.LabelOf(found.node, labels + number);
        end != ClosureEnd::kDone) {
      return end;
    }
  }
  closure.node_labels.SetSize(read_);
  return ClosureEnd::kDone;
}

}  // namespace millrace
