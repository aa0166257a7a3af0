// The forward closure of reference-semantics: a template over a graph view and a visited set, so
// that the loop over a mapped file and the loop over two arrays are the same code with nothing
// between it and the words.
//
// A view V gives
//   V::Node                         a node; cheap to copy
//   V::Children                     where a node's edges lie; cheap to copy
//   V::Edges                        the same, being read: what the loop keeps in registers
//   std::uint64_t Slot(Node)        its number in the visited set. REQUIRES: the node was checked
//   ClosureEnd Load(Node, LoadedNode<Children>*)
//                                   reads and checks a node, once
//   Edges EdgesOf(Children)
//   std::size_t Left(Edges)         edges not read yet
//   ClosureEnd Next(Edges*, FoundEdge<Node>*)
//                                   reads and checks the next edge, once
//   bool prefetches()               whether the next two do something
//   void PrefetchEdges(Children)    hint: the edges will be read soon
//   template <class Entered> void PrefetchTargets(Children, const Entered& visited)
//                                   hint: the targets will be looked up and read soon
// Load and Next return kDone, or what ends the example.
//
// Not thread-safe: a builder belongs to a thread. No allocation once the largest example has been
// seen.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/batch/layout.h"
#include "server/pipeline/closure.h"
#include "server/pipeline/plan_draft.h"
#include "server/pipeline/scratch_array.h"

namespace millrace {

template <class View, class Visited>
class ClosureBuilder {
 public:
  using Node = typename View::Node;

  /// `nodes`: slots of the view.
  ClosureBuilder(std::uint64_t nodes, const ClosureOptions& options)
      : options_(options), visited_(nodes) {}

  /// The closure of the roots, which are distinct. `closure` is undefined where the result is not
  /// kDone.
  ClosureEnd Build(View& view, std::span<const Node> roots, Closure& closure);

  /// Number of a node in the closure built last; false where it is not in it.
  /// REQUIRES: slot < nodes.
  bool Find(std::uint64_t slot, std::uint32_t* number) {
    const auto visited = visited_.Enter();
    const auto place = visited.Find(slot);
    if (!visited.IsNumbered(place)) return false;
    *number = visited.Number(place);
    return true;
  }

 private:
  struct Pending {
    typename View::Children children;
    std::uint32_t number;
  };

  ClosureEnd AddRoots(View& view, std::span<const Node> roots, Closure& closure);
  template <bool kDepthFirst, bool kPrefetch>
  ClosureEnd Expand(View& view, std::uint32_t roots, Closure& closure);
  /// Room for `edges` edges. Every node but the roots comes with an edge, so that one check before
  /// the edges of a node are recorded is enough for all arrays.
  [[gnu::noinline]] void MakeRoom(std::size_t edges, std::size_t roots, Closure& closure) {
    closure.edges.Reserve(edges);
    closure.node_labels.Reserve(closure.edges.capacity() + roots);
    pending_.Reserve(closure.edges.capacity() + roots);
  }

  ClosureOptions options_;
  Visited visited_;
  std::uint32_t numbered_ = 0;  // nodes of the example built last, finished or not
  ScratchArray<Pending> pending_;
};

template <class View, class Visited>
ClosureEnd ClosureBuilder<View, Visited>::Build(View& view, std::span<const Node> roots,
                                                Closure& closure) {
  visited_.Forget(numbered_);
  numbered_ = 0;
  if (roots.size() > kMaxExampleNodes) return ClosureEnd::kTooLarge;
  std::fill(closure.edges_of_label.begin(), closure.edges_of_label.end(), 0);
  numbered_ = static_cast<std::uint32_t>(roots.size());
  if (const ClosureEnd end = AddRoots(view, roots, closure); end != ClosureEnd::kDone) return end;
  const auto count = static_cast<std::uint32_t>(roots.size());
  const bool prefetch = view.prefetches();
  if (options_.order == ClosureOrder::kDepthFirst) {
    return prefetch ? Expand<true, true>(view, count, closure)
                    : Expand<true, false>(view, count, closure);
  }
  return prefetch ? Expand<false, true>(view, count, closure)
                  : Expand<false, false>(view, count, closure);
}

template <class View, class Visited>
ClosureEnd ClosureBuilder<View, Visited>::AddRoots(View& view, std::span<const Node> roots,
                                                   Closure& closure) {
  MakeRoom(closure.edges.capacity(), roots.size(), closure);
  auto visited = visited_.Enter();
  std::uint32_t number = 0;
  for (const Node& root : roots) {
    LoadedNode<typename View::Children> loaded;
    if (const ClosureEnd end = view.Load(root, &loaded); end != ClosureEnd::kDone) return end;
    const std::uint64_t slot = view.Slot(root);
    visited.Insert(slot, visited.Find(slot), number);
    closure.node_labels.data()[number] = loaded.label;
    pending_.data()[number] = {loaded.children, number};
    ++number;
  }
  return ClosureEnd::kDone;
}

template <class View, class Visited>
template <bool kDepthFirst, bool kPrefetch>
ClosureEnd ClosureBuilder<View, Visited>::Expand(View& view, std::uint32_t roots,
                                                 Closure& closure) {
  // What the loop changes, in this frame, so that the compiler may keep it in registers.
  auto visited = visited_.Enter();
  std::uint32_t nodes = roots;
  std::size_t head = 0;
  std::size_t tail = roots;  // of the queue, or the stack
  std::uint32_t* const edges_of_label = closure.edges_of_label.data();
  std::uint32_t* labels = closure.node_labels.data();
  Pending* queue = pending_.data();
  RecordedEdge* edge = closure.edges.data();
  RecordedEdge* room_end = edge + closure.edges.capacity();
  // Equality with the limit, as the reference tests: more roots than the limit mean no limit.
  const bool limited = options_.max_subgraph_size >= roots;
  const std::uint32_t full = limited ? options_.max_subgraph_size : kMaxExampleNodes;
  const bool stop_at_definitions = options_.stop_at_definitions;
  const auto leave = [&](ClosureEnd end) {
    numbered_ = nodes;
    return end;
  };
  while (head < tail) {
    const Pending from = queue[kDepthFirst ? --tail : head++];
    // The edges of the node that comes next were asked for when it was queued.
    if (kPrefetch && head < tail) {
      view.PrefetchTargets(queue[kDepthFirst ? tail - 1 : head].children, visited);
    }
    typename View::Edges edges = view.EdgesOf(from.children);
    if (view.Left(edges) > static_cast<std::size_t>(room_end - edge)) [[unlikely]] {
      const auto size = static_cast<std::size_t>(edge - closure.edges.data());
      if (size + view.Left(edges) > kMaxExampleEdges) return leave(ClosureEnd::kTooLarge);
      closure.edges.SetSize(size);
      closure.node_labels.SetSize(nodes);
      pending_.SetSize(tail);
      MakeRoom(size + view.Left(edges), roots, closure);
      labels = closure.node_labels.data();
      queue = pending_.data();
      edge = closure.edges.data() + size;
      room_end = closure.edges.data() + closure.edges.capacity();
    }
    while (view.Left(edges) > 0) {
      FoundEdge<Node> found;
      if (const ClosureEnd end = view.Next(&edges, &found); end != ClosureEnd::kDone) {
        return leave(end);
      }
      if (found.label == kSkippedEdge) continue;
      const auto place = visited.Find(found.slot);
      std::uint32_t number;
      if (visited.IsNumbered(place)) {
        number = visited.Number(place);
      } else {
        if (nodes == full) {
          if (limited) continue;
          return leave(ClosureEnd::kTooLarge);
        }
        LoadedNode<typename View::Children> loaded;
        if (const ClosureEnd end = view.Load(found.target, &loaded); end != ClosureEnd::kDone) {
          return leave(end);
        }
        number = nodes++;
        visited.Insert(found.slot, place, number);
        labels[number] = loaded.label;
        if (!(loaded.is_definition && stop_at_definitions)) {
          if (kPrefetch) view.PrefetchEdges(loaded.children);
          queue[tail++] = {loaded.children, number};
        }
      }
      *edge++ = RecordedEdge(from.number, number, found.label);
      ++edges_of_label[found.label];
    }
  }
  closure.node_labels.SetSize(nodes);
  closure.edges.SetSize(static_cast<std::size_t>(edge - closure.edges.data()));
  return leave(ClosureEnd::kDone);
}

}  // namespace millrace
