#include "server/pipeline/columns/measured_source.h"

#include <utility>

namespace millrace {
namespace {

class MeasuredSource final : public Source {
 public:
  MeasuredSource(std::shared_ptr<const Source> source, const MeasuredColumns& columns)
      : source_(std::move(source)), names_(source_->columns()) {
    for (const auto& [name, values] : columns) {
      names_.push_back(name);
      measured_.push_back(values);
    }
  }

  Digest128 digest() const override { return source_->digest(); }
  std::string_view name() const override { return source_->name(); }
  std::uint64_t examples() const override { return source_->examples(); }

  const std::vector<std::string>& columns() const override { return names_; }
  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override {
    const std::size_t own = source_->columns().size();
    std::vector<ColumnValues> rest;
    for (const ColumnValues& column : wanted) {
      if (column.column < own) {
        rest.push_back(column);
      } else {
        measured_[column.column - own]->Read(first.value(), column.values);
      }
    }
    if (!rest.empty()) source_->ReadColumns(first, rest);
  }
  bool Unmeasured(std::size_t column, ExampleId id) const override {
    const std::size_t own = source_->columns().size();
    return column < own ? source_->Unmeasured(column, id)
                        : !measured_[column - own]->Has(id.value());
  }
  std::string_view split_column() const override { return source_->split_column(); }
  Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const override {
    return source_->FileLabels(options);
  }
  ExampleDescription Describe(ExampleId id) const override { return source_->Describe(id); }

  ExampleChunk ChunkOf(ExampleId id) const override { return source_->ChunkOf(id); }
  std::uint64_t whole_examples() const override { return source_->whole_examples(); }
  ChunkIds ChunksOf(ExampleId example) const override { return source_->ChunksOf(example); }
  std::vector<std::string> counted_tensors() const override { return source_->counted_tensors(); }

  const std::vector<TensorSpec>& tensors() const override { return source_->tensors(); }
  const ExpandSpec& expand() const override { return source_->expand(); }
  std::unique_ptr<ExampleReader> NewReader() const override { return source_->NewReader(); }
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
  std::vector<std::string> names_;
  std::vector<std::shared_ptr<const MeasuredValues>> measured_;
};

}  // namespace

std::shared_ptr<const Source> WithColumns(std::shared_ptr<const Source> source,
                                          const MeasuredColumns& columns) {
  return std::make_shared<const MeasuredSource>(std::move(source), columns);
}

}  // namespace millrace
