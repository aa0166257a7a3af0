#include "server/plan/order/column_expression.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/suggestion.h"
#include "server/plan/columns/measure.h"

namespace millrace {
namespace {

/// Calls `take` with the results as values of their type.
template <class Take>
void WithValues(DType type, const void* results, std::size_t count, const Take& take) {
  switch (type) {
    case DType::kBool:
      return take(std::span(static_cast<const std::uint8_t*>(results), count));
    case DType::kFloat32:
      return take(std::span(static_cast<const float*>(results), count));
    case DType::kFloat64:
      return take(std::span(static_cast<const double*>(results), count));
    default:
      return take(std::span(static_cast<const std::int64_t*>(results), count));
  }
}

/// The nearest column to the first name of a text that is none, for a message; empty if there is
/// none near.
std::string MeantColumn(const Source& source, std::string_view text) {
  if (source.facts().varies) return {};  // what is meant may be a column that cannot be measured
  std::vector<std::string> known = ColumnNames(source);
  for (const MeasurableColumn& column : MeasurableColumns(source)) known.push_back(column.name);
  const auto names = Expression::Names(text);
  if (!names.ok()) return {};
  for (const ExpressionName& name : *names) {
    if (std::find(known.begin(), known.end(), name.name) == known.end()) {
      return Suggestion(name.name, known);
    }
  }
  return {};
}

/// The columns that could be measured, for a message.
std::string MeasuredToo(const Source& source) {
  std::vector<std::string> names;
  for (const MeasurableColumn& column : MeasurableColumns(source)) names.push_back(column.name);
  if (source.facts().varies) {
    return "; no others can be measured, because examples are made anew in every epoch";
  }
  if (names.empty()) return {};
  return fmt::format(", and {} can be measured", fmt::join(names, ", "));
}

/// float64 in float32, where they came from.
std::span<const float> ToFloat32(std::span<const std::int64_t> bits, std::vector<float>& narrow) {
  narrow.resize(bits.size());
  std::transform(bits.begin(), bits.end(), narrow.begin(), [](std::int64_t value) {
    return static_cast<float>(std::bit_cast<double>(value));
  });
  return narrow;
}

DType ExpressionTypeOf(const Source& source, std::size_t column) {
  if (!source.columns()[column].floats) return DType::kInt64;
  return source.columns()[column].feature ? DType::kFloat32 : DType::kFloat64;
}

/// The bits of floats, with NaN in place of infinity: neither is a value to go by.
std::span<const std::int64_t> FiniteOrNan(std::span<const std::int64_t> bits,
                                          std::vector<std::int64_t>& copy) {
  const auto is_infinite = [](std::int64_t value) {
    return std::isinf(std::bit_cast<double>(value));
  };
  if (std::none_of(bits.begin(), bits.end(), is_infinite)) return bits;
  copy.assign(bits.begin(), bits.end());
  std::replace_if(copy.begin(), copy.end(), is_infinite,
                  std::bit_cast<std::int64_t>(std::numeric_limits<double>::quiet_NaN()));
  return copy;
}

std::int64_t Integer(double value) {
  constexpr double kBeyond = 0x1p63;
  if (std::isnan(value)) return -1;
  if (value >= kBeyond) return std::numeric_limits<std::int64_t>::max();
  if (value < -kBeyond) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

}  // namespace

Result<ColumnExpression> ColumnExpression::Compile(const Source& source, std::string_view text) {
  std::vector<ExpressionInput> inputs;
  for (std::size_t c = 0; c < source.columns().size(); ++c) {
    inputs.push_back({.name = source.columns()[c].name,
                      .dtype = ExpressionTypeOf(source, c),
                      .optional = source.columns()[c].feature});
  }
  Result<Expression> compiled = Expression::Compile(text, inputs, {}, NanComparison::kFails);
  if (!compiled.ok()) {
    return InvalidArgument(fmt::format(
        "{}; the source has the columns {}{}{}", compiled.status().message(),
        fmt::join(ColumnNames(source), ", "), MeasuredToo(source), MeantColumn(source, text)));
  }
  ColumnExpression expression(*std::move(compiled));
  for (const ExpressionInput& input : expression.expression_.inputs()) {
    MILLRACE_ASSIGN_OR_RETURN(const std::size_t column, source.FindColumn(input.name));
    expression.columns_.push_back({column, input.presence});
  }
  return expression;
}

void ColumnExpression::Run(std::span<const std::vector<std::int64_t>> values, std::size_t count,
                           Scratch& scratch) const {
  std::vector<std::span<const std::byte>> in;
  scratch.floats.resize(columns_.size());
  scratch.narrow.resize(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::span<const std::int64_t> column = std::span(values[c]).first(count);
    const DType type = expression_.inputs()[c].dtype;
    if (IsFloat(type)) column = FiniteOrNan(column, scratch.floats[c]);
    in.push_back(type == DType::kFloat32 ? std::as_bytes(ToFloat32(column, scratch.narrow[c]))
                                         : std::as_bytes(column));
  }
  scratch.results.resize(count);
  scratch.words.resize((expression_.scratch_bytes() + 7) / 8);
  const std::size_t bytes = count * DTypeSize(expression_.type());
  expression_.Run(in, {.rows = count}, std::as_writable_bytes(std::span(scratch.words)),
                  std::as_writable_bytes(std::span(scratch.results)).first(bytes));
}

void ColumnExpression::Pass(std::span<const std::vector<std::int64_t>> values, Scratch& scratch,
                            std::span<std::uint8_t> passes) const {
  Run(values, passes.size(), scratch);
  WithValues(expression_.type(), scratch.results.data(), passes.size(), [&](auto results) {
    for (std::size_t i = 0; i < passes.size(); ++i) passes[i] = results[i] != 0;
  });
}

void ColumnExpression::Integers(std::span<const std::vector<std::int64_t>> values, Scratch& scratch,
                                std::span<std::int64_t> results) const {
  Run(values, results.size(), scratch);
  WithValues(expression_.type(), scratch.results.data(), results.size(), [&](auto computed) {
    using Value = typename decltype(computed)::value_type;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if constexpr (std::is_floating_point_v<Value>) {
        results[i] = Integer(computed[i]);
      } else {
        results[i] = computed[i];
      }
    }
  });
}

}  // namespace millrace
