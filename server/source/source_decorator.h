// Forwards to another source everything that a derived class does not override.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/source/example_names.h"
#include "server/source/source.h"

namespace millrace {

class SourceDecorator : public Source {
 public:
  explicit SourceDecorator(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  const Source& source() const { return *source_; }

  Digest128 digest() const override { return source_->digest(); }
  Digest128 data_digest() const override { return source_->data_digest(); }
  std::string code() const override { return source_->code(); }
  bool varies() const override { return source_->varies(); }
  std::string_view name() const override { return source_->name(); }
  std::uint64_t examples() const override { return source_->examples(); }
  std::span<const SourceBranch> branches() const override { return source_->branches(); }

  const std::vector<std::string>& columns() const override { return source_->columns(); }
  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override {
    source_->ReadColumns(first, wanted);
  }
  bool HasFloats(std::size_t column) const override { return source_->HasFloats(column); }
  bool IsFeature(std::size_t column) const override { return source_->IsFeature(column); }
  bool Unmeasured(std::size_t column, ExampleId id) const override {
    return source_->Unmeasured(column, id);
  }
  std::string_view split_column() const override { return source_->split_column(); }
  Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const override {
    return source_->FileLabels(options);
  }
  ExampleDescription Describe(ExampleId id) const override { return source_->Describe(id); }

  ExampleChunk ChunkOf(ExampleId id) const override { return source_->ChunkOf(id); }
  std::uint64_t whole_examples() const override { return source_->whole_examples(); }
  ChunkIds ChunksOf(ExampleId example) const override { return source_->ChunksOf(example); }
  bool draws_by_chunk() const override { return source_->draws_by_chunk(); }
  std::vector<std::string> counted_tensors() const override { return source_->counted_tensors(); }

  const std::vector<TensorSpec>& tensors() const override { return source_->tensors(); }
  const ExpandSpec& expand() const override { return source_->expand(); }
  std::unique_ptr<ExampleReader> NewReader() const override { return source_->NewReader(); }
  bool drops_excluded() const override { return source_->drops_excluded(); }
  bool by_row() const override { return source_->by_row(); }
  std::set<std::uint64_t> pools() const override { return source_->pools(); }
  std::string_view reading_stage() const override { return source_->reading_stage(); }
  std::unique_ptr<const ExampleNames> NewNames() const override { return source_->NewNames(); }
  bool verified() const override { return source_->verified(); }
  LookupTables arrays() const override { return source_->arrays(); }
  Status CheckIntact() const override { return source_->CheckIntact(); }
  DropReasonNames drop_reasons() const override { return source_->drop_reasons(); }
  std::uint64_t max_example_bytes() const override { return source_->max_example_bytes(); }

  std::vector<SourceTableSpec> tables() const override { return source_->tables(); }
  void WriteTable(std::size_t table, TableWriter& out) const override {
    source_->WriteTable(table, out);
  }

 private:
  const std::shared_ptr<const Source> source_;
};

}  // namespace millrace
