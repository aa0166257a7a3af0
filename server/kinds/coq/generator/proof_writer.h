// Writes the proofs of a generated file and their texts into its message.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "millrace/v1/dataset.capnp.h"
#include "server/kinds/coq/generator/content.h"
#include "server/kinds/coq/generator/outline.h"

namespace millrace::generator {

inline capnp::Text::Reader AsText(const std::string& text) {
  return capnp::Text::Reader(text.c_str(), text.size());
}

class ProofWriter {
 public:
  /// Both arguments must outlive the writer.
  ProofWriter(const Outline& outline, const FileContent& content)
      : outline_(outline), content_(content), key_(outline.Key(content.file)) {}

  /// Writes a definition's steps into `list`. REQUIRES: `list` has as many elements.
  void Write(const DefinitionExtra& extra, capnp::List<schema::ProofStep>::Builder list);

 private:
  void WriteTactic(std::uint32_t tactic, std::uint64_t key, schema::Tactic::Builder builder);
  void WriteOutcome(std::uint32_t number, schema::Outcome::Builder builder);
  void WriteState(std::uint32_t number, schema::ProofState::Builder builder);
  // The text of a term. It is valid until the next text is made.
  capnp::Text::Reader Term(std::uint64_t key);

  const Outline& outline_;
  const FileContent& content_;
  const std::uint64_t key_;
  std::string text_;
  std::string state_text_;
};

}  // namespace millrace::generator
