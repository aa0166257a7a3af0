// From the memory of columns into registers, and back.
//
// Pure functions.
#pragma once

#include <cstddef>

#include "common/base/dtype.h"
#include "common/expr/kernels.h"

namespace millrace::expr_internal {

/// Reads values [first, first + count) of a column. Integers pass through int64.
using Load = void (*)(void* out, const std::byte* column, std::size_t first, std::size_t count);

struct Loads {
  Load each = nullptr;
  Load same = nullptr;  // reads value `first` alone, and writes it `count` times
};

Loads FindLoads(DType dtype, Machine to);

/// Whether a column's memory can be used in place of a register.
bool LiesAsRegister(DType dtype, Machine machine);

/// Writes `count` values of a register as the type of a result. A NaN becomes the quiet NaN without
/// sign and payload, because processors differ in which one an operation gives.
void Store(DType type, const void* from, std::byte* out, std::size_t count);

}  // namespace millrace::expr_internal
