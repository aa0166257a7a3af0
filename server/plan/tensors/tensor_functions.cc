#include "server/plan/tensors/tensor_functions.h"

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/hash.h"
#include "common/tensor/tensor_word.h"
#include "server/plan/tensors/function_graph.h"
#include "server/plan/tensors/function_probe.h"

namespace millrace {
namespace {

/// The object of a call, as a plugin has to know it. `inputs` are the types of what it reads.
Result<PluginObject> ObjectOf(const FunctionCall& call, const std::vector<TensorType>& inputs,
                              const FunctionChance& chance) {
  const PythonFunction& function = call.function;
  MILLRACE_ASSIGN_OR_RETURN(PluginObject object, ParsePluginObject(function.object));
  object.kind = PluginObject::Kind::kFunction;
  object.args = function.args;
  object.per_batch = function.per_batch;
  object.random = function.random;
  object.drop = function.drop;
  object.timeout = std::chrono::seconds(function.timeout_seconds);
  std::string identity = fmt::format("python={}\nargs={}\nper_batch={}\n", object.ToString(),
                                     object.args, object.per_batch);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    object.inputs.push_back({function.inputs[i].argument, inputs[i]});
    identity +=
        fmt::format("{}={}\n", function.inputs[i].argument, DottedName(function.inputs[i].tensor));
  }
  for (const PythonFunction::Output& output : function.outputs) {
    // A function that returns one tensor may also return it under the name that it has here.
    const std::string& name = output.name.empty() ? call.tensor : output.name;
    object.outputs.push_back({name, output.type});
    identity += fmt::format("{}: {}\n", output.name, TensorTypeText(output.type));
  }
  object.chance.fingerprint = Xxh3(identity).ToHex();
  object.chance.seed = function.seed ? static_cast<std::uint64_t>(*function.seed) : chance.seed;
  object.chance.tensor = chance.branch.empty() ? call.tensor : chance.branch + '.' + call.tensor;
  return object;
}

std::vector<FunctionCall> CallsOf(const std::vector<OpenedCall>& opened) {
  std::vector<FunctionCall> calls;
  for (const OpenedCall& one : opened) calls.push_back(one.call);
  return calls;
}

}  // namespace

Result<TensorFunctions> TensorFunctions::Open(const TensorsPart& part, const TensorReaders& readers,
                                              const Source& source, const FunctionChance& chance,
                                              std::shared_ptr<PluginRegistry> plugins) {
  TensorFunctions functions;
  MILLRACE_ASSIGN_OR_RETURN(functions.calls_, FunctionCalls::Find(part, readers));
  const std::vector<FunctionCall>& calls = functions.calls_.calls();
  if (calls.empty()) return functions;
  functions.plugins_ = std::move(plugins);
  const auto located = [&](const FunctionCall& call, const Status& status) {
    return AtOrigin(part, status.WithContext("python").WithContext(call.tensor));
  };
  if (source.expand().merged) {
    return located(calls.front(),
                   InvalidArgument("a function of a batch that is one graph is not yet supported; "
                                   "expected `closure: {merge: false}`"));
  }
  MILLRACE_ASSIGN_OR_RETURN(
      const FunctionGraph graph,
      FunctionGraph::Bind(functions.calls_.others(), calls, source.tensors(), source.arrays()));
  std::set<std::string> impure;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Result<PluginObject> object = ObjectOf(calls[i], graph.InputTypes(i), chance);
    if (!object.ok()) return located(calls[i], object.status());
    if (functions.plugins_ == nullptr) {
      return located(calls[i], FailedPrecondition(fmt::format(
                                   "nothing runs plugins here; name the folder of {0} with "
                                   "--plugin {0}=FOLDER",
                                   object->module)));
    }
    Result<std::shared_ptr<PluginPool>> pool = functions.plugins_->Pool(*object);
    if (!pool.ok()) return located(calls[i], pool.status());
    bool is_pure = !object->per_batch && !(*pool)->facts().uses_chance;
    for (const std::string& need : calls[i].needs) is_pure = is_pure && !impure.contains(need);
    if (!is_pure) impure.insert(calls[i].tensor);
    (is_pure ? functions.pure_ : functions.others_)
        .push_back({calls[i], *std::move(object), *std::move(pool)});
  }
  return functions;
}

std::vector<std::string> TensorFunctions::PureOnes() const {
  std::vector<std::string> names;
  for (const OpenedCall& opened : pure_) names.push_back(opened.call.tensor);
  return names;
}

Result<std::shared_ptr<const Source>> TensorFunctions::AddPure(
    std::shared_ptr<const Source> source) const {
  return Add(pure_, std::move(source));
}

Result<std::shared_ptr<const Source>> TensorFunctions::AddOthers(
    std::shared_ptr<const Source> source) const {
  return Add(others_, std::move(source));
}

Result<std::shared_ptr<const Source>> TensorFunctions::Add(
    const std::vector<OpenedCall>& calls, std::shared_ptr<const Source> source) const {
  if (calls.empty()) return source;
  MILLRACE_ASSIGN_OR_RETURN(
      FunctionGraph graph,
      FunctionGraph::Bind(calls_.others(), CallsOf(calls), source->tensors(), source->arrays()));
  const auto make = [&](std::vector<OpenedCall> opened, std::string probe) {
    return MakeFunctionSource(source, std::move(opened), graph, std::move(probe),
                              plugins_->stop_token());
  };
  // The same with processes of their own.
  std::vector<OpenedCall> again = calls;
  for (OpenedCall& call : again) {
    MILLRACE_ASSIGN_OR_RETURN(call.pool, plugins_->AnotherPool(call.object));
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto here, make(calls, ""));
  MILLRACE_ASSIGN_OR_RETURN(const auto there, make(again, ""));
  MILLRACE_ASSIGN_OR_RETURN(std::string probe, ProbeFunctions(*here, *there, *source));
  return make(calls, std::move(probe));
}

}  // namespace millrace
