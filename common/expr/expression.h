// Expressions such as "mate ? sign(s) : 0.9 * tanh(s / K)", compiled once and run over columns.
//
//   expression = condition ["?" expression ":" expression]
//   condition  = value {operator value}         || before && before == != before < <= > >=
//                                               before + - before * / // %
//   value      = ("-" | "!") value | "(" expression ")" | number | name | function "(" … ")"
//   name       = word {"." word}
//
// Functions are min and max of two values, and abs, sign, floor, ceil, round, exp, log, sqrt, tanh,
// sin, cos, int64, float32 and float64 of one. Types follow these rules:
//
//  - A result is bool, int64, float32 or float64. Integers and bools compute in int64, wrapping;
//    uint64 wraps first. float16 and bfloat16 compute as float32.
//   - Numbers and constants are weak, and so is all that is made of them alone, except by int64(),
//     float32() and float64(): a weak value takes the type of the other operand, but a weak float64
//     beside an integer gives float64. Alone they are int64 or float64.
//  - (u)int8, (u)int16, which a name must be, and bool give float32 with float32; wider integers
//    give float64. float64 wins always.
//  - `/`, exp, log, sqrt, tanh, sin and cos of integers give float64. `//` and `%` are for integers
//    and round down; x // 0 and x % 0 are 0. abs, sign, floor, ceil and round of an integer are
//    integers; round is half to even; sign of any zero is 0.
//  - max(x, y) is x if x > y or x is NaN, otherwise y; min likewise.
//  - Comparisons, !, && and || give bool. A condition is whether a value differs from 0, so NaN is
//    true. Both branches of ?: are computed and have one type, which is never bool.
//  - A float becomes an integer by truncation, and saturates; NaN becomes 0.
//
// Results have the same bits on every machine. A NaN is always the same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/result.h"

namespace millrace {

/// A column that an expression may read.
struct ExpressionInput {
  std::string name;
  DType dtype = DType::kInt64;
  /// Whether a row has one value, which spreads over the row if other inputs have more.
  bool scalar = true;
  /// Whether a row may have no value. REQUIRES: it is an integer or float. If the text names it,
  /// inputs() has another one of this name, with `presence`.
  bool optional = false;
  /// Whether it is an int64 that says whether a row has a value, in place of the value.
  bool presence = false;

  friend bool operator==(const ExpressionInput&, const ExpressionInput&) = default;
};

using ExpressionConstant = std::variant<std::int64_t, double>;
using ExpressionConstants = std::map<std::string, ExpressionConstant, std::less<>>;

/// A name in a text, and the column of its first use, counted from 1.
struct ExpressionName {
  std::string name;
  std::size_t column = 1;

  friend bool operator==(const ExpressionName&, const ExpressionName&) = default;
};

/// How many values the inputs that are not scalar have: `width` in every row or, if there are
/// splits, `width` in every element, and splits[r + 1] - splits[r] elements in row r.
struct ExpressionRows {
  std::size_t rows = 0;
  std::size_t width = 1;
  std::span<const std::int64_t> splits = {};  // rows + 1 numbers from 0, never falling
};

/// The result of a comparison with NaN.
enum class NanComparison : std::uint8_t {
  kIeee,   // false, except true for !=
  kFails,  // always false: NaN stands for no value
};

// A comparison with an optional input is false in rows without a value. The result of an inner
// comparison is a value of its own, so `(x < 1) == 0` is true there.

namespace expr_internal {
class Program;
}  // namespace expr_internal

/// Immutable; several threads may run one expression. Copies are cheap.
class Expression {
 public:
  /// No text may be longer, and parentheses may be nested no deeper.
  static constexpr std::size_t kMaxLength = 8192;
  static constexpr int kMaxDepth = 200;

  /// An error is InvalidArgument and begins with "column N: ", counted from 1.
  static Result<Expression> Compile(std::string_view text, std::span<const ExpressionInput> inputs,
                                    const ExpressionConstants& constants = {},
                                    NanComparison nan = NanComparison::kIeee);

  /// The names that a text reads, in the order of their first use, whatever inputs there are.
  /// Errors as for Compile, except for names and types.
  static Result<std::vector<ExpressionName>> Names(std::string_view text,
                                                   const ExpressionConstants& constants = {});

  /// kBool, kInt64, kFloat32 or kFloat64.
  DType type() const;
  /// The inputs that the text names, in the order of their first use.
  const std::vector<ExpressionInput>& inputs() const;
  /// Whether all of these are scalar. Then there is one value per row.
  bool scalar() const;
  std::size_t Count(const ExpressionRows& rows) const;
  /// Bytes of memory that Run needs for intermediate values.
  std::size_t scratch_bytes() const;

  /// Writes Count(rows) values. REQUIRES: `in` has the values of inputs(), in that order, each
  /// aligned for its dtype; `out` has Count(rows) * DTypeSize(type()) bytes, aligned too, and
  /// overlaps nothing; `scratch` has scratch_bytes(), aligned to 8.
  void Run(std::span<const std::span<const std::byte>> in, const ExpressionRows& rows,
           std::span<std::byte> scratch, std::span<std::byte> out) const;

 private:
  explicit Expression(std::shared_ptr<const expr_internal::Program> program);

  std::shared_ptr<const expr_internal::Program> program_;
};

}  // namespace millrace
