#include "server/plan/order/selected_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace millrace {
namespace {

/// Number of examples whose columns are read at once.
constexpr std::uint64_t kReadAtOnce = 4096;

}  // namespace

Result<std::shared_ptr<const SelectedValues>> SelectedValues::Make(
    std::shared_ptr<const Source> source, std::shared_ptr<const Selection> selection,
    std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(ColumnExpression expression, ColumnExpression::Compile(*source, text));
  return std::shared_ptr<const SelectedValues>(
      new SelectedValues(std::move(source), std::move(selection), std::move(expression)));
}

Status SelectedValues::ForAll(
    const std::function<void(std::span<const std::int64_t>)>& take) const {
  const std::uint64_t examples = source_->examples();
  const std::uint64_t most = std::min(examples, kReadAtOnce);
  const std::vector<ColumnRead>& columns = expression_.columns();
  std::vector<std::vector<std::int64_t>> read(columns.size(), std::vector<std::int64_t>(most));
  std::vector<std::int64_t> values(most);
  ColumnExpression::Scratch scratch;
  for (std::uint64_t first = 0; first < examples; first += kReadAtOnce) {
    const std::uint64_t count = std::min(kReadAtOnce, examples - first);
    std::vector<ColumnValues> wanted;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      wanted.push_back({columns[c].column, std::span(read[c]).first(count), columns[c].presence});
    }
    source_->ReadColumns(ExampleId(first), wanted);
    expression_.Integers(read, scratch, std::span(values).first(count));
    std::uint64_t selected = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!selection_->Has(ExampleId(first + i))) continue;
      const std::int64_t value = values[i];
      if (const std::string lacks = LackedFeature(read, i); !lacks.empty()) {
        return InvalidArgument(fmt::format(
            "expected a value of {} for each example, and example {} has none: leave out "
            "those that have none, for example with filter.where: \"{} == {}\"",
            lacks, first + i, lacks, lacks));
      }
      if (static_cast<std::uint64_t>(value) > kMaxOrderValue) {
        return InvalidArgument(fmt::format("expected values from 0 to {}, got {} for example {}",
                                           kMaxOrderValue, Got(read, i, value), first + i));
      }
      values[selected++] = value;
    }
    take(std::span(values).first(selected));
  }
  return OkStatus();
}

std::string SelectedValues::LackedFeature(std::span<const std::vector<std::int64_t>> read,
                                          std::size_t i) const {
  const std::vector<ColumnRead>& columns = expression_.columns();
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].presence && read[c][i] == 0) return source_->columns()[columns[c].column].name;
  }
  return {};
}

std::string SelectedValues::Got(std::span<const std::vector<std::int64_t>> read, std::size_t i,
                                std::int64_t value) const {
  const std::vector<ColumnRead>& columns = expression_.columns();
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].presence || !source_->columns()[columns[c].column].floats) continue;
    const double is = std::bit_cast<double>(read[c][i]);
    if (!std::isfinite(is)) {
      return fmt::format("one of {}, which is {},", source_->columns()[columns[c].column].name, is);
    }
  }
  return std::to_string(value);
}

void SelectedValues::Read(std::span<const std::uint64_t> rows,
                          std::span<std::uint64_t> values) const {
  const std::vector<ColumnRead>& columns = expression_.columns();
  std::vector<std::vector<std::int64_t>> read(columns.size(),
                                              std::vector<std::int64_t>(rows.size()));
  std::vector<ColumnValues> wanted(columns.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      wanted[c] = {columns[c].column, {&read[c][i], 1}, columns[c].presence};
    }
    source_->ReadColumns(selection_->At(rows[i]), wanted);
  }
  std::vector<std::int64_t> results(rows.size());
  ColumnExpression::Scratch scratch;
  expression_.Integers(read, scratch, results);
  std::copy(results.begin(), results.end(), values.begin());
}

}  // namespace millrace
