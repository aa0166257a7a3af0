#include "common/operations/operation.h"

#include <algorithm>

#include <fmt/core.h>

#include "common/operations/after_steps.h"

namespace millrace {
namespace {

Status CheckInputs(const OperationType& operation, std::span<const TensorType> inputs) {
  if (inputs.size() < operation.min_inputs || inputs.size() > operation.max_inputs) {
    return InvalidArgument(operation.min_inputs == operation.max_inputs
                               ? fmt::format("{}: expected {} inputs, got {}", operation.name,
                                             operation.min_inputs, inputs.size())
                               : fmt::format("{}: expected {} to {} inputs, got {}", operation.name,
                                             operation.min_inputs, operation.max_inputs,
                                             inputs.size()));
  }
  for (const TensorType& input : inputs) {
    if (input.rows != inputs.front().rows) {
      return InvalidArgument(fmt::format("{}: the inputs have different rows: {} and {}",
                                         operation.name, DescribeTensorType(inputs.front()),
                                         DescribeTensorType(input)));
    }
  }
  return OkStatus();
}

bool Owns(const OperationType& operation, std::string_view name) {
  return std::any_of(operation.parameters.begin(), operation.parameters.end(),
                     [&](const Parameter& parameter) { return parameter.name == name; });
}

const OperationType* FindIn(std::span<const OperationType> operations, std::string_view name) {
  const auto found =
      std::find_if(operations.begin(), operations.end(),
                   [&](const OperationType& operation) { return operation.name == name; });
  return found == operations.end() ? nullptr : &*found;
}

}  // namespace

Result<std::uint64_t> Kernel::Rows(std::span<const TensorView> inputs) const {
  return inputs.front().rows;
}

Status Kernel::Splits(std::span<const TensorView> inputs, std::vector<std::int64_t>& splits) const {
  splits.assign(inputs.front().splits.begin(), inputs.front().splits.end());
  return OkStatus();
}

const OperationType* OperationTable::Find(std::string_view name) const {
  const OperationType* const written = FindWritten(name);
  return written != nullptr ? written : FindIn(of_rows_, name);
}

const OperationType* OperationTable::FindWritten(std::string_view name) const {
  return FindIn(operations_, name);
}

OperationTable OperationTable::With(OperationType operation) const {
  std::vector<OperationType> operations = operations_;
  operations.push_back(std::move(operation));
  return OperationTable(std::move(operations), of_rows_);
}

std::vector<Parameter> AllParameters(const OperationType& operation) {
  std::vector<Parameter> parameters = operation.parameters;
  for (const Parameter& after : AfterParameters()) {
    if (Owns(operation, after.name)) continue;
    parameters.push_back(after);
    const auto& required = operation.required_after;
    parameters.back().required =
        std::find(required.begin(), required.end(), after.name) != required.end();
  }
  return parameters;
}

Result<BoundOperation> BindOperation(const OperationType& operation,
                                     std::span<const TensorType> inputs, const Params& params,
                                     const LookupTables& tables) {
  MILLRACE_RETURN_IF_ERROR(CheckInputs(operation, inputs));
  MILLRACE_ASSIGN_OR_RETURN(const Params normal, WithDefaults(AllParameters(operation), params));
  MILLRACE_ASSIGN_OR_RETURN(BoundOperation bound, operation.bind({inputs, normal, tables}));
  if (bound.kernel != nullptr) {
    bound.output = bound.kernel_output;
  } else {
    bound.output = bound.steps.empty() ? inputs.front() : bound.steps.back().output;
  }
  if (Status status = CheckTensorType(bound.output); !status.ok()) {
    return status.WithContext(operation.name);
  }
  std::map<std::string, ParamValue> after = normal.values();
  for (const Parameter& parameter : operation.parameters) after.erase(parameter.name);
  MILLRACE_RETURN_IF_ERROR(AppendAfterSteps(Params(std::move(after)), bound));
  return bound;
}

}  // namespace millrace
