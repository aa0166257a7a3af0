// Expressions as trees, and a plain interpreter of the rules in common/expr/expression.h that walks
// them once for each value. It shares no code with common/expr.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/dtype.h"

namespace millrace::test {

/// A value and its type in the language.
struct PlainValue {
  enum class Type : std::uint8_t { kBool, kNarrow, kInt64, kFloat32, kFloat64 };
  Type type = Type::kInt64;
  bool weak = false;
  bool constant = false;
  std::int64_t integer = 0;
  double number = 0;  // of floats

  bool is_float() const { return type >= Type::kFloat32; }
  DType dtype() const;
  /// The bits of the value as a result lies in memory.
  std::uint64_t Bits() const;
};

struct PlainExpr;
using PlainPtr = std::shared_ptr<const PlainExpr>;

struct PlainExpr {
  /// A number, a constant or a column if there are no operands; otherwise an operator ("-" with one
  /// operand, "?" with three) or a function.
  std::string text;
  std::optional<PlainValue> value;  // of a number or a constant
  std::vector<PlainPtr> operands;
};

PlainPtr PlainNumber(std::string text, std::int64_t value);
PlainPtr PlainNumber(std::string text, double value);
PlainPtr PlainColumn(std::string name);
PlainPtr Plain(std::string text, std::vector<PlainPtr> operands);

/// With as few parentheses as possible.
std::string TextOf(const PlainExpr& expr);

/// Empty if the types do not fit.
std::optional<PlainValue> Evaluate(const PlainExpr& expr,
                                   const std::map<std::string, PlainValue>& columns);

}  // namespace millrace::test
