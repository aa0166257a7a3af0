// Builds a context table: requirement lists of definitions, and contexts numbered by value.
//
// Not thread-safe; used once.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/kinds/coq/context_table.h"

namespace millrace {

class ContextTable::Builder {
 public:
  Builder(ContextTable* table, std::span<const std::uint32_t> definitions);
  void Run();

 private:
  /// The list of files that a definition and those before it require.
  std::uint32_t ListOf(std::uint32_t definition);
  /// Adds the files that `definition` itself requires to `list`, each file once.
  std::uint32_t Extend(std::uint32_t list, std::uint32_t definition);
  std::uint32_t Child(std::uint32_t list, std::uint32_t file);
  /// The files that a file's spine requires, from the representative backward, each file once.
  const std::vector<std::uint32_t>& Requirements(std::uint32_t file);

  /// The definition at which the own chain of a definition's context begins.
  std::uint32_t Start(std::uint32_t definition) const;
  /// The hash of a chain's labels, from its beginning backward. Equal sequences have equal hashes,
  /// wherever they come from. The hashes of parts give the hash of the whole.
  std::uint64_t ChainHash(std::uint32_t definition);
  std::uint64_t ContextHash(Context context);
  bool SameValue(Context a, Context b) const;

  void NumberTree();

  ContextTable& table_;
  const DatasetIndex& index_;
  std::span<const std::uint32_t> definitions_;
  std::vector<std::uint32_t> list_of_;     // one for each definition; kNoRef: not yet known
  std::vector<std::uint64_t> chain_hash_;  // one for each definition; 0: not yet known
  std::vector<std::uint64_t> list_hash_;   // one for each list
  std::vector<std::vector<std::uint32_t>> requirements_;  // one for each file
  std::vector<bool> requirements_known_;
  std::vector<std::uint32_t> seen_;  // for each file: the last run of Extend that met it
  std::uint32_t run_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> child_;         // (list, file) → list
  std::unordered_map<std::uint64_t, std::uint32_t> by_pair_;       // (list, start) → context
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_hash_;  // hash of the value → context
};

}  // namespace millrace
