// The loops of expressions: one for each operation and type.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::expr_internal {

/// The form of values in a register: int64 (also bools, as 0 and 1), float or double.
enum class Machine : std::uint8_t { kInt64, kFloat32, kFloat64 };

enum class Operation : std::uint8_t {
  // Neither has a kernel.
  kLoad,
  kConstant,
  // They take two values of one type.
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,       // floats
  kFloorDivide,  // integers
  kModulo,       // integers
  kMin,
  kMax,
  // They take two values of one type and give bool.
  kLess,
  kLessOrEqual,
  kEqual,
  kNotEqual,
  // They take two bools.
  kAnd,
  kOr,
  // It takes an int64, which is a condition, and two values of one type.
  kSelect,
  // They take one value.
  kIsZero,   // gives bool
  kNotZero,  // gives bool
  kNegate,
  kAbs,
  kSign,
  kFloor,  // floats, as all of these
  kCeil,
  kRound,
  kSqrt,
  kExp,
  kLog,
  kTanh,
  kSin,
  kCos,
  // They take one value of another type.
  kToInt64,
  kToFloat32,
  kToFloat64
};

/// Computes `count` values. Arrays that a kernel does not use may be null; `out` does not overlap
/// the others.
using Kernel = void (*)(void* out, const void* a, const void* b, const void* c, std::size_t count);

/// `operands` is the type of the operands, except kSelect's first one. Null if there is no such
/// operation.
Kernel FindKernel(Operation operation, Machine operands);

}  // namespace millrace::expr_internal
