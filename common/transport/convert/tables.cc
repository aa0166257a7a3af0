#include "common/transport/convert/tables.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "common/transport/convert/names.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxStaticBytes = std::size_t{1} << 31;

std::optional<ColumnType> ColumnTypeFromName(std::string_view name) {
  for (const ColumnType type : {ColumnType::kUnsigned, ColumnType::kSigned, ColumnType::kText}) {
    if (name == ColumnTypeName(type)) return type;
  }
  return std::nullopt;
}

/// `what` is "table" or "column"; `before` are those that come before it.
template <class Named>
Status CheckName(std::string_view what, const std::string& name, const std::vector<Named>& before) {
  if (!IsTableName(name)) {
    return DataLoss(fmt::format(
        "the name of a {} has {} bytes that are no name: expected 1 to 64 of a-z, 0-9 and _", what,
        name.size()));
  }
  for (const Named& one : before) {
    if (one.name == name) return DataLoss(fmt::format("there are two {}s '{}'", what, name));
  }
  return OkStatus();
}

Result<ColumnSpec> ReadColumnSpec(const std::string& name, const std::string& type,
                                  const std::vector<ColumnSpec>& before) {
  MILLRACE_RETURN_IF_ERROR(CheckName("column", name, before));
  MILLRACE_ASSIGN_OR_RETURN(const ColumnType known,
                            ByName("column type", type, ColumnTypeFromName));
  return ColumnSpec{name, known};
}

Result<TextColumn> ReadTexts(v1::TableColumn& column) {
  std::vector<std::uint64_t> ends;
  ends.reserve(static_cast<std::size_t>(column.lengths_size()));
  const std::uint64_t size = column.text().size();
  std::uint64_t end = 0;
  for (const std::uint64_t length : column.lengths()) {
    if (length > size - end) {
      return DataLoss(
          fmt::format("text {} ends after the {} bytes of all texts", ends.size(), size));
    }
    end += length;
    ends.push_back(end);
  }
  if (end != size) {
    return DataLoss(fmt::format("its texts have {} bytes, their lengths say {}", size, end));
  }
  return TextColumn(std::move(*column.mutable_text()), std::move(ends));
}

Result<TableColumn> ReadColumn(ColumnType type, std::uint64_t rows, v1::TableColumn& column) {
  const int numbers = type == ColumnType::kUnsigned ? column.numbers_size()
                      : type == ColumnType::kSigned ? column.signed_numbers_size()
                                                    : column.lengths_size();
  if (static_cast<std::uint64_t>(numbers) != rows) {
    return DataLoss(fmt::format("it has {} values, the table {} rows", numbers, rows));
  }
  if (column.numbers_size() + column.signed_numbers_size() + column.lengths_size() != numbers ||
      (type != ColumnType::kText && !column.text().empty())) {
    return DataLoss("it has values of another type too");
  }
  switch (type) {
    case ColumnType::kUnsigned:
      return TableColumn(
          std::vector<std::uint64_t>(column.numbers().begin(), column.numbers().end()));
    case ColumnType::kSigned:
      return TableColumn(std::vector<std::int64_t>(column.signed_numbers().begin(),
                                                   column.signed_numbers().end()));
    case ColumnType::kText:
      break;
  }
  MILLRACE_ASSIGN_OR_RETURN(TextColumn texts, ReadTexts(column));
  return TableColumn(std::move(texts));
}

Result<NamedTable> ReadTable(v1::Table& from) {
  NamedTable table;
  table.spec.name = from.name();
  table.spec.rows = from.rows();
  for (v1::TableColumn& column : *from.mutable_columns()) {
    MILLRACE_ASSIGN_OR_RETURN(ColumnSpec spec,
                              ReadColumnSpec(column.name(), column.type(), table.spec.columns));
    Result<TableColumn> values = ReadColumn(spec.type, from.rows(), column);
    if (!values.ok()) {
      return values.status().WithContext(fmt::format("column '{}'", column.name()));
    }
    table.spec.columns.push_back(std::move(spec));
    table.columns.push_back(*std::move(values));
  }
  if (table.columns.empty() && table.spec.rows > 0) {
    return DataLoss(fmt::format("it has {} rows and no columns", table.spec.rows));
  }
  return table;
}

/// For a person: "node_labels: 30 rows of name (text), ident (int64)".
std::string Describe(const TableSpec& table) {
  std::string text = fmt::format("{}: {} rows of", table.name, table.rows);
  for (const ColumnSpec& column : table.columns) {
    text += fmt::format(" {} ({})", column.name, ColumnTypeName(column.type));
  }
  return text;
}

}  // namespace

void ToProto(const TableSpec& table, v1::TableSpec* to) {
  to->set_name(table.name);
  to->set_rows(table.rows);
  to->clear_columns();
  for (const ColumnSpec& column : table.columns) {
    v1::ColumnSpec& one = *to->add_columns();
    one.set_name(column.name);
    one.set_type(std::string(ColumnTypeName(column.type)));
  }
  to->set_digest(table.digest);
}

Result<std::vector<TableSpec>> TablesOf(const v1::Spec& spec) {
  std::vector<TableSpec> tables;
  for (const v1::TableSpec& from : spec.tables()) {
    MILLRACE_RETURN_IF_ERROR(CheckName("table", from.name(), tables));
    TableSpec table{from.name(), from.rows(), {}, from.digest()};
    for (const v1::ColumnSpec& column : from.columns()) {
      Result<ColumnSpec> one = ReadColumnSpec(column.name(), column.type(), table.columns);
      if (!one.ok()) return one.status().WithContext(fmt::format("table '{}'", table.name));
      table.columns.push_back(*std::move(one));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

Result<NamedTables> DecodeTables(std::string_view bytes) {
  v1::Static message;
  if (bytes.size() > kMaxStaticBytes ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss(fmt::format("{} bytes that are no static tables", bytes.size()));
  }
  if (message.format() != kStaticFormat) {
    return Unimplemented(
        fmt::format("static tables of format {}: this build reads format {}; update the older one",
                    message.format(), kStaticFormat));
  }
  std::vector<NamedTable> tables;
  std::vector<TableSpec> names;
  for (v1::Table& from : *message.mutable_tables()) {
    if (Status status = CheckName("table", from.name(), names); !status.ok()) {
      return status.WithContext("static tables");
    }
    Result<NamedTable> table = ReadTable(from);
    if (!table.ok()) {
      return table.status().WithContext(fmt::format("static tables: table '{}'", from.name()));
    }
    names.push_back(TableSpec{from.name(), 0, {}, {}});
    tables.push_back(*std::move(table));
  }
  return NamedTables(std::move(tables));
}

Result<NamedTable> DecodeTable(std::string_view bytes) {
  v1::Table message;
  if (bytes.size() > kMaxStaticBytes ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss(fmt::format("{} bytes that are no table", bytes.size()));
  }
  MILLRACE_RETURN_IF_ERROR(CheckName<TableSpec>("table", message.name(), {}));
  Result<NamedTable> table = ReadTable(message);
  if (!table.ok()) {
    return table.status().WithContext(fmt::format("table '{}'", message.name()));
  }
  return table;
}

Status CheckTables(const NamedTables& tables, const std::vector<TableSpec>& specs) {
  for (std::size_t i = 0; i < std::max(tables.all().size(), specs.size()); ++i) {
    const std::string got = i < tables.all().size() ? Describe(tables.all()[i].spec) : "no table";
    const std::string wanted = i < specs.size() ? Describe(specs[i]) : "no table";
    if (got != wanted) {
      return DataLoss(
          fmt::format("static tables: expected {}, as the plan's spec says, got {}", wanted, got));
    }
  }
  return OkStatus();
}

}  // namespace millrace
