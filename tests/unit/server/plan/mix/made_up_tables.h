// Sources that have tables and nothing else, for tests of joined tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "common/base/tables.h"
#include "common/transport/convert/table_writer.h"
#include "common/transport/convert/tables.h"
#include "server/plan/mix/joined_tables.h"
#include "server/plan/static_data.h"
#include "server/source/source.h"

namespace millrace::test {

class TablesOnly final : public Source, public SourceTables {
 public:
  using Write = std::function<void(std::size_t, TableWriter&)>;
  TablesOnly(std::vector<SourceTableSpec> specs, Write write)
      : Source({.name = "tables"}), specs_(std::move(specs)), write_(std::move(write)) {}

  void ReadColumns(ExampleId /*first*/, std::span<const ColumnValues> /*wanted*/) const override {}
  ExampleDescription Describe(ExampleId /*id*/) const override { return {}; }
  std::unique_ptr<ExampleReader> NewReader() const override { return nullptr; }
  const SourceTables* tables() const override { return this; }
  std::vector<SourceTableSpec> TableSpecs() const override { return specs_; }
  void WriteTable(std::size_t table, TableWriter& out) const override { write_(table, out); }

 private:
  const std::vector<SourceTableSpec> specs_;
  const Write write_;
};

using TableNumbers = std::vector<std::uint64_t>;
using TableWords = std::vector<std::string>;

/// A column of a made-up table.
struct MadeUpColumn {
  std::string name;
  std::variant<TableNumbers, std::vector<std::int64_t>, TableWords> values;
};

/// A table that is written from its columns.
struct MadeUpTable {
  std::string name;
  std::vector<MadeUpColumn> columns;
  std::vector<ColumnMeaning> meanings = {};
  bool first_is_none = false;
  std::vector<std::string> tensors = {};

  const TableNumbers& Numbers(std::size_t column) const {
    return std::get<TableNumbers>(columns[column].values);
  }
  const TableWords& Words(std::size_t column) const {
    return std::get<TableWords>(columns[column].values);
  }
  std::uint64_t Rows() const {
    return std::visit([](const auto& values) { return values.size(); }, columns.front().values);
  }
  SourceTableSpec Spec() const {
    SourceTableSpec spec{{name, Rows(), {}, {}}, tensors, meanings, first_is_none};
    for (const MadeUpColumn& column : columns) {
      const auto type = std::array{ColumnType::kUnsigned, ColumnType::kSigned, ColumnType::kText};
      spec.table.columns.push_back({column.name, type.at(column.values.index())});
    }
    return spec;
  }
  void Write(TableWriter& out) const {
    for (const MadeUpColumn& column : columns) {
      const auto each = [](const auto& values) {
        return [&values](const auto& visit) {
          for (const auto& value : values) visit(value);
        };
      };
      switch (column.values.index()) {
        case 0:
          out.Unsigned(each(std::get<0>(column.values)));
          break;
        case 1:
          out.Signed(each(std::get<1>(column.values)));
          break;
        default:
          out.Texts(each(std::get<2>(column.values)));
      }
    }
  }
};

inline std::shared_ptr<const Source> SourceWith(std::vector<MadeUpTable> tables) {
  std::vector<SourceTableSpec> specs;
  for (const MadeUpTable& table : tables) specs.push_back(table.Spec());
  return std::make_shared<TablesOnly>(
      std::move(specs), [tables = std::move(tables)](std::size_t table, TableWriter& out) {
        tables[table].Write(out);
      });
}

/// The tables of a source as a consumer gets them.
inline std::shared_ptr<const NamedTables> ServedTables(const Source& source) {
  auto tables = DecodeTables(MakeStaticBytes(source));
  INFO(tables.status().message());
  REQUIRE(tables.ok());
  std::vector<TableSpec> specs;
  for (const SourceTableSpec& spec : source.table_specs()) specs.push_back(spec.table);
  REQUIRE(CheckTables(*tables, specs).ok());
  return std::make_shared<const NamedTables>(*std::move(tables));
}
inline std::shared_ptr<const NamedTables> ServedTables(const JoinedTables& joined) {
  return ServedTables(TablesOnly(joined.specs(), [&joined](std::size_t table, TableWriter& out) {
    joined.Write(table, out);
  }));
}

/// Branches a, b, c … with these sources.
inline std::vector<JoinedTables::Branch> BranchesOf(
    const std::vector<std::shared_ptr<const Source>>& sources) {
  std::vector<JoinedTables::Branch> branches;
  for (const auto& source : sources) {
    branches.push_back({std::string(1, static_cast<char>('a' + branches.size())), source});
  }
  return branches;
}

inline JoinedTables MustJoin(const std::vector<std::shared_ptr<const Source>>& sources) {
  auto joined = JoinedTables::Make(BranchesOf(sources), true);
  INFO(joined.status().message());
  REQUIRE(joined.ok());
  return *std::move(joined);
}

/// Where the row of a branch is in the joined table.
inline std::uint64_t JoinedRow(const JoinedTables& joined, std::size_t branch, std::size_t table,
                               std::uint64_t row) {
  const std::span<const std::uint32_t> rows = joined.RowsOf(branch, table);
  return rows.empty() ? row : rows[row];
}

}  // namespace millrace::test
