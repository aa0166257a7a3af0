#include "server/plan/mix/linked_columns.h"

#include <algorithm>
#include <string>

#include <fmt/core.h>

namespace millrace {
namespace {

Result<std::vector<LinkedColumn>> LinkTable(const std::vector<SourceTableSpec>& specs,
                                            const SourceTableSpec& spec) {
  std::vector<LinkedColumn> linked(spec.table.columns.size());
  for (const ColumnMeaning& meaning : spec.meanings) {
    const auto bad = [&](std::string_view what) {
      return Internal(
          fmt::format("table '{}': column '{}' {}", spec.table.name, meaning.column, what));
    };
    const auto& columns = spec.table.columns;
    const auto column = std::find_if(columns.begin(), columns.end(), [&](const ColumnSpec& one) {
      return one.name == meaning.column;
    });
    if (column == columns.end()) return bad("has a meaning, but does not exist");
    if (column->type != ColumnType::kUnsigned) return bad("has a role, but is not uint64");
    LinkedColumn& link = linked[static_cast<std::size_t>(column - columns.begin())];
    link.role = meaning.role;
    link.or_none = meaning.or_none;
    if (meaning.role == ColumnRole::kCount) continue;
    const auto table = std::find_if(specs.begin(), specs.end(), [&](const SourceTableSpec& one) {
      return one.table.name == meaning.table;
    });
    if (table == specs.end()) {
      return bad(fmt::format("refers to a table '{}' that does not exist", meaning.table));
    }
    link.table = static_cast<std::size_t>(table - specs.begin());
    if (meaning.role == ColumnRole::kRun && &*table == &spec)
      return bad("has runs of its own table");
  }
  return linked;
}

}  // namespace

Result<LinkedTables> LinkedTables::Make(const std::vector<SourceTableSpec>& specs) {
  LinkedTables tables;
  for (const SourceTableSpec& spec : specs) {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<LinkedColumn> linked, LinkTable(specs, spec));
    tables.columns.push_back(std::move(linked));
  }
  std::vector<bool> placed(specs.size(), false);
  const auto waits = [&](std::size_t table) {
    return std::any_of(tables.columns[table].begin(), tables.columns[table].end(),
                       [&](const LinkedColumn& column) {
                         return column.role && *column.role != ColumnRole::kCount &&
                                column.table != table && !placed[column.table];
                       });
  };
  while (tables.order.size() < specs.size()) {
    const std::size_t before = tables.order.size();
    for (std::size_t table = 0; table < specs.size(); ++table) {
      if (placed[table] || waits(table)) continue;
      placed[table] = true;
      tables.order.push_back(table);
    }
    if (tables.order.size() > before) continue;
    const auto stuck =
        static_cast<std::size_t>(std::find(placed.begin(), placed.end(), false) - placed.begin());
    return Internal(fmt::format("table '{}' waits for a table that refers to it, or for a circle",
                                specs[stuck].table.name));
  }
  return tables;
}

}  // namespace millrace
