// Columns for tests of expressions: values as they lie in memory, and how an expression runs over
// them.
#pragma once

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expr/expression.h"

namespace millrace::test {

/// A column in memory.
struct Column {
  ExpressionInput input;
  std::vector<std::byte> bytes;
};

template <class T>
Column MakeColumn(std::string name, DType dtype, const std::vector<T>& values, bool scalar = true) {
  Column column{{std::move(name), dtype, scalar}, {}};
  column.bytes.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(column.bytes.data(), values.data(), column.bytes.size());
  return column;
}

inline Result<Expression> CompileOver(std::string_view text, const std::vector<Column>& columns,
                                      const ExpressionConstants& constants = {}) {
  std::vector<ExpressionInput> inputs;
  for (const Column& column : columns) {
    if (!column.input.presence) inputs.push_back(column.input);
  }
  return Expression::Compile(text, inputs, constants);
}

/// The bytes that the expression writes.
inline std::vector<std::byte> RunOver(const Expression& expression,
                                      const std::vector<Column>& columns,
                                      const ExpressionRows& rows) {
  std::vector<std::span<const std::byte>> in;
  for (const ExpressionInput& input : expression.inputs()) {
    for (const Column& column : columns) {
      if (column.input.name == input.name && column.input.presence == input.presence) {
        in.emplace_back(column.bytes);
      }
    }
  }
  std::vector<std::byte> out(expression.Count(rows) * DTypeSize(expression.type()));
  std::vector<std::byte> scratch(expression.scratch_bytes());
  expression.Run(in, rows, scratch, out);
  return out;
}

template <class T>
std::vector<T> ValuesOf(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace millrace::test
