// Builds the forward closure of root nodes: all nodes that edges reach from the roots, and these
// edges. Nodes are numbered in the order in which they are found, roots first. They are expanded
// breadth first or depth first. Once `max_subgraph_size` nodes are numbered, edges to other nodes
// are dropped. With `stop_at_boundary`, the edges of a boundary node are followed only if it is a
// root. Batches must equal the reference loader's batches, so this order must not change.
//
// The builder is a template over a graph view and a visited set. So the loop over a mapped file and
// the loop over two arrays are the same code, and the loop reads words without a call.
//
// The nodes of a view live in homes (the files of a dataset). A view V provides
//   V::Node                         a node; cheap to copy
//   V::Home                         the data that all nodes of one home share
//   V::Target                       where an edge leads: .slot is its place in the visited set
//   V::EdgeAt                       where the edges of a node begin
//   V::kBoundary                    the label that Load gives to boundary nodes, at which closures
//                                   may stop, and to nothing else
//   const Home& HomeAt(std::uint32_t)
//                                   the home with this number, which is also its .number
//   std::uint32_t HomeOf(Node)
//   Node NodeOf(Target), const Home& HomeOf(Target)
//   std::uint64_t Slot(Node)        REQUIRES: the node was checked
//   bool Skips(std::uint64_t word)  whether closures leave this edge out
//   bool Follow(std::uint64_t word, const Home& source, Target*)
//   bool Load(const Target&, LoadedNode<V>*)
//                                   read the target of an edge, or a node, once, and check it.
//                                   False in an uncommon case: the home is not open yet, the edges
//                                   are at the very end, or the data are bad. The next two
//                                   functions tell these cases apart
//   ClosureEnd FollowAny(std::uint64_t word, const Home& source, Target*)
//   ClosureEnd LoadAny(Node, LoadedNode<V>*)
//                                   the same for every case
//   bool Peek(std::uint64_t word, const Home& source, Target*)
//                                   the target without opening its home; false for bad data, which
//                                   FollowAny then names
//   void CopyAtOnce(EdgeAt, std::uint64_t* to)
//                                   copies kEdgesAtOnce edges. REQUIRES: Load returned true
//   void Copy(EdgeAt, std::uint32_t count, std::uint64_t* to)
//   void PrefetchNode(Node), void PrefetchEdges(EdgeAt), void PrefetchLabel(Node)
//                                   hints that this will be read soon
//   ClosureEnd LabelOf(Node, std::uint32_t*)
//                                   the label of a boundary node
//
// An edge of a real graph may lead to a new node or to a known one, to a node with edges or
// without; it may be the last edge of its node or not. No processor can predict this: a branch on
// it is mispredicted every few edges, and that costs more than everything else. So the edges of all
// nodes are in one line, and the loop takes one after the other. For every edge it does the work of
// a new node: it numbers the node, reads it and puts its edges at the end of the line. Then it
// either counts this work or forgets it, without a branch. The loop guesses only that an edge
// begins and ends at the root's home, as most do. So no edge waits for the result of the edge
// before it.
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

namespace millrace {

template <class View, class Visited>
class ClosureBuilder {
 public:
  using Node = typename View::Node;
  static constexpr bool kTakesTurns = false;

  /// `nodes`: number of slots of the view.
  ClosureBuilder(std::uint64_t nodes, const ClosureOptions& options)
      : options_(options), visited_(nodes) {}

  /// Builds the closure of the roots. REQUIRES: the roots are distinct. `closure` is undefined if
  /// the result is not kDone.
  ClosureEnd Build(View& view, std::span<const Node> roots, Closure& closure);

  /// Gives the number of a node in the closure built last. False if the node is not in it.
  /// REQUIRES: slot < nodes.
  bool Find(std::uint64_t slot, std::uint32_t* number) { return visited_.Find(slot, number); }
  /// The node with a number in the closure built last. REQUIRES: it has that many nodes.
  const Node& NodeAt(std::uint32_t number) const { return nodes_.data()[number].node; }

 private:
  using Home = typename View::Home;
  using Target = typename View::Target;
  using EdgeAt = typename View::EdgeAt;

  /// Used depth first: a node whose edges are not in the line yet.
  struct Pending {
    EdgeAt edges;
    std::uint32_t count;
    std::uint32_t number;
  };

  ClosureEnd AddRoots(View& view, std::span<const Node> roots, Closure& closure);
  ClosureEnd Expand(View& view, std::uint32_t home, Closure& closure);
  /// Goes on from edge `*at` until an uncommon case; *at is then that edge, or the end of the line.
  /// `home` is the home where most edges begin.
  template <bool kStopAtBoundary>
  void ExpandCommon(View& view, const Home& home, std::size_t* at, Closure& closure);
  /// Handles one edge, common or not.
  ClosureEnd ExpandAny(View& view, std::size_t at, Closure& closure);
  /// Handles the edges of a newly found node. Breadth first puts them into the line; depth first
  /// keeps them for later.
  ClosureEnd Add(const View& view, const LoadedNode<View>& loaded, std::uint32_t number,
                 Closure& closure);
  /// Puts the edges of a node at the end of the line of edges that the loop follows.
  ClosureEnd Append(const View& view, const Pending& node, Closure& closure);
  ClosureEnd LabelNodes(View& view, Closure& closure);
  /// Edges before the first dropped one stay where they are.
  void RemoveDropped(Closure& closure) const;

  bool depth_first() const { return options_.order == ClosureOrder::kDepthFirst; }
  NodeLimit limit() const { return {options_.max_subgraph_size, roots_}; }

  /// Makes room for `edges` edges and for the unwanted ones that are copied with them. Every node
  /// except the roots comes with an edge. So this one check, made before edges are added, is enough
  /// for all arrays.
  void MakeRoom(std::size_t edges, Closure& closure) {
    const std::size_t room = closure.edge_words.capacity();
    if (edges + kEdgesAtOnce <= room && nodes_.capacity() > room + roots_) return;
    Grow(edges + kEdgesAtOnce, closure);
  }
  [[gnu::noinline]] void Grow(std::size_t edges, Closure& closure) {
    closure.edge_words.Reserve(edges);
    closure.edge_ends.Reserve(closure.edge_words.capacity());
    const std::size_t nodes = closure.edge_words.capacity() + roots_ + 1;
    closure.node_labels.Reserve(nodes);
    nodes_.Reserve(nodes);
    pending_.Reserve(nodes);
    boundary_.Reserve(nodes);
  }

  void SetNodes(std::uint32_t nodes) {
    numbered_ = nodes;
    nodes_.SetSize(nodes);
  }

  static constexpr std::size_t kNone = ~std::size_t{0};

  ClosureOptions options_;
  Visited visited_;
  std::uint32_t roots_ = 0;
  std::uint32_t numbered_ = 0;  // nodes of the example built last, even if its build failed
  ScratchArray<FoundNode<Node>> nodes_;   // by number
  ScratchArray<Pending> pending_;         // a stack
  ScratchArray<std::uint32_t> boundary_;  // numbers of boundary nodes
  std::size_t first_dropped_ = kNone;     // the first edge that does not belong to the closure
};

template <class View, class Visited>
ClosureEnd ClosureBuilder<View, Visited>::Build(View& view, std::span<const Node> roots,
                                                Closure& closure) {
  // A node may be stamped that could not be read, so one more number counts as used.
  visited_.Forget(numbered_ + 1);
  numbered_ = 0;
  if (roots.size() > kMaxExampleNodes) return ClosureEnd::kTooLarge;
  first_dropped_ = kNone;
  ClosureEnd end = AddRoots(view, roots, closure);
  if (end == ClosureEnd::kDone && !roots.empty()) {
    end = Expand(view, view.HomeOf(roots.front()), closure);
  }
  // A boundary node without label that was met earlier takes precedence over the reason that ended
  // the example.
  if (const ClosureEnd labelled = LabelNodes(view, closure); labelled != ClosureEnd::kDone) {
    return labelled;
  }
  if (first_dropped_ != kNone) RemoveDropped(closure);
  return end;
}

template <class View, class Visited>
ClosureEnd ClosureBuilder<View, Visited>::AddRoots(View& view, std::span<const Node> roots,
                                                   Closure& closure) {
  roots_ = static_cast<std::uint32_t>(roots.size());
  closure.SetEdges(0);
  nodes_.SetSize(0);
  pending_.SetSize(0);
  MakeRoom(0, closure);
  auto visited = visited_.Enter();
  for (std::uint32_t number = 0; number < roots_; ++number) {
    const Node& root = roots[number];
    LoadedNode<View> loaded;
    if (const ClosureEnd end = view.LoadAny(root, &loaded); end != ClosureEnd::kDone) return end;
    visited.NumberOr(view.Slot(root), number);
    nodes_.data()[number] = {root, loaded.label};
    SetNodes(number + 1);
    if (const ClosureEnd end = Add(view, loaded, number, closure); end != ClosureEnd::kDone) {
      return end;
    }
  }
  return ClosureEnd::kDone;
}

template <class View, class Visited>
ClosureEnd ClosureBuilder<View, Visited>::Expand(View& view, std::uint32_t home, Closure& closure) {
  for (std::size_t at = 0;; ++at) {
    if (!depth_first()) {
      if (options_.stop_at_boundary) {
        ExpandCommon<true>(view, view.HomeAt(home), &at, closure);
      } else {
        ExpandCommon<false>(view, view.HomeAt(home), &at, closure);
      }
    }
    while (at == closure.edges()) {
      if (pending_.size() == 0) return ClosureEnd::kDone;
      const Pending node = pending_.data()[pending_.size() - 1];
      pending_.SetSize(pending_.size() - 1);
      if (const ClosureEnd end = Append(view, node, closure); end != ClosureEnd::kDone) return end;
    }
    if (const ClosureEnd end = ExpandAny(view, at, closure); end != ClosureEnd::kDone) return end;
  }
}

template <class View, class Visited>
template <bool kStopAtBoundary>
[[gnu::noinline]] void ClosureBuilder<View, Visited>::ExpandCommon(View& view, const Home& home,
                                                                   std::size_t* at,
                                                                   Closure& closure) {
  // All values that the loop changes are local, so that the compiler can keep them in registers.
  auto visited = visited_.Enter();
  std::uint64_t* const words = closure.edge_words.data();
  EdgeEnds* const ends = closure.edge_ends.data();
  std::size_t edge = *at;
  std::size_t end = closure.edges();
  FoundNode<Node>* const nodes = nodes_.data();
  std::uint32_t count = numbered_;
  // A new node brings at most kEdgesAtOnce edges here, so the room limits the number of new nodes.
  const std::size_t room = closure.edge_words.capacity() - end;
  const auto last = static_cast<std::uint32_t>(
      std::min<std::size_t>(limit().full, count + (room - kEdgesAtOnce) / kEdgesAtOnce));
  while (edge != end && count != last) {
    const std::uint64_t word = words[edge];
    if (view.Skips(word)) [[unlikely]]
      break;
    const Home* source = &home;
    if (ends[edge].target != home.number) source = &view.HomeAt(ends[edge].target);
    Target target;
    if (!view.Follow(word, *source, &target)) [[unlikely]]
      break;
    LoadedNode<View> loaded;
    if (!view.Load(target, &loaded)) [[unlikely]]
      break;
    std::uint32_t number;
    std::uint32_t is_new = visited.Number(target.slot, count, &number);
    __asm__("" : "+r"(is_new));  // keeps it a number, so that the compiler makes no branch
    std::uint32_t edges = loaded.count & (0 - is_new);
    if (kStopAtBoundary) edges = loaded.label == View::kBoundary ? 0 : edges;
    if (edges > kEdgesAtOnce) [[unlikely]]
      break;
    visited.Set(target.slot, number);
    ends[edge].target = number;
    nodes[count] = {view.NodeOf(target), loaded.label};
    view.CopyAtOnce(loaded.edges, words + end);
    std::fill_n(ends + end, kEdgesAtOnce, EdgeEnds{number, view.HomeOf(target).number});
    end += edges;
    count += is_new;
    ++edge;
  }
  closure.SetEdges(end);
  SetNodes(count);
  *at = edge;
}

template <class View, class Visited>
ClosureEnd ClosureBuilder<View, Visited>::ExpandAny(View& view, std::size_t at, Closure& closure) {
  const std::uint64_t word = closure.edge_words.data()[at];
  std::uint32_t& end_of_edge = closure.edge_ends.data()[at].target;
  const Home& source = view.HomeAt(end_of_edge);
  end_of_edge = EdgeEnds::kDropped;
  if (view.Skips(word)) {
    first_dropped_ = std::min(first_dropped_, at);
    return ClosureEnd::kDone;
  }
  Target target;
  if (numbered_ == limit().full) {
    if (!view.Peek(word, source, &target)) return view.FollowAny(word, source, &target);
    std::uint32_t number;
    if (visited_.Find(target.slot, &number)) {
      end_of_edge = number;
      return ClosureEnd::kDone;
    }
    first_dropped_ = std::min(first_dropped_, at);
    return limit().limited ? ClosureEnd::kDone : ClosureEnd::kTooLarge;
  }
  if (const ClosureEnd end = view.FollowAny(word, source, &target); end != ClosureEnd::kDone) {
    return end;
  }
  const std::uint32_t number = visited_.Enter().NumberOr(target.slot, numbered_);
  end_of_edge = number;
  if (number != numbered_) return ClosureEnd::kDone;
  const Node node = view.NodeOf(target);
  LoadedNode<View> loaded;
  if (const ClosureEnd end = view.LoadAny(node, &loaded); end != ClosureEnd::kDone) return end;
  nodes_.data()[number] = {node, loaded.label};
  SetNodes(number + 1);
  if (loaded.label == View::kBoundary && options_.stop_at_boundary) return ClosureEnd::kDone;
  return Add(view, loaded, number, closure);
}

template <class View, class Visited>
ClosureEnd ClosureBuilder<View, Visited>::Add(const View& view, const LoadedNode<View>& loaded,
                                              std::uint32_t number, Closure& closure) {
  if (loaded.count == 0) return ClosureEnd::kDone;
  const Pending node{loaded.edges, loaded.count, number};
  if (!depth_first()) return Append(view, node, closure);
  pending_.data()[pending_.size()] = node;
  pending_.SetSize(pending_.size() + 1);
  return ClosureEnd::kDone;
}

template <class View, class Visited>
ClosureEnd ClosureBuilder<View, Visited>::Append(const View& view, const Pending& node,
                                                 Closure& closure) {
  const std::size_t size = closure.edges();
  if (size + node.count > kMaxExampleEdges) return ClosureEnd::kTooLarge;
  MakeRoom(size + node.count, closure);
  view.Copy(node.edges, node.count, closure.edge_words.data() + size);
  std::fill_n(closure.edge_ends.data() + size, node.count,
              EdgeEnds{node.number, view.HomeOf(nodes_.data()[node.number].node)});
  closure.SetEdges(size + node.count);
  return ClosureEnd::kDone;
}

template <class View, class Visited>
ClosureEnd ClosureBuilder<View, Visited>::LabelNodes(View& view, Closure& closure) {
  const FoundNode<Node>* const nodes = nodes_.data();
  std::uint32_t* const labels = closure.node_labels.data();
  std::uint32_t* const boundary = boundary_.data();
  std::size_t count = 0;
  for (std::uint32_t number = 0; number < numbered_; ++number) {
    labels[number] = nodes[number].label;
    boundary[count] = number;
    count += nodes[number].label == View::kBoundary;
  }
  closure.node_labels.SetSize(numbered_);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t number = boundary[i];
    if (const ClosureEnd end = view.LabelOf(nodes[number].node, labels + number);
        end != ClosureEnd::kDone) {
      return end;
    }
  }
  return ClosureEnd::kDone;
}

template <class View, class Visited>
void ClosureBuilder<View, Visited>::RemoveDropped(Closure& closure) const {
  std::uint64_t* const words = closure.edge_words.data();
  EdgeEnds* const ends = closure.edge_ends.data();
  std::size_t kept = first_dropped_;
  for (std::size_t e = first_dropped_; e < closure.edges(); ++e) {
    words[kept] = words[e];
    ends[kept] = ends[e];
    kept += ends[e].target != EdgeEnds::kDropped;
  }
  closure.SetEdges(kept);
}

}  // namespace millrace
