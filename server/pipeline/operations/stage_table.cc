// A new stage is a file in this folder that defines a function like those below, and one line here.

#include "server/pipeline/operations/stage_table.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace millrace {

// Listed in the order in which they apply.
#define MILLRACE_STAGES(STAGE) \
  STAGE(SourceStage)           \
  STAGE(ChunkStage)            \
  STAGE(SplitStage)            \
  STAGE(FilterStage)           \
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

/// Makes `source:` accept the sources of a kind.
void AddSources(const SourceTable& sources, StageType& stage) {
  for (const SourceType& source : sources.sources()) {
    Parameter& name = stage.parameters.front();
    name.allowed.push_back(source.name);
    name.help += fmt::format("{}{}: {}", name.help.empty() ? "" : "; ", source.name, source.help);
    if (!source.argument) continue;
    Parameter argument = *source.argument;
    argument.name = source.name;
    stage.parameters.push_back(std::move(argument));
  }
}

}  // namespace

StageTable MakeStageTable(const DatasetKinds& kinds) {
#define MILLRACE_ENTRY(stage) stage(),
  std::vector<StageType> stages = {MILLRACE_STAGES(MILLRACE_ENTRY)};
#undef MILLRACE_ENTRY
  for (const auto& kind : kinds.all()) AddSources(kind->sources(), stages.front());
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
