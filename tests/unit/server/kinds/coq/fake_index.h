// An index made in memory: files with forests of definitions, and the files that they require. It
// has only the parts that contexts, labels and splits use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/kinds/coq/index/dataset_index.h"

namespace millrace::test {

struct FakeDefinition {
  std::optional<std::uint32_t> previous;  // index in the file's list, below its own
  std::vector<std::uint32_t> required;    // earlier files
  DefinitionKind kind = DefinitionKind::kTacticalConstant;
  std::optional<std::uint32_t> representative;  // of its cluster; absent: itself
};

struct FakeFile {
  std::string name;
  std::vector<FakeDefinition> definitions;
  std::optional<std::uint32_t> representative;  // index in `definitions`
  std::vector<std::uint32_t> dependencies;      // numbers of files
};

class FakeIndex final : public DatasetIndex {
 public:
  explicit FakeIndex(const std::vector<FakeFile>& files) {
    for (const FakeFile& file : files) AddFile(file);
    files_ = file_records_;
    definitions_ = definition_records_;
    clusters_ = cluster_records_;
    required_files_ = required_;
    spines_ = spine_entries_;
    dependency_files_ = dependencies_;
    string_offsets_ = offsets_;
    string_bytes_ = bytes_;
  }
  Status Verify() const override { return OkStatus(); }

 private:
  static std::uint32_t Size(const auto& list) { return static_cast<std::uint32_t>(list.size()); }

  void AddFile(const FakeFile& file) {
    FileRecord record{};
    record.name = Size(offsets_) - 1;
    bytes_.insert(bytes_.end(), file.name.begin(), file.name.end());
    offsets_.push_back(bytes_.size());
    const std::uint32_t first = Size(definition_records_);
    const std::uint32_t number = Size(file_records_);
    for (std::uint32_t d = 0; d < file.definitions.size(); ++d) {
      const FakeDefinition& from = file.definitions[d];
      DefinitionRecord definition{};
      definition.file = number;
      definition.node = d;
      definition.kind = from.kind;
      definition.previous = from.previous ? first + *from.previous : kNoRef;
      definition.depth = from.previous ? definition_records_[definition.previous].depth + 1 : 0;
      definition.required_files = {Size(required_), Size(from.required)};
      required_.insert(required_.end(), from.required.begin(), from.required.end());
      definition.cluster = Size(cluster_records_);
      cluster_records_.push_back({{0, 0}, first + from.representative.value_or(d), number});
      definition_records_.push_back(definition);
    }
    NumberForest(first);
    record.node_count = Size(file.definitions);
    record.definitions = {first, Size(file.definitions)};
    record.representative = file.representative ? first + *file.representative : kNoRef;
    record.spine.first = Size(spine_entries_);
    for (std::uint32_t d = record.representative; d != kNoRef;
         d = definition_records_[d].previous) {
      spine_entries_.push_back(d);
      definition_records_[d].on_spine = 1;
    }
    record.spine.count = Size(spine_entries_) - record.spine.first;
    record.dependencies = {Size(dependencies_), Size(file.dependencies) + 1};
    dependencies_.push_back(number);
    dependencies_.insert(dependencies_.end(), file.dependencies.begin(), file.dependencies.end());
    file_records_.push_back(record);
  }

  void NumberForest(std::uint32_t first) {
    std::uint32_t next = 0;
    const auto visit = [&](std::uint32_t d, const auto& self) -> void {
      definition_records_[d].enter = next++;
      for (std::uint32_t c = first; c < definition_records_.size(); ++c) {
        if (definition_records_[c].previous == d) self(c, self);
      }
      definition_records_[d].exit = next;
    };
    for (std::uint32_t d = first; d < definition_records_.size(); ++d) {
      if (definition_records_[d].previous == kNoRef) visit(d, visit);
    }
  }

  std::vector<FileRecord> file_records_;
  std::vector<DefinitionRecord> definition_records_;
  std::vector<ClusterRecord> cluster_records_;
  std::vector<std::uint32_t> required_;
  std::vector<std::uint32_t> spine_entries_;
  std::vector<std::uint32_t> dependencies_;
  std::vector<std::uint64_t> offsets_ = {0};
  std::vector<char> bytes_;
};

}  // namespace millrace::test
