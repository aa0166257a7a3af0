// python: what a function of a plugin makes of other tensors, at the worker.
//
// A worker calls functions while it reads examples (server/plan/tensors), because they may
// drop examples and are often worth keeping in a cache. So a graph of tensors never has this
// operation: to it, what a function makes is a tensor of the source.

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "common/operations/operation.h"
#include "common/operations/python_function.h"
#include "common/parameters/make_parameter.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxInputs = 64;
constexpr std::size_t kMaxOutputs = 64;

/// The name of the argument that gets a tensor, if the user gives no other: its last word.
std::string ArgumentOf(const std::string& tensor) {
  const std::size_t end = tensor.find_last_of("./");
  return end == std::string::npos ? tensor : tensor.substr(end + 1);
}

Status ReadInputs(const Params& params, PythonFunction& function) {
  if (params.Is<std::map<std::string, std::string>>("inputs")) {
    for (auto& [argument, tensor] : params.GetNamedTexts("inputs")) {
      function.inputs.push_back({argument, tensor});
    }
  } else {
    for (std::string& tensor : params.GetTexts("inputs")) {
      const std::string argument = ArgumentOf(tensor);
      function.inputs.push_back({argument, std::move(tensor)});
    }
  }
  if (function.inputs.empty() || function.inputs.size() > kMaxInputs) {
    return InvalidArgument(fmt::format("inputs: expected 1 to {} names of tensors, got {}",
                                       kMaxInputs, function.inputs.size()));
  }
  std::set<std::string_view> arguments = {"rng", "rngs"};
  for (const PythonFunction::Input& input : function.inputs) {
    if (arguments.insert(input.argument).second) continue;
    return InvalidArgument(fmt::format(
        "inputs: the argument '{0}' is taken already; expected another name, such as inputs: "
        "{{x: {1}}}",
        input.argument, input.tensor));
  }
  return OkStatus();
}

Status ReadOutputs(const Params& params, PythonFunction& function) {
  if (params.is_set("type") == params.is_set("types")) {
    return InvalidArgument(
        "python: expected either `type`, such as \"float32[*, 80]\", or `types`, a map of the "
        "names "
        "that the function returns to their types");
  }
  std::map<std::string, std::string> texts = params.GetNamedTexts("types");
  if (params.is_set("type")) texts.emplace("", params.GetText("type"));
  if (texts.size() > kMaxOutputs) {
    return InvalidArgument(
        fmt::format("types: expected at most {}, got {}", kMaxOutputs, texts.size()));
  }
  for (const auto& [name, text] : texts) {
    Result<TensorType> type = ParseTensorType(text);
    if (!type.ok()) {
      return type.status().WithContext(name.empty() ? "type" : "types: " + name);
    }
    function.outputs.push_back({name, *std::move(type)});
  }
  return OkStatus();
}

}  // namespace

const TensorDefinition* DefinitionOf(
    std::string_view name, const std::function<const TensorDefinition*(std::string_view)>& find) {
  if (const TensorDefinition* const definition = find(name)) return definition;
  const std::size_t end = name.find_last_of("./");
  if (end == std::string_view::npos) return nullptr;
  const std::string_view whole = name.substr(0, end);
  const std::string_view last = name.substr(end + 1);
  if (last == "length") return DefinitionOf(whole, find);
  const TensorDefinition* const definition = find(whole);
  if (definition == nullptr || definition->operation != kPythonOperation) return nullptr;
  return definition->params.GetNamedTexts("types").contains(std::string(last)) ? definition
                                                                               : nullptr;
}

Result<PythonFunction> ReadPythonFunction(const Params& params) {
  PythonFunction function;
  function.object = params.GetText("python");
  MILLRACE_RETURN_IF_ERROR(ReadInputs(params, function));
  MILLRACE_RETURN_IF_ERROR(ReadOutputs(params, function));
  function.args = params.is_set("args") ? params.GetTree("args") : "{}";
  function.per_batch = params.is_set("per") && params.GetText("per") == "batch";
  function.drop = params.GetTexts("drop");
  if (function.per_batch && !function.drop.empty()) {
    return InvalidArgument(
        "drop: an exception of a call for a whole batch says nothing about one example; leave it "
        "out, or leave `per` out");
  }
  if (params.is_set("timeout")) function.timeout_seconds = params.GetInt("timeout");
  function.random = params.is_set("random") && params.GetBool("random");
  if (params.is_set("seed")) function.seed = params.GetInt("seed");
  return function;
}

OperationType PythonOperation() {
  OperationType operation;
  operation.name = kPythonOperation;
  operation.help = "what a function of a plugin makes of tensors";
  operation.min_inputs = 1;
  operation.max_inputs = kMaxInputs;
  operation.worker_only = true;
  operation.parameters = {
      Required(NonEmptyTextParameter("python", "the function, as \"module:name\"")),
      Required(ParameterOf(
          {ParamType::kTexts, ParamType::kNamedTexts}, "inputs",
          "the tensors that it gets, as arguments of their names; or arguments: tensors")),
      NonEmptyTextParameter("type", "the type of what it returns, such as \"float32[*, 80]\""),
      ParameterOf({ParamType::kNamedTexts}, "types",
                  "the types of what it returns, if that is a dict"),
      WithDefault(ParameterOf({ParamType::kTree}, "args", "further arguments, by their names"),
                  ParamTree{"{}"}),
      WordParameter("per", "example", "what it is called for", {"example", "batch"}),
      TextsParameter("drop", "names of exceptions that drop the example"),
      IntParameter("timeout", 60, "seconds that an example may take", 1, 86400),
      BoolParameter("random", false, "seed random, numpy.random and torch before each example"),
      IntParameter("seed", "of chance; usually that of shuffle", std::nullopt),
  };
  operation.one_of = {"type", "types"};
  operation.inputs_of = [](const Params& params) -> Result<std::vector<std::string>> {
    std::vector<std::string> names;
    // A later layer of the pipeline's text may bring what is missing.
    const bool typed = params.is_set("type") || params.is_set("types");
    if (!params.is_set("inputs") || !typed) return names;
    MILLRACE_ASSIGN_OR_RETURN(const PythonFunction function, ReadPythonFunction(params));
    for (const PythonFunction::Input& input : function.inputs) names.push_back(input.tensor);
    return names;
  };
  operation.bind = [](const BindContext&) -> Result<BoundOperation> {
    return InvalidArgument("python: nothing calls functions of plugins here");
  };
  return operation;
}

}  // namespace millrace
