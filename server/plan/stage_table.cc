// A new stage is a file in this folder that defines a function like those below, and one line here.

#include "server/plan/stage_table.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "server/source/plan_parts.h"

namespace millrace {

// Listed in the order in which they apply.
#define MILLRACE_STAGES(STAGE) \
  STAGE(SourceStage)           \
  STAGE(ChunkStage)            \
  STAGE(SplitStage)            \
  STAGE(FilterStage)           \
  STAGE(PackStage)             \
  STAGE(ShuffleStage)          \
  STAGE(ClosureStage)          \
  STAGE(EdgesStage)            \
  STAGE(BatchStage)            \
  STAGE(BalanceStage)          \
  STAGE(CacheStage)            \
  STAGE(ExcludeStage)

#define MILLRACE_DECLARE(stage) StageType stage();
MILLRACE_STAGES(MILLRACE_DECLARE)
#undef MILLRACE_DECLARE

namespace {

/// The names of the parameters that each source has.
using ParametersOfSources = std::map<std::string, std::set<std::string>>;

/// Makes `source:` accept the sources of a kind.
void AddSources(const SourceTable& sources, StageType& stage, ParametersOfSources& of_sources) {
  for (const SourceType& source : sources.sources()) {
    Parameter& name = stage.parameters.front();
    name.allowed.push_back(source.name);
    name.help += fmt::format("{}{}: {}", name.help.empty() ? "" : "; ", source.name, source.help);
    std::set<std::string>& own = of_sources[source.name];
    if (source.argument) {
      Parameter argument = *source.argument;
      argument.name = source.name;
      own.insert(source.name);
      stage.parameters.push_back(std::move(argument));
    }
    for (const Parameter& option : source.options) {
      own.insert(option.name);
      if (stage.Find(option.name) == nullptr) stage.parameters.push_back(option);
    }
  }
}

std::vector<std::string> SourcesWithoutGraphs(const DatasetKinds& kinds) {
  std::vector<std::string> names;
  for (const auto& kind : kinds.all()) {
    for (const SourceType& source : kind->sources().sources()) {
      if (!source.has_graphs) names.push_back(source.name);
    }
  }
  return names;
}

/// StageType::own_dataset of all sources.
std::function<std::string(const Params&)> OwnDatasets(const DatasetKinds& kinds) {
  std::map<std::string, std::function<std::string(const ParamValue&)>> all;
  for (const auto& kind : kinds.all()) {
    for (const SourceType& source : kind->sources().sources()) {
      if (source.own_dataset) all[source.name] = source.own_dataset;
    }
  }
  return [all](const Params& params) -> std::string {
    const std::string& source = params.GetText("source");
    const auto found = all.find(source);
    return found == all.end() ? std::string() : found->second(params.values().at(source));
  };
}

}  // namespace

StageTable MakeStageTable(const DatasetKinds& kinds) {
#define MILLRACE_ENTRY(stage) stage(),
  std::vector<StageType> stages = {MILLRACE_STAGES(MILLRACE_ENTRY)};
#undef MILLRACE_ENTRY
  for (StageType& stage : stages) {
    if (stage.of_graphs) stage.sources_without_graphs = SourcesWithoutGraphs(kinds);
  }
  ParametersOfSources of_sources;
  for (const auto& kind : kinds.all()) AddSources(kind->sources(), stages.front(), of_sources);
  // Parameters after the first belong to sources.
  stages.front().unused = [of_sources](std::string_view, const Params& params) {
    std::vector<std::string> unused;
    const auto own = of_sources.find(params.GetText("source"));
    for (const auto& [name, value] : params.values()) {
      if (name == "source") continue;
      if (own == of_sources.end() || !own->second.contains(name)) unused.push_back(name);
    }
    return unused;
  };
  // So plans do not get the defaults of parameters that other sources have.
  stages.front().compile = [of_sources, compile = stages.front().compile](const Params& params,
                                                                          PlanParts& parts) {
    MILLRACE_RETURN_IF_ERROR(compile(params, parts));
    SourcePart& source = parts.Edit<SourcePart>();
    const auto own = of_sources.find(source.name);
    std::erase_if(source.options, [&](const auto& option) {
      return own == of_sources.end() || !own->second.contains(option.first);
    });
    return OkStatus();
  };
  stages.front().own_dataset = OwnDatasets(kinds);
  StageTable table(std::move(stages));
  for (const auto& kind : kinds.all()) {
    for (AddedStage& stage : kind->stages()) table = table.With(std::move(stage));
  }
  for (const auto& kind : kinds.all()) {
    for (const SourceType& source : kind->sources().sources()) {
      for (const auto& [key, value] : source.defaults) {
        table = table.WithDefault(key, source.name, value);
      }
    }
  }
  return table;
}

}  // namespace millrace
