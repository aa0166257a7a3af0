// The last part of parsing: parameters get their defaults, stages are checked, digests are made.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/parameters/parameter.h"
#include "server/plan/text/canonical.h"
#include "server/plan/text/pipeline_parser.h"

namespace millrace {

Status PipelineParser::CheckRequired(const StageType& stage, const StageState& state,
                                     const Origin& origin) {
  for (const Parameter& parameter : stage.parameters) {
    const bool always = std::holds_alternative<std::monostate>(parameter.default_value);
    if (!parameter.required || state.params.contains(parameter.name)) continue;
    if (!always && state.params.empty()) continue;
    const std::string& place = state.origin.empty() ? origin : state.origin;
    return InvalidArgument(fmt::format("{}: the key {} is missing; expected {}", place,
                                       CanonicalKey(stage, parameter),
                                       Expected(parameter)));
  }
  return OkStatus();
}

Status PipelineParser::CheckAcross(const StageType& stage, const StageState& state,
                                   const Params& params, const Origin& origin) {
  if (!stage.check) return OkStatus();
  const Status status = stage.check(params);
  if (status.ok()) return status;
  std::string_view message = status.message();
  std::string key = stage.name;
  Origin place = state.origin.empty() ? origin : state.origin;
  const auto blamed = state.params.find(std::string(message.substr(0, message.find(": "))));
  if (blamed != state.params.end()) {
    place = blamed->second.origin;
    key += '.';
    return InvalidArgument(fmt::format("{}: {}{}", place, key, message));
  }
  return InvalidArgument(fmt::format("{}: {}: {}", place, key, message));
}

Result<StageConfig> PipelineParser::FinishStage(const StageType& stage, const StageState& state,
                                                const Origin& origin, const std::string& source,
                                                std::vector<std::string>& unused) const {
  MILLRACE_RETURN_IF_ERROR(CheckRequired(stage, state, origin));
  std::map<std::string, ParamValue> written;
  for (const Parameter& parameter : stage.parameters) {
    const auto found = state.params.find(parameter.name);
    if (found != state.params.end()) written[parameter.name] = found->second.value;
  }
  const auto with_defaults = [&](std::map<std::string, ParamValue> values) {
    for (const Parameter& parameter : stage.parameters) {
      if (values.contains(parameter.name)) continue;
      values[parameter.name] = parameter.DefaultFor(source, values);
    }
    return values;
  };
  std::map<std::string, ParamValue> values = with_defaults(written);
  StageConfig config;
  if (stage.unused) config.unused = stage.unused(source, Params(values));
  for (const std::string& name : config.unused) {
    const Parameter* parameter = stage.Find(name);
    if (parameter == nullptr || written.erase(name) == 0) continue;
    unused.push_back(CanonicalKey(stage, *parameter));
  }
  // The default of one may go by the value of another, so all are set anew.
  if (!config.unused.empty()) values = with_defaults(std::move(written));
  config.type = &stage;
  config.params = Params(std::move(values), source);
  MILLRACE_RETURN_IF_ERROR(CheckAcross(stage, state, config.params, origin));
  return config;
}

Status PipelineParser::FinishStages(const Chain& chain, const Origin& origin,
                                    const std::function<bool(const StageType&)>& has,
                                    Pipeline& pipeline) const {
  for (const StageType& stage : table_.stages()) {
    if (!has(stage)) continue;
    const auto written = chain.stages.find(stage.name);
    const StageState& state = written == chain.stages.end() ? StageState() : written->second;
    if (stage.optional && !state.present) continue;
    MILLRACE_ASSIGN_OR_RETURN(
        StageConfig config,
        FinishStage(stage, state, origin, pipeline.source_, pipeline.unused_keys_));
    // `name: value` without a value, such as null from an override, is no stage; nor is one that
    // lacks what it requires, because the source does not use it.
    const bool needs_first =
        stage.scalar || (!stage.parameters.empty() && stage.parameters.front().required);
    const bool nothing = needs_first && !config.params.is_set(stage.parameters.front().name);
    if (stage.optional && nothing) continue;
    for (const auto& [name, value] : state.params) {
      const std::string key = CanonicalKey(stage, *stage.Find(name));
      pipeline.origins_[key] = value.origin;
      for (const auto& [path, place] : value.below) {
        pipeline.origins_[fmt::format("{}.{}", key, path)] = place;
      }
    }
    if (stage.name == "source") pipeline.source_ = config.params.GetText("source");
    if (stage.name == "exclude") pipeline.excluded_files_ = config.params.GetTexts("files");
    pipeline.stages_.push_back(std::move(config));
  }
  MILLRACE_ASSIGN_OR_RETURN(pipeline.tensors_, chain.tensors.Finish());
  SetFingerprints(pipeline.stages_);
  return OkStatus();
}

Status PipelineParser::FinishDataset(const Chain& chain, const Origin& origin, std::string_view key,
                                     Pipeline& pipeline) const {
  std::string dataset = chain.dataset;
  const StageType* const source = table_.Find("source");
  const auto written = chain.stages.find("source");
  if (dataset.empty() && source != nullptr && source->own_dataset &&
      written != chain.stages.end()) {
    // Whatever else is wrong with the source is told later.
    std::vector<std::string> unused;
    const auto config = FinishStage(*source, written->second, origin, "", unused);
    if (config.ok()) dataset = source->own_dataset(config->params);
  }
  if (dataset.empty()) {
    return InvalidArgument(
        fmt::format("{}: the key {} is missing; expected a dataset id", origin, key));
  }
  pipeline.datasets_ = {std::move(dataset)};
  return OkStatus();
}

void PipelineParser::SetDigests(Pipeline& pipeline) {
  const auto text = [&](CanonicalScope scope) { return CanonicalTextOf(pipeline, scope); };
  pipeline.canonical_text_ = text(CanonicalScope::kAll);
  pipeline.digest_ = Xxh3(pipeline.canonical_text_);
  pipeline.build_digest_ = Xxh3(text(CanonicalScope::kBuild));
  pipeline.order_digest_ = Xxh3(text(CanonicalScope::kOrder));
}

Result<Pipeline> PipelineParser::Finish() {
  const Origin whole = source_.name + ":1:1";
  Pipeline pipeline;
  pipeline.variants_ = variants_;
  if (state_.branches.empty()) {
    MILLRACE_RETURN_IF_ERROR(FinishDataset(state_, whole, "dataset", pipeline));
    MILLRACE_RETURN_IF_ERROR(state_.mix.CheckAbsent());
    MILLRACE_RETURN_IF_ERROR(FinishStages(
        state_, whole, [](const StageType&) { return true; }, pipeline));
  } else {
    MILLRACE_RETURN_IF_ERROR(CheckOutside());
    MILLRACE_RETURN_IF_ERROR(FinishBranches(pipeline));
    MILLRACE_RETURN_IF_ERROR(FinishStages(
        state_, whole, [](const StageType& stage) { return stage.level == StageLevel::kMix; },
        pipeline));
  }
  SetDigests(pipeline);
  return pipeline;
}

}  // namespace millrace
