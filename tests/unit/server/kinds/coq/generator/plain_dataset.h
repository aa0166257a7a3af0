// Reads a dataset with Cap'n Proto's own accessors into plain vectors, and computes closures from
// the description of the format alone. The generator's tests count with it. It shares no code with
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

/// (number of the file, number of the node)
using PlainNode = std::pair<std::uint32_t, std::uint32_t>;

struct PlainEdge {
  EdgeLabel label;
  PlainNode target;
};

struct PlainDefinition {
  std::uint32_t node = 0;
  std::uint32_t previous = 0;
  std::uint32_t cluster = 0;  // number of a node; a constant's own node
  DefinitionTag tag{};
  schema::Definition::Status::Which status{};
  std::vector<std::uint32_t> required;  // files, by number
};

struct PlainOutcome {
  std::uint32_t file = 0;
  std::uint32_t definition = 0;  // number of a node
  PlainNode root;
  std::vector<PlainNode> context;
  std::vector<std::pair<bool, PlainNode>> arguments;  // (whether it is resolvable, the node)
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
  std::map<std::uint32_t, PlainDefinition> definitions;  // by the number of the node
  std::vector<PlainStep> steps;
  std::uint32_t segments = 0;
  std::uint32_t far_pointers = 0;  // words in all segments that look like a far pointer
  std::uint32_t double_far_pointers = 0;
};

struct PlainDataset {
  std::vector<PlainFile> files;

  NodeLabel label(PlainNode node) const { return files[node.first].labels[node.second]; }
  const std::vector<PlainEdge>& children(PlainNode node) const {
    return files[node.first].children[node.second];
  }
  /// The outcomes of known tactics, in order.
  std::vector<const PlainOutcome*> Examples() const;
  /// The nodes of a breadth-first closure that stops at definitions, in order and without a size
  /// limit.
  std::vector<PlainNode> Closure(PlainNode root) const;
};

/// Throws std::runtime_error if an index is out of range or a dependency is missing.
PlainDataset ReadPlainDataset(const std::filesystem::path& dir);

}  // namespace millrace::test
