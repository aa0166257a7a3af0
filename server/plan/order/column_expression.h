// An expression over the columns of a source: `filter.where`, or the value by which buckets or
// balance sort.
//
// Immutable; thread-safe. A scratch belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/expr/expression.h"
#include "server/source/source.h"

namespace millrace {

/// A read of a column by an expression: of its values, or of their presence
/// (ColumnValues::presence).
struct ColumnRead {
  std::size_t column = 0;  // its number in SourceFacts::columns
  bool presence = false;
};

class ColumnExpression {
 public:
  /// Memory that is reused between runs.
  struct Scratch {
    std::vector<std::uint64_t> words;  // so that values are aligned
    std::vector<std::uint64_t> results;
    std::vector<std::vector<std::int64_t>> floats;  // of each column with infinite values
    std::vector<std::vector<float>> narrow;         // of each column of float32
  };

  /// InvalidArgument with the column of the text, the source's columns and the measurable columns,
  /// and the nearest of them to an unknown name.
  static Result<ColumnExpression> Compile(const Source& source, std::string_view text);

  /// The columns that it reads.
  const std::vector<ColumnRead>& columns() const { return columns_; }

  /// Sets passes[i] to whether the result is not 0 for example i; NaN is not 0. A comparison with
  /// a column that is NaN or infinite, or a feature that the example lacks, is false. `values[c]`
  /// has, for each example, its value in the c-th of columns(), as Source::ReadColumns gives it.
  void Pass(std::span<const std::vector<std::int64_t>> values, Scratch& scratch,
            std::span<std::uint8_t> passes) const;
  /// Sets results[i] to the result for example i, converted as by int64(); -1 for NaN.
  void Integers(std::span<const std::vector<std::int64_t>> values, Scratch& scratch,
                std::span<std::int64_t> results) const;

 private:
  explicit ColumnExpression(Expression expression) : expression_(std::move(expression)) {}
  /// Computes the results for `count` examples into the scratch.
  void Run(std::span<const std::vector<std::int64_t>> values, std::size_t count,
           Scratch& scratch) const;

  Expression expression_;
  std::vector<ColumnRead> columns_;
};

}  // namespace millrace
