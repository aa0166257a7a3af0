#include "server/pipeline/order/filters.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace millrace {
namespace {

/// Whether values of an expression's result differ from 0; NaN does.
template <class T>
void DifferFromZero(std::span<const std::byte> results, std::span<std::uint8_t> passes) {
  const T* const values = reinterpret_cast<const T*>(results.data());
  for (std::size_t i = 0; i < passes.size(); ++i) passes[i] = values[i] != T{0};
}

}  // namespace

Result<Filters> Filters::Make(const Source& source, const FilterPart& part) {
  Filters filters(source, part);
  for (const ColumnCondition& condition : part.conditions) {
    Result<std::size_t> column = source.FindColumn(condition.column);
    if (!column.ok()) return column.status().WithContext("filter");
    filters.columns_.push_back(*column);
  }
  if (part.where.empty()) return filters;
  std::vector<ExpressionInput> inputs;
  for (const std::string& column : source.columns()) inputs.push_back({.name = column});
  Result<Expression> where = Expression::Compile(part.where, inputs);
  if (!where.ok()) {
    return InvalidArgument(fmt::format("filter.where: {}; the source has the columns {}",
                                       where.status().message(),
                                       fmt::join(source.columns(), ", ")));
  }
  for (const ExpressionInput& input : where->inputs()) {
    filters.columns_.push_back(*source.FindColumn(input.name));
  }
  filters.where_ = *std::move(where);
  return filters;
}

void Filters::Where(std::span<const std::vector<std::int64_t>> values, Scratch& scratch,
                    std::span<std::uint8_t> passes) const {
  if (!where_) {
    std::fill(passes.begin(), passes.end(), std::uint8_t{1});
    return;
  }
  std::vector<std::span<const std::byte>> in;
  for (std::size_t c = part_->conditions.size(); c < columns_.size(); ++c) {
    in.push_back(std::as_bytes(std::span(values[c]).first(passes.size())));
  }
  scratch.results.resize(passes.size() * DTypeSize(where_->type()));
  scratch.expression.resize((where_->scratch_bytes() + 7) / 8);
  where_->Run(in, {.rows = passes.size()}, std::as_writable_bytes(std::span(scratch.expression)),
              scratch.results);
  switch (where_->type()) {
    case DType::kBool:
      return DifferFromZero<std::uint8_t>(scratch.results, passes);
    case DType::kFloat32:
      return DifferFromZero<float>(scratch.results, passes);
    case DType::kFloat64:
      return DifferFromZero<double>(scratch.results, passes);
    default:
      return DifferFromZero<std::int64_t>(scratch.results, passes);
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
