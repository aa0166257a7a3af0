// The static tables of a plan, as a client reads them: names, and the labels of global contexts.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "client/spec.h"
#include "common/base/result.h"
#include "millrace/v1/common.pb.h"

namespace millrace::client {

class StaticTables {
 public:
  /// Reads a serialized v1::Static. DataLoss if the bytes are no such message, or if an entry
  /// refers to something that does not exist.
  static Result<std::shared_ptr<const StaticTables>> Parse(std::string_view bytes,
                                                           std::uint64_t base_node_labels);

  const VocabularyTable& vocabulary() const { return vocabulary_; }
  std::uint64_t contexts() const {
    return static_cast<std::uint64_t>(contexts_.context_list_size());
  }

  /// The node labels of a context, in order. The spines of its required files come first, each from
  /// the file's representative backward. The chain of its own file follows. OutOfRange for an id
  /// that is not less than contexts().
  Result<std::vector<std::uint32_t>> Context(std::uint64_t id) const;

  /// The node labels of the definitions on the spines of all files, file by file. Empty if the plan
  /// has no contexts.
  std::vector<std::uint32_t> SpineLabels() const;

 private:
  StaticTables(VocabularyTable vocabulary, v1::ContextTable contexts, std::uint32_t base)
      : vocabulary_(std::move(vocabulary)), contexts_(std::move(contexts)), base_(base) {}

  Status Check() const;
  void AppendChain(std::uint32_t start, std::vector<std::uint32_t>& labels) const;

  VocabularyTable vocabulary_;
  v1::ContextTable contexts_;
  std::uint32_t base_;
};

}  // namespace millrace::client
