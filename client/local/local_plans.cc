#include "client/local/local_plans.h"

#include <fmt/ranges.h>

#include "common/base/hash.h"
#include "common/system/stderr_logger.h"
#include "server/kinds/python/python_dataset.h"
#include "server/plan/stage_table.h"
#include "server/plugin/plugin_config.h"

namespace millrace {

Result<LocalPlans> LocalPlans::Open(const PipelineSource& source, LocalDatasets datasets) {
  const auto stages = std::make_shared<const StageTable>(MakeStageTable(datasets.kinds));
  MILLRACE_ASSIGN_OR_RETURN(Pipeline pipeline, Pipeline::Parse(source, *stages));
  const std::vector<std::string> wanted = pipeline.datasets();
  const std::string& own = wanted.front();
  PlanLibraryOptions library;
  library.stages = stages;
  library.skip_bad = datasets.skip_bad;
  library.progress = std::move(datasets.progress);
  library.measuring = std::move(datasets.measuring);
  for (const auto& [id, folder] : datasets.folders) {
    const DatasetPlace place = ParseDatasetPlace(folder.string());
    if (!place.kind.empty()) {
      MILLRACE_RETURN_IF_ERROR(datasets.kinds.Named(place.kind).status());
    }
    const DatasetLocation location{.dir = place.dir, .index_file = {}, .kind = place.kind};
    if (id.empty() && wanted.size() > 1) {
      return InvalidArgument(
          fmt::format("{}: the pipeline draws from datasets {}: expected an id with each folder, "
                      "such as {}={}",
                      place.dir.string(), fmt::join(wanted, ", "), own, place.dir.string()));
    }
    if (!library.datasets.try_emplace(id.empty() ? own : id, location).second) {
      return InvalidArgument(
          fmt::format("dataset '{}' was given before: expected one folder for each dataset", own));
    }
  }
  if (datasets.plugins != nullptr) {
    for (const auto& [name, plugin] : datasets.plugins->Plugins()) {
      library.datasets[std::string(kPluginIdPrefix) + name] = {
          .dir = plugin.path, .index_file = {}, .kind = std::string(kPythonKind)};
    }
  }
  for (const std::string& id : wanted) {
    if (id.starts_with(kPluginIdPrefix) && !library.datasets.contains(id)) {
      return NotFound(fmt::format(
          "the pipeline draws from plugin {0}: expected its folder, such as --plugin {0}=FOLDER",
          id.substr(kPluginIdPrefix.size())));
    }
    if (library.datasets.contains(id)) continue;
    std::string given;
    for (const auto& [name, location] : library.datasets) {
      given += (given.empty() ? "" : ", ") + name;
    }
    return InvalidArgument(
        fmt::format("the pipeline draws from dataset '{}': expected its folder, got {}{}", id,
                    given.empty() ? "none" : "only that of " + given, datasets.advice));
  }
  if (!datasets.index_file.empty() && wanted.size() > 1) {
    return InvalidArgument(
        fmt::format("{}: an index file belongs to one dataset, and the pipeline draws from {}",
                    datasets.index_file.string(), fmt::join(wanted, ", ")));
  }
  library.datasets.at(own).index_file = datasets.index_file;
  library.kinds = std::move(datasets.kinds);
  library.plugins = datasets.plugins;
  auto opened = std::make_unique<PlanLibrary>(
      std::move(library), MakeStderrLogger("millrace", LogLevel::kWarning, false));
  return LocalPlans(stages, std::move(pipeline), std::move(datasets.plugins), std::move(opened));
}

Result<std::shared_ptr<const Dataset>> LocalPlans::OpenDataset() {
  return library_->Open(pipeline_.datasets().front());
}

Result<std::shared_ptr<const Plan>> LocalPlans::Compile(const PlanParts& parts) {
  // Parts that differ from the pipeline must not be taken for it, so they get digests of their own.
  const Digest128 own = Xxh3(fmt::format("{} changed, source {}", pipeline_.digest().ToHex(),
                                         parts.Get<SourcePart>().name));
  return library_->Compile(parts, pipeline_.dataset(), own, own);
}

}  // namespace millrace
