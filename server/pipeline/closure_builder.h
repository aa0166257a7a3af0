// The forward closure of reference-semantics: a template over a graph view and a visited set, so that
// the loop over a mapped file and the loop over two arrays are the same code with nothing between it
// and the words.
//
// A view V gives
//   V::Node                         a node; cheap to copy
//   V::Children                     where a node's edges lie; cheap to copy
//   std::uint64_t Slot(Node)        its number in the visited set. REQUIRES: the node was checked
//   ClosureEnd Load(Node, LoadedNode<Children>*)
//                                   reads and checks a node, once
//   std::uint32_t Count(const Children&)
//   ClosureEnd Child(const Children&, std::uint32_t i, Node*, std::uint32_t* label)
//                                   reads and checks an edge, once; label is the base label, or
//                                   kSkippedEdge
//   void PrefetchChildren(const Children&)
// Load and Child return kDone, or what ends the example.
//
// Not thread-safe: a builder belongs to a thread. No allocation once the largest example has been
// seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/batch/layout.h"
#include "server/pipeline/plan_draft.h"

namespace millrace {

/// How the build of a closure ends.
enum class ClosureEnd : std::uint8_t {
  kDone,
  kTooLarge,      // more than kMaxExampleNodes nodes, or kMaxExampleEdges edges
  kUnlabelled,    // reaches a definition without label
  kExcluded,      // reads a file that the pipeline excludes
  kFailed,        // the view read something that cannot be; it knows what
};

/// Edges a closure may have before it counts as too large: far above any real example, and what
/// bounds the memory that a hostile file can ask for.
inline constexpr std::size_t kMaxExampleEdges = std::size_t{1} << 26;

/// Child's label for an edge that closures do not follow.
inline constexpr std::uint32_t kSkippedEdge = 0xFFFFFFFF;

/// What Load reads.
template <class Children>
struct LoadedNode {
  std::uint32_t label;  // node label
  bool is_definition;
  Children children;
};

/// A recorded edge: numbers of nodes in the example take 24 bits each, the base label 16.
class RecordedEdge {
 public:
  RecordedEdge() = default;
  RecordedEdge(std::uint32_t source, std::uint32_t target, std::uint32_t label)
      : bits_(std::uint64_t{source} | std::uint64_t{target} << 24 | std::uint64_t{label} << 48) {}
  std::uint32_t source() const { return bits_ & 0xFFFFFF; }
  std::uint32_t target() const { return bits_ >> 24 & 0xFFFFFF; }
  std::uint32_t label() const { return static_cast<std::uint32_t>(bits_ >> 48); }

 private:
  std::uint64_t bits_;
};
static_assert(kMaxExampleNodes < 1u << 24);

/// A closure: labels of the nodes in the order of their numbers, edges in the order of recording.
struct Closure {
  std::vector<std::uint32_t> node_labels;
  std::vector<RecordedEdge> edges;
};

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
    const auto place = visited_.Find(slot);
    if (!visited_.IsNumbered(place)) return false;
    *number = visited_.Number(place);
    return true;
  }

 private:
  struct Pending {
    typename View::Children children;
    std::uint32_t number;
  };

  template <bool kDepthFirst>
  ClosureEnd Expand(View& view, Closure& closure);

  ClosureOptions options_;
  Visited visited_;
  std::vector<Pending> pending_;
};

template <class View, class Visited>
ClosureEnd ClosureBuilder<View, Visited>::Build(View& view, std::span<const Node> roots,
                                                Closure& closure) {
  closure.node_labels.clear();
  closure.edges.clear();
  pending_.clear();
  visited_.Begin();
  if (roots.size() > kMaxExampleNodes) return ClosureEnd::kTooLarge;
  for (const Node& root : roots) {
    LoadedNode<typename View::Children> loaded;
    if (const ClosureEnd end = view.Load(root, &loaded); end != ClosureEnd::kDone) return end;
    const auto number = static_cast<std::uint32_t>(closure.node_labels.size());
    const std::uint64_t slot = view.Slot(root);
    visited_.Insert(slot, visited_.Find(slot), number);
    closure.node_labels.push_back(loaded.label);
    pending_.push_back({loaded.children, number});
  }
  return options_.order == ClosureOrder::kDepthFirst ? Expand<true>(view, closure)
                                                     : Expand<false>(view, closure);
}

template <class View, class Visited>
template <bool kDepthFirst>
ClosureEnd ClosureBuilder<View, Visited>::Expand(View& view, Closure& closure) {
  for (std::size_t head = 0; head < pending_.size();) {
    const Pending from = kDepthFirst ? pending_.back() : pending_[head];
    if constexpr (kDepthFirst) {
      pending_.pop_back();
    } else {
      ++head;
    }
    const std::uint32_t count = view.Count(from.children);
    if (closure.edges.size() + count > kMaxExampleEdges) return ClosureEnd::kTooLarge;
    for (std::uint32_t i = 0; i < count; ++i) {
      Node child;
      std::uint32_t label;
      if (const ClosureEnd end = view.Child(from.children, i, &child, &label);
          end != ClosureEnd::kDone) {
        return end;
      }
      if (label == kSkippedEdge) continue;
      const std::uint64_t slot = view.Slot(child);
      const auto place = visited_.Find(slot);
      std::uint32_t number;
      if (visited_.IsNumbered(place)) {
        number = visited_.Number(place);
      } else {
        number = static_cast<std::uint32_t>(closure.node_labels.size());
        // Equality, as the reference tests: more roots than the limit mean no limit.
        if (number == options_.max_subgraph_size) continue;
        if (number == kMaxExampleNodes) return ClosureEnd::kTooLarge;
        LoadedNode<typename View::Children> loaded;
        if (const ClosureEnd end = view.Load(child, &loaded); end != ClosureEnd::kDone) return end;
        visited_.Insert(slot, place, number);
        closure.node_labels.push_back(loaded.label);
        if (!(loaded.is_definition && options_.stop_at_definitions)) {
          view.PrefetchChildren(loaded.children);
          pending_.push_back({loaded.children, number});
        }
      }
      closure.edges.emplace_back(from.number, number, label);
    }
  }
  return ClosureEnd::kDone;
}

}  // namespace millrace
