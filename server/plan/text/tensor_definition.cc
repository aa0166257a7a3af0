#include "server/plan/text/tensor_definition.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/suggestion.h"
#include "common/operations/after_steps.h"
#include "common/tensor/tensor_word.h"
#include "server/plan/text/tensor_keys.h"
#include "server/source/tensors_part.h"
#include "server/yaml/read_parameter.h"

namespace millrace {
namespace {

constexpr std::string_view kAt = "at";

std::vector<std::string> OperationNames(const OperationTable& operations) {
  std::vector<std::string> names;
  for (const OperationType& operation : operations.operations()) names.push_back(operation.name);
  return names;
}

/// The keys that a definition with this operation may have besides the operation itself.
std::vector<std::string> KeysBeside(const OperationType& operation) {
  std::vector<std::string> names;
  for (const Parameter& parameter : AllParameters(operation)) {
    if (parameter.name != operation.name) names.push_back(parameter.name);
  }
  names.emplace_back(kAt);
  return names;
}

/// The key that most likely was meant to be the operation, or nullptr.
const std::pair<const std::string, WrittenValue>* LikelyOperation(
    const WrittenDefinition& written) {
  for (const auto& key : written.keys) {
    if (key.first != kAt && FindParameter(AfterParameters(), key.first) == nullptr) {
      return &key;
    }
  }
  return nullptr;
}

Result<const OperationType*> OperationOf(const std::string& name, const WrittenDefinition& written,
                                         const OperationTable& operations) {
  const OperationType* found = nullptr;
  for (const auto& [key, value] : written.keys) {
    const OperationType* const operation = operations.FindWritten(key);
    if (operation == nullptr) continue;
    if (found != nullptr) {
      return value.layer.Error(value.key,
                               fmt::format("tensors.{}: has two operations, {} and {}; expected "
                                           "one, and another tensor for what the other one gives",
                                           name, found->name, key));
    }
    found = operation;
  }
  if (found != nullptr) return found;
  const std::vector<std::string> known = OperationNames(operations);
  const auto* const likely = LikelyOperation(written);
  if (likely == nullptr) {
    return written.Error(fmt::format("tensors.{}: names no operation; expected one of {}", name,
                                     fmt::join(known, ", ")));
  }
  return likely->second.layer.Error(
      likely->second.key,
      fmt::format("tensors.{}: there is no operation '{}'{}; expected one of {}", name,
                  ShownName(likely->first), Suggestion(likely->first, known),
                  fmt::join(known, ", ")));
}

Status ReadPlace(const std::string& name, const WrittenValue& written, RunPlace& at) {
  const std::string& text = written.value->scalar;
  const bool is_text = written.value->kind == YamlNode::Kind::kScalar;
  if (is_text && text == "worker") {
    at = RunPlace::kWorker;
  } else if (is_text && text == "consumer") {
    at = RunPlace::kConsumer;
  } else {
    return written.Error(fmt::format("tensors.{}.at: expected worker or consumer, got {}{}", name,
                                     written.value->Describe(),
                                     Suggestion(text, {"worker", "consumer"})));
  }
  return OkStatus();
}

/// Reads all keys but the operation's.
Status ReadParameters(const OperationType& operation, const WrittenDefinition& written,
                      TensorDefinition& definition, std::map<std::string, ParamValue>& values) {
  const std::string whole = "tensors." + definition.name;
  const std::vector<Parameter> parameters = AllParameters(operation);
  for (const auto& [key, value] : written.keys) {
    if (key == operation.name) continue;
    if (key == kAt) {
      MILLRACE_RETURN_IF_ERROR(ReadPlace(definition.name, value, definition.at));
      continue;
    }
    const Parameter* const parameter = FindParameter(parameters, key);
    if (parameter == nullptr) {
      return value.layer.Error(value.key, UnknownParameter(whole, key, KeysBeside(operation)));
    }
    ReadValue read = ReadParameter(*parameter, *value.value);
    if (read.error) {
      return value.layer.Error(read.error->mark,
                               fmt::format("{}.{}: {}", whole, key, read.error->message));
    }
    if (parameter->default_value != read.value) values.emplace(key, std::move(read.value));
  }
  return OkStatus();
}

Result<std::vector<std::string>> ReadInputs(const OperationType& operation, const std::string& name,
                                            const WrittenValue& written) {
  const YamlNode& node = *written.value;
  const std::string whole = fmt::format("tensors.{}.{}", name, operation.name);
  if (operation.max_inputs == 1) {
    if (IsTensorName(node)) return std::vector<std::string>{DottedName(node.scalar)};
    return written.Error(
        fmt::format("{}: expected the name of a tensor, got {}", whole, node.Describe()));
  }
  const std::size_t count = node.items.size();
  if (node.kind != YamlNode::Kind::kList || count < operation.min_inputs ||
      count > operation.max_inputs) {
    return written.Error(fmt::format(
        "{}: expected a list of {} to {} names such as [a, b], got {}", whole, operation.min_inputs,
        operation.max_inputs,
        node.kind == YamlNode::Kind::kList ? fmt::format("{}", count) : node.Describe()));
  }
  std::vector<std::string> inputs;
  for (const YamlPtr& item : node.items) {
    if (!IsTensorName(*item)) {
      return written.layer.Error(
          item->mark,
          fmt::format("{}: expected the name of a tensor, got {}", whole, item->Describe()));
    }
    inputs.push_back(DottedName(item->scalar));
  }
  return inputs;
}

/// Where the characters of a text stand, if they stand in the file as they are.
std::optional<std::string> PlaceOfText(const WrittenValue& written,
                                       std::span<const std::string_view> lines) {
  const YamlNode& node = *written.value;
  YamlMark mark = node.mark;
  if (!written.layer.has_lines || node.kind != YamlNode::Kind::kScalar || mark.line < 1 ||
      static_cast<std::size_t>(mark.line) > lines.size()) {
    return std::nullopt;
  }
  std::string_view line = lines[static_cast<std::size_t>(mark.line - 1)];
  line.remove_prefix(std::min(static_cast<std::size_t>(mark.column - 1), line.size()));
  if (node.quoted && !line.empty()) {
    line.remove_prefix(1);
    ++mark.column;
  }
  if (!line.starts_with(node.scalar)) return std::nullopt;
  return written.layer.At(mark);
}

}  // namespace

Result<TensorDefinition> ReadDefinition(const std::string& name, const WrittenDefinition& written,
                                        const OperationTable& operations, std::string_view yaml) {
  MILLRACE_ASSIGN_OR_RETURN(const OperationType* const operation,
                            OperationOf(name, written, operations));
  TensorDefinition definition;
  definition.name = name;
  definition.operation = operation->name;
  std::map<std::string, ParamValue> values;
  MILLRACE_RETURN_IF_ERROR(ReadParameters(*operation, written, definition, values));
  const WrittenValue& main = written.keys.at(operation->name);
  if (!operation->inputs_of) {
    MILLRACE_ASSIGN_OR_RETURN(definition.inputs, ReadInputs(*operation, name, main));
    definition.params = Params(std::move(values));
  } else {
    if (main.value->kind != YamlNode::Kind::kScalar) {
      return main.Error(fmt::format("tensors.{}.{}: expected a text, got {}", name, operation->name,
                                    main.value->Describe()));
    }
    values.emplace(operation->name, main.value->scalar);
    definition.params = Params(std::move(values));
    Result<std::vector<std::string>> inputs = operation->inputs_of(definition.params);
    if (!inputs.ok()) {
      TensorsPart part;
      AddOrigins(definition, written, LinesOf(yaml), part.origins);
      return AtOrigin(part, inputs.status().WithContext(name));
    }
    definition.inputs = *std::move(inputs);
  }
  if (operation->worker_only && definition.at == RunPlace::kConsumer) {
    return written.keys.at(std::string(kAt))
        .Error(fmt::format("tensors.{}.at: {} runs at the worker only, got 'consumer'", name,
                           operation->name));
  }
  return definition;
}

Status CheckRequired(const TensorDefinition& definition, const WrittenDefinition& written,
                     const OperationTable& operations) {
  const OperationType& operation = *operations.Find(definition.operation);
  const std::vector<Parameter> parameters = AllParameters(operation);
  const auto missing = [&](std::string_view name) {
    return written.Error(fmt::format("the key tensors.{}.{} is missing; expected {}",
                                     definition.name, name,
                                     Expected(*FindParameter(parameters, name))));
  };
  for (const Parameter& parameter : parameters) {
    if (parameter.required && !written.keys.contains(parameter.name))
      return missing(parameter.name);
  }
  const std::vector<std::string>& one_of = operation.one_of;
  const bool has_one =
      one_of.empty() || std::any_of(one_of.begin(), one_of.end(), [&](const std::string& name) {
        return written.keys.contains(name);
      });
  return has_one ? OkStatus() : missing(one_of.front());
}

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (true) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

void AddOrigins(const TensorDefinition& definition, const WrittenDefinition& written,
                std::span<const std::string_view> lines, TensorOrigins& origins) {
  const std::string whole = "tensors." + definition.name;
  origins[whole] = written.place();
  for (const auto& [key, value] : written.keys) {
    const std::string below = fmt::format("{}.{}", whole, key);
    origins[below] = value.place();
    if (key != definition.operation) continue;
    if (const auto place = PlaceOfText(value, lines)) origins[below + "@text"] = *place;
  }
}

}  // namespace millrace
