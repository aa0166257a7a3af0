// The content of one generated file, in memory: graph, definitions, proofs. It depends only on the
// outline and the file's number.
#pragma once

#include <cstdint>
#include <vector>

#include "server/kinds/coq/generator/graph_buffer.h"
#include "server/kinds/coq/generator/outline.h"
#include "server/kinds/coq/generator/proofs.h"
#include "server/kinds/coq/generator/scope.h"
#include "server/source/random.h"

namespace millrace::generator {

/// Data of a definition in addition to its line in the definition table.
struct DefinitionExtra {
  std::uint32_t first_step = 0;  // position in ProofData::steps
  std::uint32_t step_count = 0;
  std::uint32_t examples = 0;
  Reference substituted;  // for a substituted definition: the definition that it copies
};

struct FileContent {
  FileContent(const Outline& outline, std::uint32_t number)
      : file(number), scope(outline, number) {}

  const std::uint32_t file;
  Scope scope;
  GraphBuffer graph;
  ProofData proofs;
  std::vector<DefinitionExtra> extras;  // one for each definition
  std::uint64_t examples = 0;           // outcomes of known tactics
};

/// The key from which a node's identity and texts are made.
inline std::uint64_t NodeKey(const Outline& outline, const FileContent& content, Reference node) {
  return Mix(outline.Key(content.scope.dependencies()[node.dependency]), node.node);
}

/// Fills in `content`. REQUIRES: `content` is new.
void BuildContent(const Outline& outline, FileContent* content);

}  // namespace millrace::generator
