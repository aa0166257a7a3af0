// expr: an expression over tensors, value by value (common/expr). A tensor with one value a row
// spreads over the rows of the others, ragged ones too. An expression of numbers alone is a scalar;
// its input says only how many rows there are.

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "common/expr/expression.h"
#include "common/operations/operation.h"
#include "common/parameters/make_parameter.h"

namespace millrace {
namespace {

bool HasOneValueARow(const TensorType& type) { return !type.ragged && type.inner.empty(); }

class Expr : public Kernel {
 public:
  /// `width`: values of an element, or of a row if no input is ragged.
  Expr(Expression expression, std::size_t width)
      : expression_(std::move(expression)), width_(width) {}

  Status Splits(std::span<const TensorView> inputs,
                std::vector<std::int64_t>& splits) const override {
    const std::size_t first = FirstRagged(inputs);
    const std::span<const std::int64_t> lengths = inputs[first].splits;
    for (std::size_t i = first + 1; i < inputs.size(); ++i) {
      if (!inputs[i].type->ragged) continue;
      const std::span<const std::int64_t> other = inputs[i].splits;
      const auto differs =
          std::mismatch(lengths.begin(), lengths.end(), other.begin(), other.end());
      if (differs.first == lengths.end()) continue;
      return InvalidArgument(fmt::format("expr: {} and {} have different lengths from row {} on",
                                         NameOf(first), NameOf(i),
                                         differs.first - lengths.begin() - 1));
    }
    splits.assign(lengths.begin(), lengths.end());
    return OkStatus();
  }

  std::size_t scratch_bytes() const override { return expression_.scratch_bytes(); }

  Status Run(std::span<const TensorView> inputs, std::span<const std::int64_t> splits,
             std::span<std::byte> scratch, std::span<std::byte> out) const override {
    std::vector<std::span<const std::byte>> values;
    values.reserve(expression_.inputs().size());
    for (std::size_t i = 0; i < expression_.inputs().size(); ++i) {
      values.push_back(inputs[i].values);
    }
    const ExpressionRows rows = {static_cast<std::size_t>(inputs.front().rows), width_, splits};
    expression_.Run(values, rows, scratch, out);
    return OkStatus();
  }

 private:
  static std::size_t FirstRagged(std::span<const TensorView> inputs) {
    std::size_t first = 0;
    while (!inputs[first].type->ragged) ++first;
    return first;
  }
  const std::string& NameOf(std::size_t input) const { return expression_.inputs()[input].name; }

  const Expression expression_;
  const std::size_t width_;
};

Result<ExpressionConstants> ConstantsOf(const Params& params) {
  ExpressionConstants constants;
  for (const auto& [name, number] : params.GetNamedNumbers("with")) {
    const auto names = Expression::Names(name);
    if (!names.ok() || *names != std::vector<ExpressionName>{{name, 1}} ||
        name.find('.') != std::string::npos) {
      return InvalidArgument(
          fmt::format("with: a name is one word of letters, digits and _, got '{}'", name));
    }
    constants.emplace(name, number);
  }
  return constants;
}

Result<std::vector<std::string>> NamesOf(const std::string& text,
                                         const ExpressionConstants& constants) {
  const auto found = Expression::Names(text, constants);
  if (!found.ok()) return found.status().WithContext("expr");
  std::vector<std::string> names;
  for (const ExpressionName& one : *found) names.push_back(one.name);
  return names;
}

/// What the rows of the output are like, as one of the inputs' types.
Result<TensorType> RowsOf(std::span<const TensorType> inputs,
                          const std::vector<std::string>& names) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (HasOneValueARow(inputs[i])) continue;
    if (!first) first = i;
    if (inputs[i].inner == inputs[*first].inner && inputs[i].ragged == inputs[*first].ragged) {
      continue;
    }
    return InvalidArgument(
        fmt::format("expr: {} is {}, and {} is {}; expected rows of the same extents, or of one "
                    "value",
                    names[*first], DescribeTensorType(inputs[*first]), names[i],
                    DescribeTensorType(inputs[i])));
  }
  if (!first) return TensorType();
  return inputs[*first];
}

}  // namespace

OperationType ExprOperation() {
  OperationType operation;
  operation.name = "expr";
  operation.help = "an expression over tensors, value by value";
  operation.min_inputs = 0;
  operation.max_inputs = 1024;
  operation.parameters = {
      Required(NonEmptyTextParameter("expr", "the expression, such as \"a / (b + 1)\"")),
      WithDefault(
          ParameterOf({ParamType::kNamedNumbers}, "with", "numbers that the expression names"),
          std::map<std::string, ParamNumber>()),
  };
  operation.inputs_of = [](const Params& params) -> Result<std::vector<std::string>> {
    MILLRACE_ASSIGN_OR_RETURN(const ExpressionConstants constants, ConstantsOf(params));
    return NamesOf(params.GetText("expr"), constants);
  };
  operation.bind = [](const BindContext& context) -> Result<BoundOperation> {
    const std::string& text = context.params.GetText("expr");
    MILLRACE_ASSIGN_OR_RETURN(const ExpressionConstants constants, ConstantsOf(context.params));
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesOf(text, constants));
    if (std::max<std::size_t>(names.size(), 1) != context.inputs.size()) {
      return InvalidArgument(fmt::format("expr: the expression names {} tensors, got {} inputs",
                                         names.size(), context.inputs.size()));
    }
    MILLRACE_ASSIGN_OR_RETURN(TensorType rows, RowsOf(context.inputs.first(names.size()), names));
    rows.rows = context.inputs.front().rows;
    std::vector<ExpressionInput> inputs;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const TensorType& type = context.inputs[i];
      inputs.push_back({names[i], type.dtype, HasOneValueARow(type)});
    }
    auto expression = Expression::Compile(text, inputs, constants);
    if (!expression.ok()) return expression.status().WithContext("expr");
    BoundOperation bound;
    bound.kernel_output = rows;
    bound.kernel_output.dtype = expression->type();
    bound.kernel = std::make_shared<Expr>(*expression, rows.UnitElements());
    return bound;
  };
  return operation;
}

}  // namespace millrace
