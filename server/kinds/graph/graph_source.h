// The part of a source that every source of a graph dataset has: tables, tensors and columns of
// targets come from GraphTables.
//
// Thread-safe, as Source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/kinds/graph/graph_tables.h"
#include "server/source/source.h"

namespace millrace {

class GraphSource : public Source {
 public:
  const GraphDataset& dataset() const { return tables_->dataset(); }
  const GraphTables& graph_tables() const { return *tables_; }

  Digest128 digest() const final { return dataset().digest(); }
  const std::vector<std::string>& columns() const final { return columns_; }
  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const final {
    for (const ColumnValues& column : wanted) {
      for (std::size_t i = 0; i < column.values.size(); ++i) {
        column.values[i] = ColumnValue(column.column, first.value() + i);
      }
    }
  }
  const std::vector<TensorSpec>& tensors() const final { return tables_->tensors(); }
  const ExpandSpec& expand() const final { return tables_->expand(); }
  Status CheckIntact() const final { return tables_->CheckIntact(); }
  std::uint64_t max_example_bytes() const final { return tables_->max_example_bytes(); }
  const LateRows* late_rows() const final { return &tables_->arrays(); }
  bool verified() const final { return dataset().unverified() == 0; }
  LookupTables arrays() const final { return tables_->Lookups(); }
  std::vector<SourceTableSpec> tables() const final { return tables_->LabelTables(); }
  void WriteTable(std::size_t table, TableWriter& out) const final {
    tables_->WriteLabelTable(table, out);
  }

 protected:
  /// `columns`: the columns before the columns of targets.
  GraphSource(std::shared_ptr<const GraphTables> tables, std::vector<std::string> columns)
      : tables_(std::move(tables)), columns_(std::move(columns)) {
    for (const TargetColumn& target : tables_->targets()) columns_.push_back(target.name);
  }

 private:
  /// A value of a column. A number of the dataset that is bad counts as 0, and is noted
  /// (GraphTables::OrNote).
  virtual std::int64_t ColumnValue(std::size_t column, std::uint64_t row) const = 0;

  const std::shared_ptr<const GraphTables> tables_;
  std::vector<std::string> columns_;
};

}  // namespace millrace
