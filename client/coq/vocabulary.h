// The tables of a Coq plan, decoded: names for the numbers in batches, and the node labels of
// global contexts. docs/formats/tables.md describes the tables.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/tables.h"

namespace millrace {

struct TacticEntry {
  std::int64_t ident = 0;
  std::string_view base_text;
  std::uint64_t arguments = 0;
  std::uint64_t count = 0;  // how often it occurs in the dataset
};

class CoqVocabulary {
 public:
  /// Checks everything that an entry refers to. FailedPrecondition, with the names of the tables,
  /// if they are not the tables of a Coq plan; DataLoss if they contradict each other.
  static Result<std::shared_ptr<const CoqVocabulary>> Decode(
      std::shared_ptr<const NamedTables> tables);

  /// The number of an entry is its place in its list.
  const TextColumn& node_label_names() const { return *node_label_names_; }
  std::span<const std::int64_t> node_label_idents() const { return node_label_idents_; }
  const TextColumn& edge_label_names() const { return *edge_label_names_; }  // of the base labels
  const std::vector<TacticEntry>& tactics() const { return tactics_; }
  const TextColumn& files() const { return *files_; }  // files of the dataset, in order
  /// How many labels come with each file. They are consecutive, and come after the classes. In
  /// joint tables, labels that an earlier file has too come with that file.
  std::span<const std::uint64_t> labels_of_file() const { return labels_of_file_; }
  /// Node labels below this are classes of nodes, all others definitions.
  std::uint64_t classes() const { return classes_; }

  /// Number of contexts; 0 if the plan has none.
  std::uint64_t contexts() const { return context_list_.size(); }
  /// The node labels of a context, in order. The spines of its required files come first, each from
  /// the file's representative backward. The chain of its own file follows. OutOfRange for an id
  /// that is not less than contexts().
  Result<std::vector<std::uint32_t>> Context(std::uint64_t id) const;

  /// The node labels of the definitions on the spines of all files, file by file; in joint tables
  /// some of them several times. Empty if the plan has no contexts.
  std::vector<std::uint32_t> SpineLabels() const;

 private:
  explicit CoqVocabulary(std::shared_ptr<const NamedTables> tables) : tables_(std::move(tables)) {}

  Status ReadNames();
  Status ReadContexts();
  Status CheckContexts() const;
  void AppendChain(std::uint64_t start, std::vector<std::uint32_t>& labels) const;

  const std::shared_ptr<const NamedTables> tables_;  // all below refers to it
  const TextColumn* node_label_names_ = nullptr;
  std::span<const std::int64_t> node_label_idents_;
  const TextColumn* edge_label_names_ = nullptr;
  std::vector<TacticEntry> tactics_;
  const TextColumn* files_ = nullptr;
  std::span<const std::uint64_t> labels_of_file_;
  std::uint64_t classes_ = 0;
  // Empty without contexts. A definition is given by its label plus 1; 0: no definition.
  std::span<const std::uint64_t> previous_;        // by label
  std::span<const std::uint64_t> representative_;  // by file
  std::span<const std::uint64_t> list_parent_;
  std::span<const std::uint64_t> list_file_;
  std::span<const std::uint64_t> context_list_;
  std::span<const std::uint64_t> context_start_;
};

}  // namespace millrace
