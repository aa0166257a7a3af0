#include "client/cli/offline/describe_operations.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/operations/after_steps.h"
#include "common/operations/graph_pad.h"
#include "common/operations/pad.h"
#include "common/parameters/parameter.h"
#include "server/plan/text/canonical.h"

namespace millrace::cli {
namespace {

std::string DescribeInputs(const OperationType& operation) {
  if (operation.inputs_of) return "reads what its text names";
  if (operation.max_inputs == 1) return "reads one tensor";
  return fmt::format("reads a list of {} to {} tensors", operation.min_inputs,
                     operation.max_inputs);
}

std::string DescribeParameter(const Parameter& parameter, bool required) {
  std::string otherwise = "optional";
  if (required) {
    otherwise = "required";
  } else if (parameter.has_default()) {
    otherwise =
        fmt::format("default {}", FormatParamValue(parameter, parameter.default_value));
  }
  return fmt::format("  {}: {}\n      {}; {}\n", parameter.name, parameter.help,
                     Expected(parameter), otherwise);
}

}  // namespace

std::string DescribeDefinitions(const TensorsPart& part) {
  if (part.empty()) return "";
  std::string text = fmt::format("\n{:<12} {}\n", "tensor", "definition");
  for (const TensorDefinition& definition : part.definitions) {
    text += fmt::format("{:<12} {}\n", definition.name,
                        FormatDefinition(definition, *part.operations->Find(definition.operation)));
  }
  text += fmt::format("output       {}\n", part.outputs
                                               ? fmt::format("{}", fmt::join(*part.outputs, ", "))
                                               : std::string("all that nothing else reads"));
  std::vector<std::string> pads;
  for (const auto& [name, params] : part.all_pads()) {
    pads.push_back(fmt::format("{}: {}", name, FormatPad(name, params)));
  }
  if (!pads.empty()) text += fmt::format("pad          {}\n", fmt::join(pads, ", "));
  return text;
}

std::string DescribeOperations(const OperationTable& table) {
  std::string text;
  for (const OperationType& operation : table.operations()) {
    text += fmt::format("{} ({}, version {}{}): {}\n", operation.name, DescribeInputs(operation),
                        operation.version, operation.worker_only ? ", runs at the worker" : "",
                        operation.help);
    for (const Parameter& parameter : AllParameters(operation)) {
      const bool own = FindParameter(AfterParameters(), parameter.name) == nullptr ||
                       FindParameter(operation.parameters, parameter.name) != nullptr;
      if (own || parameter.required) text += DescribeParameter(parameter, parameter.required);
    }
    text += "\n";
  }
  text += "after any operation, in this order:\n";
  for (const Parameter& parameter : AfterParameters()) {
    text += DescribeParameter(parameter, false);
  }
  text += "\npad:\n";
  for (const Parameter& parameter : Pad::Parameters()) {
    text += DescribeParameter(parameter, false);
  }
  text += "\npad.graph, of whole graphs:\n";
  for (const Parameter& parameter : GraphPad::Parameters()) {
    text += DescribeParameter(parameter, parameter.required);
  }
  return text;
}

}  // namespace millrace::cli
