// Forwards to another source everything that a derived class does not override. Its facts are those
// that the derived class gives: a copy of the other's with changes.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "server/source/source.h"

namespace millrace {

class SourceDecorator : public Source {
 public:
  const Source& source() const { return *source_; }

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override {
    source_->ReadColumns(first, wanted);
  }
  ExampleDescription Describe(ExampleId id) const override { return source_->Describe(id); }
  std::unique_ptr<ExampleReader> NewReader() const override { return source_->NewReader(); }
  Status CheckIntact() const override { return source_->CheckIntact(); }
  Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const override {
    return source_->FileLabels(options);
  }
  const SourceTables* tables() const override { return source_->tables(); }
  std::unique_ptr<const ExampleNames> NewNames() const override { return source_->NewNames(); }
  bool verified() const override { return source_->verified(); }
  LookupTables arrays() const override { return source_->arrays(); }
  bool Unmeasured(std::size_t column, ExampleId id) const override {
    return source_->Unmeasured(column, id);
  }
  const ExampleChunks* chunks() const override { return source_->chunks(); }
  const DocumentPacks* packs() const override { return source_->packs(); }

 protected:
  SourceDecorator(std::shared_ptr<const Source> source, SourceFacts facts)
      : Source(std::move(facts)), source_(std::move(source)) {}

 private:
  const std::shared_ptr<const Source> source_;
};

}  // namespace millrace
