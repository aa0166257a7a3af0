// The values by which buckets and balance sort: one per selected example, from an expression over
// the columns of the source.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "server/plan/order/column_expression.h"
#include "server/plan/order/row_values.h"
#include "server/plan/order/selection.h"
#include "server/source/source.h"

namespace millrace {

class SelectedValues final : public RowValues {
 public:
  /// InvalidArgument if the text does not fit the source.
  static Result<std::shared_ptr<const SelectedValues>> Make(
      std::shared_ptr<const Source> source, std::shared_ptr<const Selection> selection,
      std::string_view text);

  /// Calls `take` with the values of all selected examples, in the order of their rows, some at a
  /// time. InvalidArgument that names the first example whose value is not from 0 to
  /// kMaxOrderValue, or that lacks a feature.
  Status ForAll(const std::function<void(std::span<const std::int64_t>)>& take) const;

  void Read(std::span<const std::uint64_t> rows, std::span<std::uint64_t> values) const override;

 private:
  SelectedValues(std::shared_ptr<const Source> source, std::shared_ptr<const Selection> selection,
                 ColumnExpression expression)
      : source_(std::move(source)),
        selection_(std::move(selection)),
        expression_(std::move(expression)) {}
  /// A feature that an example lacks; empty if it has all. `read` has the columns of the
  /// expression.
  std::string LackedFeature(std::span<const std::vector<std::int64_t>> read, std::size_t i) const;
  /// A value, or why it is missing, for an error. `read` has the columns of the expression.
  std::string Got(std::span<const std::vector<std::int64_t>> read, std::size_t i,
                  std::int64_t value) const;

  std::shared_ptr<const Source> source_;
  std::shared_ptr<const Selection> selection_;
  ColumnExpression expression_;
};

}  // namespace millrace
