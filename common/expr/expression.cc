#include "common/expr/expression.h"

#include <utility>

#include "common/expr/parser.h"
#include "common/expr/program.h"

namespace millrace {

Expression::Expression(std::shared_ptr<const expr_internal::Program> program)
    : program_(std::move(program)) {}

Result<Expression> Expression::Compile(std::string_view text,
                                       std::span<const ExpressionInput> inputs,
                                       const ExpressionConstants& constants, NanComparison nan) {
  MILLRACE_ASSIGN_OR_RETURN(expr_internal::Parsed parsed,
                            expr_internal::Parse(text, inputs, constants, nan));
  return Expression(std::make_shared<const expr_internal::Program>(
      expr_internal::Program::Assemble(std::move(parsed))));
}

Result<std::vector<ExpressionName>> Expression::Names(std::string_view text,
                                                      const ExpressionConstants& constants) {
  MILLRACE_ASSIGN_OR_RETURN(const expr_internal::Parsed parsed,
                            expr_internal::ParseAnyNames(text, constants));
  std::vector<ExpressionName> names;
  for (std::size_t i = 0; i < parsed.inputs.size(); ++i) {
    names.push_back({parsed.inputs[i].name, parsed.columns[i]});
  }
  return names;
}

DType Expression::type() const { return program_->type(); }

const std::vector<ExpressionInput>& Expression::inputs() const { return program_->inputs(); }

bool Expression::scalar() const { return program_->scalar(); }

std::size_t Expression::Count(const ExpressionRows& rows) const {
  if (scalar()) return rows.rows;
  const std::size_t elements =
      rows.splits.empty() ? rows.rows : static_cast<std::size_t>(rows.splits.back());
  return elements * rows.width;
}

std::size_t Expression::scratch_bytes() const { return program_->scratch_bytes(); }

void Expression::Run(std::span<const std::span<const std::byte>> in, const ExpressionRows& rows,
                     std::span<std::byte> scratch, std::span<std::byte> out) const {
  program_->Run(in, rows, Count(rows), scratch, out);
}

}  // namespace millrace
