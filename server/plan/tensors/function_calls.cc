#include "server/plan/tensors/function_calls.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/operands/operands.h"
#include "common/operations/after_steps.h"
#include "common/operations/pack_names.h"
#include "common/tensor/tensor_word.h"
#include "server/plan/tensors/needed_definitions.h"

namespace millrace {
namespace {

bool IsCall(const TensorDefinition& definition) { return definition.operation == kPythonOperation; }

/// The parameters of a definition that are steps after the operation.
Params StepsOf(const TensorDefinition& definition) {
  std::map<std::string, ParamValue> steps;
  for (const Parameter& step : AfterParameters()) {
    const auto& values = definition.params.values();
    if (const auto found = values.find(step.name); found != values.end()) steps.insert(*found);
  }
  return Params(std::move(steps));
}

/// Reads a use. Sets `steps` to the definition of what follows it, if something does.
Result<FunctionCall> ReadCall(const TensorDefinition& definition,
                              std::optional<TensorDefinition>& steps) {
  FunctionCall call;
  call.tensor = definition.name;
  auto function = ReadPythonFunction(definition.params);
  if (!function.ok()) return function.status().WithContext(definition.name);
  call.function = *std::move(function);
  std::map<std::string, ParamValue> after = StepsOf(definition).values();
  if (call.function.outputs.front().name.empty()) {
    call.paths = {after.empty() ? call.tensor : call.tensor + "/raw"};
  } else {
    for (const PythonFunction::Output& output : call.function.outputs) {
      call.paths.push_back(fmt::format("{}/{}", call.tensor, output.name));
    }
    if (!after.empty()) {
      return InvalidArgument(
          fmt::format("{}: {}: several tensors come from this function; write the "
                      "step where one of them is read",
                      definition.name, after.begin()->first));
    }
  }
  if (!after.empty()) {
    const DType made = call.function.outputs.front().type.dtype;
    after.emplace("dtype", std::string(DTypeName(made)));
    steps = {call.tensor, "cast", call.paths, Params(std::move(after)), definition.at};
  }
  return call;
}

}  // namespace

std::set<std::string> ModulesCalled(const TensorsPart& part) {
  std::set<std::string> modules;
  for (const TensorDefinition& definition : part.definitions) {
    if (!IsCall(definition)) continue;
    const auto function = ReadPythonFunction(definition.params);
    // A use that cannot be read is refused where it is called.
    if (!function.ok()) continue;
    modules.insert(function->object.substr(0, function->object.find(':')));
  }
  return modules;
}

Result<FunctionCalls> FunctionCalls::Find(const TensorsPart& part, const TensorReaders& readers) {
  FunctionCalls found;
  found.others_ = part;
  if (std::none_of(part.definitions.begin(), part.definitions.end(), IsCall)) return found;
  const NamedDefinitions definitions = DefinitionsOf(part);
  std::set<std::string> needed;
  const auto need = [&](const std::string& name) { AddNeeded(definitions, name, needed); };
  if (readers.mix || part.outputs) {
    for (const std::string& name : readers.mix.value_or(std::set<std::string>())) need(name);
    for (const std::string& name : part.outputs.value_or(std::vector<std::string>())) need(name);
    for (const std::string& name : readers.columns) need(name);
  } else {
    for (const TensorDefinition& definition : part.definitions) need(definition.name);
  }

  bool left_out = false;
  found.others_.definitions.clear();
  std::map<std::string, FunctionCall> calls;
  for (const TensorDefinition& definition : part.definitions) {
    const bool is_needed = needed.contains(definition.name);
    if (!IsCall(definition)) {
      found.others_.definitions.push_back(definition);
      continue;
    }
    std::optional<TensorDefinition> steps;
    Result<FunctionCall> call = ReadCall(definition, steps);
    if (!call.ok()) return AtOrigin(part, call.status());
    left_out = left_out || !is_needed;
    if (!is_needed) continue;
    if (steps) found.others_.definitions.push_back(*std::move(steps));
    std::set<std::string> read;
    for (const std::string& input : definition.inputs) {
      found.read_by_calls_.insert(DottedName(input));
      AddNeeded(definitions, input, read);
    }
    for (const std::string& name : read) {
      if (IsCall(*definitions.at(name))) call->needs.insert(name);
    }
    if (call->needs.contains(call->tensor)) {
      return AtOrigin(part, InvalidArgument(call->tensor + ": is computed from itself"));
    }
    calls.emplace(call->tensor, *std::move(call));
  }
  if (left_out) {
    std::erase_if(found.others_.definitions, [&](const TensorDefinition& definition) {
      return !needed.contains(definition.name);
    });
  }
  // A call has more needs than any call that it needs, because needs are those of needs too.
  for (auto& [name, call] : calls) found.calls_.push_back(std::move(call));
  std::stable_sort(
      found.calls_.begin(), found.calls_.end(),
      [](const FunctionCall& a, const FunctionCall& b) { return a.needs.size() < b.needs.size(); });
  return found;
}

TensorsPart FunctionCalls::Rest(const std::vector<TensorSpec>& source) const {
  TensorsPart rest = others_;
  if (calls_.empty() || rest.outputs) return rest;
  std::set<std::string> read = read_by_calls_;
  for (const TensorDefinition& definition : others_.definitions) {
    for (const std::string& input : definition.inputs) read.insert(DottedName(input));
  }
  std::vector<std::string>& outputs = rest.outputs.emplace();
  const auto deliver = [&](const std::string& name) {
    if (!read.contains(DottedName(name)) && name != kPackNext) outputs.push_back(name);
  };
  for (const Operand& operand : OperandsOf(source)) deliver(operand.source.name);
  for (const FunctionCall& call : calls_) {
    for (const std::string& path : call.paths) deliver(path);
  }
  for (const TensorDefinition& definition : others_.definitions) deliver(definition.name);
  return rest;
}

}  // namespace millrace
