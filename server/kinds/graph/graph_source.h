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

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const final {
    for (const ColumnValues& column : wanted) {
      for (std::size_t i = 0; i < column.values.size(); ++i) {
        column.values[i] = ColumnValue(column.column, first.value() + i);
      }
    }
  }
  Status CheckIntact() const final { return tables_->CheckIntact(); }
  const LateRows* late_rows() const final { return &tables_->arrays(); }
  bool verified() const final { return dataset().unverified() == 0; }
  LookupTables arrays() const final { return tables_->Lookups(); }
  const SourceTables* tables() const final { return tables_.get(); }

 protected:
  /// `facts` has what differs between sources: of columns those before the columns of targets, the
  /// first of which decides a hash split.
  GraphSource(std::shared_ptr<const GraphTables> tables, SourceFacts facts)
      : tables_(std::move(tables)) {
    facts.digest = dataset().digest();
    facts.split_column = facts.columns.front().name;
    for (const TargetColumn& target : tables_->targets()) facts.columns.push_back({target.name});
    facts.tensors = tables_->tensors();
    facts.expand = tables_->expand();
    facts.max_example_bytes = tables_->max_example_bytes();
    SetFacts(std::move(facts));
  }

 private:
  /// A value of a column. A number of the dataset that is bad counts as 0, and is noted
  /// (GraphTables::OrNote).
  virtual std::int64_t ColumnValue(std::size_t column, std::uint64_t row) const = 0;

  const std::shared_ptr<const GraphTables> tables_;
};

}  // namespace millrace
