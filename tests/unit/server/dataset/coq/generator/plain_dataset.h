// A dataset read with Cap'n Proto's own accessors into plain vectors, and a closure written from
// the description of the format alone: what the generator's tests count with. Shares no code with
// the server's readers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "millrace/v1/dataset.capnp.h"

namespace millrace::test {

using NodeLabel = schema::Graph::Node::Label::Which;
using EdgeLabel = schema::EdgeClassification;
using DefinitionTag = schema::Definition::Which;

/// (file, node).
using PlainNode = std::pair<std::uint32_t, std::uint32_t>;

struct PlainEdge {
  EdgeLabel label;
  PlainNode target;
};

struct PlainDefinition {
  std::uint32_t node = 0;
  std::uint32_t previous = 0;
  std::uint32_t cluster = 0;  // a node; itself for constants
  DefinitionTag tag{};
  schema::Definition::Status::Which status{};
  std::vector<std::uint32_t> required;  // files
};

struct PlainOutcome {
  std::uint32_t file = 0;
  std::uint32_t definition = 0;  // a node
  PlainNode root;
  std::vector<PlainNode> context;
  std::vector<std::pair<bool, PlainNode>> arguments;  // resolvable
};

struct PlainStep {
  bool known = false;
  std::int64_t ident = 0;
  std::string text;
  std::string interm_text;
  std::vector<PlainOutcome> outcomes;
};

struct PlainFile {
  std::string name;
  std::vector<std::uint32_t> dependencies;
  std::uint32_t representative = 0;
  std::vector<NodeLabel> labels;
  std::vector<std::int64_t> identities;
  std::vector<std::vector<PlainEdge>> children;
  std::map<std::uint32_t, PlainDefinition> definitions;  // by node
  std::vector<PlainStep> steps;
  std::uint32_t segments = 0;
  std::uint32_t far_pointers = 0;  // of all segments' words that look like one
  std::uint32_t double_far_pointers = 0;
};

struct PlainDataset {
  std::vector<PlainFile> files;

  NodeLabel label(PlainNode node) const { return files[node.first].labels[node.second]; }
  const std::vector<PlainEdge>& children(PlainNode node) const {
    return files[node.first].children[node.second];
  }
  /// Outcomes of known tactics, in order.
  std::vector<const PlainOutcome*> Examples() const;
  /// The nodes of a breadth-first closure that stops at definitions, in order, without a limit.
  std::vector<PlainNode> Closure(PlainNode root) const;
};

/// Throws std::runtime_error where an index is out of range or a dependency is missing.
PlainDataset ReadPlainDataset(const std::filesystem::path& dir);

}  // namespace millrace::test
