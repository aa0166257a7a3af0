// The values of joined tables, column by column.

#include <optional>
#include <utility>
#include <variant>

#include "common/transport/convert/table_writer.h"
#include "server/plan/mix/joined_tables.h"
#include "server/plan/mix/source_tables.h"

namespace millrace {

/// Writes the columns of one table. Holds the values of all inputs while it does.
class JoinedTables::ColumnWriter {
 public:
  ColumnWriter(const JoinedTables& tables, std::size_t table) : tables_(tables), table_(table) {
    for (const Input& input : tables.inputs_) {
      const Source& source = *input.branch.source;
      // The table could be read when the tables were joined, and its values are always the same.
      values_.push_back(*ReadSourceTable(source, source.table_specs()[table].table, table));
    }
  }

  void Write(std::size_t column, TableWriter& out) const {
    const std::optional<ColumnRole> role = Link(column).role;
    if (!role) return WriteValues(column, out);
    switch (*role) {
      case ColumnRole::kReference:
        return WriteReferences(column, out);
      case ColumnRole::kCount:
        return WriteSums(column, out);
      case ColumnRole::kRun:
        return WriteRuns(column, out);
    }
  }

 private:
  using Numbers = std::vector<std::uint64_t>;

  const LinkedColumn& Link(std::size_t column) const {
    return tables_.links_.columns[table_][column];
  }
  const Placed& PlacedOf(std::size_t input, std::size_t table) const {
    return tables_.inputs_[input].tables[table];
  }
  template <class Value>
  const Value& Of(std::size_t input, std::size_t column) const {
    return std::get<Value>(values_[input].columns[column]);
  }
  /// Calls visit(input, row) for each joined row, with the input that added it.
  template <class Visit>
  void EachRow(const Visit& visit) const {
    for (std::size_t input = 0; input < values_.size(); ++input) {
      const Placed& placed = PlacedOf(input, table_);
      for (std::uint64_t row = 0; row < values_[input].spec.rows; ++row) {
        if (placed.Added(row)) visit(input, row);
      }
    }
  }
  template <class Value>
  auto EachValue(std::size_t column) const {
    return [this, column](const auto& visit) {
      EachRow([&](std::size_t input, std::uint64_t row) { visit(Of<Value>(input, column)[row]); });
    };
  }

  void WriteValues(std::size_t column, TableWriter& out) const {
    switch (values_.front().spec.columns[column].type) {
      case ColumnType::kUnsigned:
        return out.Unsigned(EachValue<Numbers>(column));
      case ColumnType::kSigned:
        return out.Signed(EachValue<std::vector<std::int64_t>>(column));
      case ColumnType::kText:
        return out.Texts(EachValue<TextColumn>(column));
    }
  }
  void WriteReferences(std::size_t column, TableWriter& out) const {
    const LinkedColumn& link = Link(column);
    out.Unsigned([&](const auto& visit) {
      EachRow([&](std::size_t input, std::uint64_t row) {
        const std::optional<std::uint64_t> to = link.Row(Of<Numbers>(input, column)[row]);
        visit(to ? PlacedOf(input, link.table).Row(*to) + (link.or_none ? 1 : 0) : 0);
      });
    });
  }
  void WriteSums(std::size_t column, TableWriter& out) const {
    Numbers sums(tables_.specs_[table_].table.rows, 0);
    for (std::size_t input = 0; input < values_.size(); ++input) {
      const Placed& placed = PlacedOf(input, table_);
      const Numbers& counts = Of<Numbers>(input, column);
      for (std::size_t row = 0; row < counts.size(); ++row) sums[placed.Row(row)] += counts[row];
    }
    out.Unsigned([&](const auto& visit) {
      for (const std::uint64_t sum : sums) visit(sum);
    });
  }
  void WriteRuns(std::size_t column, TableWriter& out) const {
    Numbers added;
    for (std::size_t input = 0; input < values_.size(); ++input) AppendRuns(input, column, added);
    out.Unsigned([&](const auto& visit) {
      for (const std::uint64_t run : added) visit(run);
    });
  }
  /// For each row that an input added: how many rows of its run the input added.
  void AppendRuns(std::size_t input, std::size_t column, Numbers& added) const {
    const std::size_t target = Link(column).table;
    const Numbers& runs = Of<Numbers>(input, column);
    const SourceTableSpec spec = tables_.inputs_[input].branch.source->table_specs()[target];
    std::uint64_t next = spec.table.rows;
    for (const std::uint64_t run : runs) next -= run;
    for (std::size_t row = 0; row < runs.size(); ++row) {
      std::uint64_t count = 0;
      for (std::uint64_t i = 0; i < runs[row]; ++i) {
        count += PlacedOf(input, target).Added(next++) ? 1 : 0;
      }
      if (PlacedOf(input, table_).Added(row)) added.push_back(count);
    }
  }

  const JoinedTables& tables_;
  const std::size_t table_;
  std::vector<NamedTable> values_;  // by input
};

void JoinedTables::Write(std::size_t table, TableWriter& out) const {
  if (inputs_.size() == 1) return inputs_.front().branch.source->tables()->WriteTable(table, out);
  const ColumnWriter writer(*this, table);
  for (std::size_t column = 0; column < specs_[table].table.columns.size(); ++column) {
    writer.Write(column, out);
  }
}

}  // namespace millrace
