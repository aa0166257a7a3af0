#include "common/base/tables.h"

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace millrace {
namespace {

constexpr std::size_t kMaxTableName = 64;

}  // namespace

std::string_view ColumnTypeName(ColumnType type) {
  switch (type) {
    case ColumnType::kUnsigned:
      return "uint64";
    case ColumnType::kSigned:
      return "int64";
    case ColumnType::kText:
      return "text";
  }
  return "unknown";
}

bool IsTableName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxTableName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

const NamedTable* NamedTables::Find(std::string_view table) const {
  for (const NamedTable& candidate : tables_) {
    if (candidate.spec.name == table) return &candidate;
  }
  return nullptr;
}

Result<const TableColumn*> NamedTables::Column(std::string_view table, std::string_view column,
                                               ColumnType type) const {
  const NamedTable* const found = Find(table);
  if (found == nullptr) {
    std::vector<std::string_view> names;
    for (const NamedTable& one : tables_) names.push_back(one.spec.name);
    return NotFound(fmt::format("the plan has no table '{}': {}", table,
                                names.empty() ? std::string("it has none")
                                              : fmt::format("it has {}", fmt::join(names, ", "))));
  }
  std::vector<std::string> columns;
  for (std::size_t i = 0; i < found->columns.size(); ++i) {
    const ColumnSpec& spec = found->spec.columns[i];
    if (spec.name == column && spec.type == type) return &found->columns[i];
    columns.push_back(fmt::format("{} ({})", spec.name, ColumnTypeName(spec.type)));
  }
  return NotFound(fmt::format("table '{}' has no column '{}' of type {}: it has {}", table, column,
                              ColumnTypeName(type), fmt::join(columns, ", ")));
}

Result<std::span<const std::uint64_t>> NamedTables::Unsigned(std::string_view table,
                                                             std::string_view column) const {
  MILLRACE_ASSIGN_OR_RETURN(const auto* const values, Column(table, column, ColumnType::kUnsigned));
  return std::span<const std::uint64_t>(std::get<std::vector<std::uint64_t>>(*values));
}

Result<std::span<const std::int64_t>> NamedTables::Signed(std::string_view table,
                                                          std::string_view column) const {
  MILLRACE_ASSIGN_OR_RETURN(const auto* const values, Column(table, column, ColumnType::kSigned));
  return std::span<const std::int64_t>(std::get<std::vector<std::int64_t>>(*values));
}

Result<const TextColumn*> NamedTables::Texts(std::string_view table,
                                             std::string_view column) const {
  MILLRACE_ASSIGN_OR_RETURN(const auto* const values, Column(table, column, ColumnType::kText));
  return &std::get<TextColumn>(*values);
}

}  // namespace millrace
