// An expression over the columns of a source: `filter.where`, and what buckets and balance go by.
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
#include "server/dataset/source.h"

namespace millrace {

class ColumnExpression {
 public:
  /// Memory that is reused between runs.
  struct Scratch {
    std::vector<std::uint64_t> words;  // so that values are aligned
    std::vector<std::uint64_t> results;
    std::vector<std::vector<std::int64_t>> floats;  // of each column that has infinite ones
  };

  /// InvalidArgument with the column of the text and the source's columns.
  static Result<ColumnExpression> Compile(const Source& source, std::string_view text);

  /// Numbers of the source's columns that it reads.
  const std::vector<std::size_t>& columns() const { return columns_; }

  /// Sets passes[i] to whether the result is not 0 for example i; NaN is not 0. A comparison with
  /// a column that is NaN or infinite is false. `values[c]` has,
  /// for each of them, its value in the c-th of columns(), as Source::ReadColumns gives it.
  void Pass(std::span<const std::vector<std::int64_t>> values, Scratch& scratch,
            std::span<std::uint8_t> passes) const;
  /// Sets results[i] to the result for example i, as int64() makes an integer of it; -1 for NaN.
  void Integers(std::span<const std::vector<std::int64_t>> values, Scratch& scratch,
                std::span<std::int64_t> results) const;

 private:
  explicit ColumnExpression(Expression expression) : expression_(std::move(expression)) {}
  /// Computes the results for `count` examples into the scratch.
  void Run(std::span<const std::vector<std::int64_t>> values, std::size_t count,
           Scratch& scratch) const;

  Expression expression_;
  std::vector<std::size_t> columns_;
};

}  // namespace millrace
