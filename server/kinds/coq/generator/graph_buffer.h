// The nodes and edges of a file under construction.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "millrace/v1/dataset.capnp.h"
#include "server/kinds/coq/index/dataset_index.h"

namespace millrace::generator {

using NodeLabel = schema::Graph::Node::Label::Which;
using EdgeLabel = schema::EdgeClassification;

/// A node as an edge names it. Dependency 0 is the file itself.
struct Reference {
  std::uint32_t node = 0;
  std::uint16_t dependency = 0;
  friend bool operator==(const Reference&, const Reference&) = default;
};

struct BufferedEdge {
  BufferedEdge(EdgeLabel edge_label, Reference target)
      : label(edge_label), dependency(target.dependency), node(target.node) {}

  EdgeLabel label;
  std::uint16_t dependency;
  std::uint32_t node;
};

struct BufferedNode {
  NodeLabel label;
  std::uint16_t children_count = 0;
  std::uint32_t first_child = 0;
  /// For a proof state: its number. For a copy: the node whose identity it shares. Otherwise
  /// kNoRef.
  std::uint32_t value = kNoRef;
};

/// Not thread-safe.
class GraphBuffer {
 public:
  std::uint32_t size() const { return static_cast<std::uint32_t>(nodes_.size()); }
  std::span<const BufferedNode> nodes() const { return nodes_; }
  std::span<const BufferedEdge> edges() const { return edges_; }
  BufferedNode& node(std::uint32_t number) { return nodes_[number]; }

  void Reserve(std::size_t nodes) {
    nodes_.reserve(nodes);
    edges_.reserve(nodes * 2);
  }

  std::uint32_t Add(NodeLabel label) {
    nodes_.push_back({.label = label});
    return size() - 1;
  }

  /// Gives a node its children. May be called once for each node.
  void SetChildren(std::uint32_t number, std::initializer_list<BufferedEdge> children) {
    Begin(number);
    for (const BufferedEdge& child : children) edges_.push_back(child);
    End(number);
  }

  /// SetChildren in pieces. No other node may get children in between.
  void Begin(std::uint32_t number) {
    nodes_[number].first_child = static_cast<std::uint32_t>(edges_.size());
  }
  void Child(EdgeLabel label, Reference target) { edges_.emplace_back(label, target); }
  void End(std::uint32_t number) {
    BufferedNode& node = nodes_[number];
    node.children_count = static_cast<std::uint16_t>(edges_.size() - node.first_child);
  }

 private:
  std::vector<BufferedNode> nodes_;
  std::vector<BufferedEdge> edges_;
};

}  // namespace millrace::generator
