#include "server/plan/mix/table_agreement.h"

#include <algorithm>
#include <string_view>

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace millrace {
namespace {

bool Same(const ColumnMeaning& a, const ColumnMeaning& b) {
  return a.column == b.column && a.role == b.role && a.table == b.table && a.or_none == b.or_none;
}

/// For a person: "name (text), previous (uint64, rows of node_labels plus 1)".
std::string ColumnsOf(const SourceTableSpec& spec) {
  std::vector<std::string> columns;
  for (const ColumnSpec& column : spec.table.columns) {
    std::string more;
    for (const ColumnMeaning& meaning : spec.meanings) {
      if (meaning.column != column.name) continue;
      switch (meaning.role) {
        case ColumnRole::kReference:
          more = fmt::format(", rows of {}{}", meaning.table, meaning.or_none ? " plus 1" : "");
          break;
        case ColumnRole::kCount:
          more = ", a count";
          break;
        case ColumnRole::kRun:
          more = fmt::format(", how many rows of {}", meaning.table);
      }
    }
    columns.push_back(fmt::format("{} ({}{})", column.name, ColumnTypeName(column.type), more));
  }
  return fmt::format("{}", fmt::join(columns, ", "));
}

std::string TensorsOf(const SourceTableSpec& spec) {
  std::vector<std::string> tensors = spec.tensors;
  std::sort(tensors.begin(), tensors.end());
  return tensors.empty() ? "no tensor" : fmt::format("{}", fmt::join(tensors, ", "));
}

bool Has(const TablesOfBranch& one, const std::string& table) {
  return std::any_of(one.specs.begin(), one.specs.end(),
                     [&](const SourceTableSpec& spec) { return spec.table.name == table; });
}

Status CheckOneHasAllOf(const TablesOfBranch& one, const TablesOfBranch& other) {
  for (const SourceTableSpec& spec : other.specs) {
    if (Has(one, spec.table.name)) continue;
    return InvalidArgument(fmt::format(
        "branch '{}' has a table '{}' ({} rows) and branch '{}' has none: the numbers in batches "
        "have to mean the same in all branches; give all datasets this table, or none",
        other.branch, spec.table.name, spec.table.rows, one.branch));
  }
  return OkStatus();
}

Status CheckTable(const TablesOfBranch& a, const TablesOfBranch& b, std::size_t table) {
  const SourceTableSpec& x = a.specs[table];
  const SourceTableSpec& y = b.specs[table];
  const auto differ = [&](std::string_view what, const std::string& in_a, const std::string& in_b) {
    return InvalidArgument(fmt::format(
        "table '{}' differs in its {}: branch '{}' has {}, branch '{}' has {}; the branches of a "
        "mix need sources of one form",
        x.table.name, what, a.branch, in_a, b.branch, in_b));
  };
  if (x.table.name != y.table.name) return differ("place", "it first", y.table.name);
  if (x.table.columns != y.table.columns || x.first_is_none != y.first_is_none ||
      !std::equal(x.meanings.begin(), x.meanings.end(), y.meanings.begin(), y.meanings.end(),
                  Same)) {
    return differ("columns", ColumnsOf(x), ColumnsOf(y));
  }
  const std::string tensors = TensorsOf(x);
  return tensors == TensorsOf(y) ? OkStatus()
                                 : differ("tensors with its rows", tensors, TensorsOf(y));
}

}  // namespace

Status CheckTablesAgree(const TablesOfBranch& a, const TablesOfBranch& b) {
  MILLRACE_RETURN_IF_ERROR(CheckOneHasAllOf(b, a));
  MILLRACE_RETURN_IF_ERROR(CheckOneHasAllOf(a, b));
  for (std::size_t table = 0; table < a.specs.size(); ++table) {
    MILLRACE_RETURN_IF_ERROR(CheckTable(a, b, table));
  }
  return OkStatus();
}

}  // namespace millrace
