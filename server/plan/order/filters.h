// Filters: they decide which numbered examples are left out before anything is built.
//
// Immutable once made; thread-safe. Refers to the source and the part, which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/plan/order/column_expression.h"
#include "server/source/order_parts.h"
#include "server/source/source.h"

namespace millrace {

class Filters {
 public:
  /// InvalidArgument if a condition or expression reads a column that the source does not have.
  static Result<Filters> Make(const Source& source, const FilterPart& part);

  /// Numbers of the columns that Pass and Where read: one for each condition, then the columns of
  /// the expression.
  const std::vector<ColumnRead>& columns() const { return columns_; }
  /// Whether there is nothing to pass.
  bool empty() const {
    return columns_.empty() && part_->predicates.empty() && part_->where.empty();
  }
  /// Sets passes[i] to whether the expression is not 0 for the i-th example from `first` on. An
  /// example passes if a column that the expression reads could not be measured for it; a missing
  /// feature fails comparisons instead. `values[c]` has, for each example, its value in the c-th of
  /// columns().
  void Where(ExampleId first, std::span<const std::vector<std::int64_t>> values,
             ColumnExpression::Scratch& scratch, std::span<std::uint8_t> passes) const;
  /// Whether an example passes every condition and predicate, the expression aside. `values[c][i]`
  /// is its value in the c-th of columns().
  bool Pass(ExampleId example, std::span<const std::vector<std::int64_t>> values,
            std::size_t i) const;

 private:
  Filters(const Source& source, const FilterPart& part) : source_(&source), part_(&part) {}

  const Source* source_;
  const FilterPart* part_;
  std::vector<ColumnRead> columns_;
  std::optional<ColumnExpression> where_;
};

}  // namespace millrace
