#include "server/plan/text/canonical.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/hash.h"
#include "common/base/json_text.h"
#include "common/parameters/parameter.h"
#include "server/plan/text/mix_text.h"
#include "server/plan/text/pipeline.h"

namespace millrace {
namespace {

/// Whether the canonical text shows the parameter.
bool IsCanonical(const StageType& stage, const Parameter& parameter, const Params& params) {
  const bool shows_presence = stage.optional && parameter.name == stage.parameters.front().name;
  return shows_presence || !params.IsDefault(parameter);
}

/// How a place to run is written; empty for any.
std::string_view RunPlaceName(RunPlace place) {
  if (place == RunPlace::kWorker) return "worker";
  if (place == RunPlace::kConsumer) return "consumer";
  return "";
}

}  // namespace

std::string CanonicalKey(const StageType& stage, const Parameter& parameter) {
  if (stage.scalar && parameter.name == stage.parameters.front().name) return stage.name;
  return fmt::format("{}.{}", stage.name, parameter.name);
}

std::vector<std::string> CanonicalLines(const StageType& stage, const Params& params,
                                        CanonicalScope scope) {
  std::vector<std::string> lines;
  if (stage.version != 1) lines.push_back(fmt::format("{}@version={}", stage.name, stage.version));
  if (stage.optional && stage.parameters.empty()) lines.push_back(stage.name + "={}");
  for (const Parameter& parameter : stage.parameters) {
    if (!IsCanonical(stage, parameter, params)) continue;
    if (scope == CanonicalScope::kBuild && !parameter.in_build) continue;
    if (scope == CanonicalScope::kOrder && !parameter.in_order) continue;
    lines.push_back(fmt::format("{}={}", CanonicalKey(stage, parameter),
                                FormatParamValue(parameter, params.values().at(parameter.name))));
  }
  return lines;
}

std::string FormatDefinition(const TensorDefinition& definition, const OperationType& operation) {
  const std::vector<Parameter> parameters = AllParameters(operation);
  std::map<std::string, std::string> keys;
  for (const auto& [name, value] : definition.params.values()) {
    keys[name] = FormatParamValue(*FindParameter(parameters, name), value);
  }
  if (definition.at != RunPlace::kAny) keys["at"] = RunPlaceName(definition.at);
  std::string text;
  if (operation.inputs_of) {
    text = keys.extract(operation.name).mapped();
  } else if (operation.max_inputs == 1) {
    text = JsonText(definition.inputs.front());
  } else {
    text = JsonList(definition.inputs);
  }
  text = fmt::format("{{{}: {}", operation.name, text);
  for (const auto& [name, value] : keys) text += fmt::format(", {}: {}", name, value);
  return text + "}";
}

std::string FormatPad(std::string_view name, const Params& params) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : params.values()) {
    const Parameter& parameter = *FindParameter(PadParameters(name), key);
    keys.push_back(fmt::format("{}: {}", key, FormatParamValue(parameter, value)));
  }
  return fmt::format("{{{}}}", fmt::join(keys, ", "));
}

std::vector<std::string> CanonicalLines(const TensorsPart& part) {
  std::vector<std::string> lines;
  for (const TensorDefinition& definition : part.definitions) {
    const OperationType& operation = *part.operations->Find(definition.operation);
    lines.push_back(
        fmt::format("tensors.{}={}", definition.name, FormatDefinition(definition, operation)));
    if (operation.version == 1) continue;
    lines.push_back(fmt::format("tensors.{}@version={}", definition.name, operation.version));
  }
  if (part.outputs) lines.push_back("output=" + JsonList(*part.outputs));
  for (const auto& [name, params] : part.all_pads()) {
    lines.push_back(fmt::format("pad.{}={}", name, FormatPad(name, params)));
  }
  return lines;
}

std::vector<std::string> CanonicalLinesOf(const Pipeline& pipeline, CanonicalScope scope) {
  std::vector<std::string> lines;
  for (const StageConfig& stage : pipeline.stages()) {
    if (!stage.type->in_digest) continue;
    if (scope == CanonicalScope::kOrder && !stage.type->in_order) continue;
    if (scope == CanonicalScope::kBuild && !stage.type->in_build) continue;
    for (std::string& line : CanonicalLines(*stage.type, stage.params, scope)) {
      lines.push_back(std::move(line));
    }
  }
  if (scope == CanonicalScope::kAll) {
    for (std::string& line : CanonicalLines(pipeline.tensors())) lines.push_back(std::move(line));
  }
  std::vector<std::string> names;
  for (const PipelineBranch& branch : pipeline.branches()) {
    names.push_back(branch.name);
    for (const std::string& line : CanonicalLinesOf(*branch.pipeline, scope)) {
      lines.push_back(fmt::format("branches.{}.{}", branch.name, line));
    }
  }
  if (names.empty()) return lines;
  for (std::string& line : CanonicalLines(pipeline.mix(), names)) {
    if (scope != CanonicalScope::kAll && line.starts_with("tables=")) continue;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string CanonicalTextOf(const Pipeline& pipeline, CanonicalScope scope) {
  std::vector<std::string> lines = CanonicalLinesOf(pipeline, scope);
  lines.push_back(fmt::format("semantics={}", kSemantics));
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

void SetFingerprints(std::vector<StageConfig>& stages) {
  std::string input;
  for (StageConfig& stage : stages) {
    std::vector<std::string> lines = CanonicalLines(*stage.type, stage.params);
    std::sort(lines.begin(), lines.end());
    std::string text = fmt::format("type={}\nversion={}\n", stage.type->name, stage.type->version);
    if (stage.type->in_order) {
      for (const std::string& line : lines) text += line + '\n';
    }
    if (!input.empty()) text += fmt::format("input={}\n", input);
    stage.fingerprint = Xxh3(text).ToHex();
    if (stage.type->in_order) input = stage.fingerprint;
  }
}

}  // namespace millrace
