// The index of a dataset: files in topological order, definitions, clusters, tactics, proof steps,
// proof states with their contexts and arguments, spines. It is built once (index_builder), written
// to one file, and mapped by dispatcher and workers. docs/formats/coq-index.md describes the file.
//
// The numbers are the dataset's own: files are numbered topologically, definitions in file order,
// and everything else in the order of the definitions. Node labels, tactic indexes and example ids
// are not here; they belong to a plan.
//
// Immutable after Open; thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/system/mutex.h"
#include "server/kinds/coq/index/definition_table.h"
#include "server/kinds/coq/scan/index_records.h"

namespace millrace {

class MappedFile;  // server/files/mapped_file.h

class DatasetIndex {
 public:
  /// Maps an index file. NotFound. DataLoss if its magic, version, size or checksum is wrong; the
  /// message names it, with the offset. A section's bounds are always checked. Takes milliseconds
  /// whatever the size: header and section table are always checked, sections only in files below 8
  /// MiB. Verify checks the sections of larger files.
  static Result<std::shared_ptr<const DatasetIndex>> Open(const std::filesystem::path& file);

  virtual ~DatasetIndex() = default;

  /// Compares every section with its checksum, which reads the whole file. DataLoss names the
  /// section.
  virtual Status Verify() const = 0;

  /// Whether records refer only to records that exist (index_check.h). The first call makes one
  /// pass over the index, while other callers wait; the result is remembered.
  Status CheckRecords() const;

  /// The file that holds the records; nullptr if they are in memory.
  virtual const MappedFile* file() const { return nullptr; }

  /// XXH3-128 over the format version and, for each file in order, its name, size and digest.
  /// Times, paths and hosts are not part of it.
  Digest128 digest() const { return digest_; }
  std::uint64_t nodes() const { return nodes_; }
  std::uint64_t edges() const { return edges_; }
  const IndexBounds& bounds() const { return *bounds_; }

  std::span<const FileRecord> files() const { return files_; }
  std::span<const DefinitionRecord> definitions() const { return definitions_; }
  std::span<const ClusterRecord> clusters() const { return clusters_; }
  std::span<const TacticRecord> tactics() const { return tactics_; }
  std::span<const StepRecord> steps() const { return steps_; }
  std::span<const OutcomeRecord> outcomes() const { return outcomes_; }

  std::span<const std::uint32_t> dependency_files() const { return dependency_files_; }
  std::span<const std::uint32_t> required_files() const { return required_files_; }
  std::span<const std::uint32_t> spines() const { return spines_; }
  std::span<const std::uint32_t> cluster_members() const { return cluster_members_; }
  std::span<const NodeRef> context_nodes() const { return context_nodes_; }
  /// file == kNoRef means that the argument could not be resolved.
  std::span<const NodeRef> arguments() const { return arguments_; }

  /// One record for each file, and the host on which they are valid (see HostId in
  /// file_identity.h).
  std::span<const HostFileRecord> host_files() const { return host_files_; }
  Digest128 host_id() const { return host_id_; }

  /// Name of a file in the dataset. Empty if the number is out of range.
  std::string_view file_name(std::uint32_t file) const {
    return file < files_.size() ? string(files_[file].name) : std::string_view();
  }
  /// For each file, the slice FileRecord::definitions of this array has the file's DefinitionIds,
  /// ordered by node.
  std::span<const std::uint32_t> definitions_by_node() const { return definitions_by_node_; }

  /// Files of the folder that were left out, with the reasons, ordered by name
  /// (docs/formats/coq-index.md).
  std::span<const LeftOutRecord> left_out() const { return left_out_; }
  /// The name of such a file; the next function gives its reason.
  std::string_view left_out_name(const LeftOutRecord& record) const {
    return LeftOutText(record.text, record.name_bytes);
  }
  std::string_view left_out_reason(const LeftOutRecord& record) const {
    return LeftOutText(record.text + record.name_bytes, record.reason_bytes);
  }

  /// Empty if the number is out of range.
  std::string_view string(std::uint32_t number) const;
  /// Finds definitions in O(1). The first call makes the table, while other callers wait; all plans
  /// share it. This takes 0.1 s for a million definitions.
  const DefinitionTable& definition_table() const {
    const DefinitionTable* const table = table_.load(std::memory_order_acquire);
    return table != nullptr ? *table : MakeTable();
  }

 protected:
  DatasetIndex() = default;

  Digest128 digest_;
  Digest128 host_id_;
  std::uint64_t nodes_ = 0;
  std::uint64_t edges_ = 0;
  const IndexBounds* bounds_ = nullptr;
  std::span<const FileRecord> files_;
  std::span<const HostFileRecord> host_files_;
  std::span<const DefinitionRecord> definitions_;
  std::span<const ClusterRecord> clusters_;
  std::span<const TacticRecord> tactics_;
  std::span<const StepRecord> steps_;
  std::span<const OutcomeRecord> outcomes_;
  std::span<const std::uint32_t> dependency_files_;
  std::span<const std::uint32_t> required_files_;
  std::span<const std::uint32_t> spines_;
  std::span<const std::uint32_t> cluster_members_;
  std::span<const NodeRef> context_nodes_;
  std::span<const NodeRef> arguments_;
  std::span<const std::uint64_t> string_offsets_;
  std::span<const char> string_bytes_;
  std::span<const std::uint32_t> definitions_by_node_;  // DefinitionIds of a file, by node
  std::span<const LeftOutRecord> left_out_;
  std::span<const char> left_out_bytes_;

 private:
  const DefinitionTable& MakeTable() const;
  std::string_view LeftOutText(std::uint64_t first, std::uint64_t count) const {
    const std::span<const char> text = Sub(left_out_bytes_, first, count);
    return {text.data(), text.size()};
  }

  mutable std::atomic<const DefinitionTable*> table_{nullptr};
  mutable Mutex mutex_;
  mutable std::unique_ptr<const DefinitionTable> made_ MILLRACE_GUARDED_BY(mutex_);
  mutable std::optional<Status> records_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
