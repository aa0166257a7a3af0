// A compiled expression: instructions over registers of one block of values each.
//
// Immutable after Assemble.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/dtype.h"
#include "common/expr/expression.h"
#include "common/expr/kernels.h"
#include "common/expr/loads.h"
#include "common/expr/parser.h"

namespace millrace::expr_internal {

class Program {
 public:
  static Program Assemble(Parsed parsed);

  DType type() const { return type_; }
  bool scalar() const { return scalar_; }
  std::size_t scratch_bytes() const;
  const std::vector<ExpressionInput>& inputs() const { return inputs_; }

  /// As Expression::Run, for `count` values.
  void Run(std::span<const std::span<const std::byte>> in, const ExpressionRows& rows,
           std::size_t count, std::span<std::byte> scratch, std::span<std::byte> out) const;

 private:
  /// Where the values of a block are: in a register, or in a column.
  struct Place {
    bool in_column = false;
    std::uint32_t number = 0;
  };
  struct Instruction {
    Kernel kernel = nullptr;  // null: a load
    Loads loads;
    bool spread = false;                // a load of one value per row
    Machine machine = Machine::kInt64;  // of a load
    std::uint32_t out = 0;
    std::uint32_t column = 0;
    std::array<Place, 3> in;
  };
  struct Fill {
    Machine machine = Machine::kInt64;
    std::uint64_t bits = 0;
    std::uint32_t out = 0;
  };

  DType type_ = DType::kInt64;
  bool scalar_ = true;
  std::vector<ExpressionInput> inputs_;
  std::vector<Fill> constants_;
  std::vector<Instruction> instructions_;
  Place result_;
  std::size_t registers_ = 0;
};

}  // namespace millrace::expr_internal
