#include "server/plan/order/filters.h"

#include <algorithm>

#include <fmt/core.h>

namespace millrace {

Result<Filters> Filters::Make(const Source& source, const FilterPart& part) {
  Filters filters(source, part);
  for (const ColumnCondition& condition : part.conditions) {
    Result<std::size_t> column = source.FindColumn(condition.column);
    if (!column.ok()) return column.status().WithContext("filter");
    if (source.columns()[*column].floats) {
      return InvalidArgument(
          fmt::format("filter: the column {} has floats; write a condition with filter.where",
                      condition.column));
    }
    filters.columns_.push_back({*column});
  }
  if (part.where.empty()) return filters;
  Result<ColumnExpression> where = ColumnExpression::Compile(source, part.where);
  if (!where.ok()) return where.status().WithContext("filter.where");
  const std::vector<ColumnRead>& columns = where->columns();
  filters.columns_.insert(filters.columns_.end(), columns.begin(), columns.end());
  filters.where_ = *std::move(where);
  return filters;
}

void Filters::Where(ExampleId first, std::span<const std::vector<std::int64_t>> values,
                    ColumnExpression::Scratch& scratch, std::span<std::uint8_t> passes) const {
  if (!where_) {
    std::fill(passes.begin(), passes.end(), std::uint8_t{1});
    return;
  }
  where_->Pass(values.subspan(part_->conditions.size()), scratch, passes);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (passes[i] != 0) continue;
    const ExampleId id(first.value() + i);
    passes[i] = std::any_of(
        where_->columns().begin(), where_->columns().end(), [&](const ColumnRead& read) {
          return !source_->columns()[read.column].feature && source_->Unmeasured(read.column, id);
        });
  }
}

bool Filters::Pass(ExampleId example, std::span<const std::vector<std::int64_t>> values,
                   std::size_t i) const {
  for (std::size_t c = 0; c < part_->conditions.size(); ++c) {
    if ((values[c][i] == 0) != part_->conditions[c].zero) return false;
  }
  for (const ExamplePredicate& predicate : part_->predicates) {
    if (!predicate(*source_, example)) return false;
  }
  return true;
}

}  // namespace millrace
