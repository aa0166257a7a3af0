#include "server/pipeline/text/canonical.h"

#include <algorithm>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "server/pipeline/text/param_value.h"
#include "server/pipeline/text/pipeline.h"

namespace millrace {

std::string CanonicalKey(const StageType& stage, const Parameter& parameter) {
  return stage.scalar ? stage.name : fmt::format("{}.{}", stage.name, parameter.name);
}

bool IsCanonical(const StageType& stage, const Parameter& parameter, const Params& params) {
  const bool shows_presence = stage.optional && parameter.name == stage.parameters.front().name;
  return shows_presence || params.values().at(parameter.name) != parameter.default_value;
}

std::vector<std::string> CanonicalLines(const StageType& stage, const Params& params) {
  std::vector<std::string> lines;
  if (stage.version != 1) lines.push_back(fmt::format("{}@version={}", stage.name, stage.version));
  if (stage.optional && stage.parameters.empty()) lines.push_back(stage.name + "={}");
  for (const Parameter& parameter : stage.parameters) {
    if (!IsCanonical(stage, parameter, params)) continue;
    lines.push_back(fmt::format("{}={}", CanonicalKey(stage, parameter),
                                FormatParamValue(parameter, params.values().at(parameter.name))));
  }
  return lines;
}

std::string CanonicalText(const std::vector<StageConfig>& stages, CanonicalScope scope) {
  std::vector<std::string> lines = {fmt::format("semantics={}", kSemantics)};
  for (const StageConfig& stage : stages) {
    if (scope == CanonicalScope::kOrder && !stage.type->in_order) continue;
    for (std::string& line : CanonicalLines(*stage.type, stage.params)) {
      lines.push_back(std::move(line));
    }
  }
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
