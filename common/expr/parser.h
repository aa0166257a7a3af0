// From the text of an expression to its graph.
//
// Pure functions.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/expr/expression.h"
#include "common/expr/graph.h"

namespace millrace::expr_internal {

struct Parsed {
  Graph graph;
  Value result;
  std::vector<ExpressionInput> inputs;  // in the order of their first use in the text
  std::vector<std::size_t> columns;     // of their first use
};

/// Errors as for Expression::Compile.
Result<Parsed> Parse(std::string_view text, std::span<const ExpressionInput> inputs,
                     const ExpressionConstants& constants, NanComparison nan);

/// Every name that is no constant is an integer input, so that no rule about types applies.
Result<Parsed> ParseAnyNames(std::string_view text, const ExpressionConstants& constants);

}  // namespace millrace::expr_internal
