#include "client/local/local_plans.h"

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/system/stderr_logger.h"

namespace millrace {

Result<LocalPlans> LocalPlans::Open(const PipelineSource& source, LocalDatasets datasets) {
  MILLRACE_ASSIGN_OR_RETURN(Pipeline pipeline, Pipeline::Parse(source));
  const std::string& own = pipeline.dataset();
  PlanLibraryOptions library;
  library.skip_bad = datasets.skip_bad;
  library.progress = std::move(datasets.progress);
  for (const auto& [id, folder] : datasets.folders) {
    if (!library.datasets.try_emplace(id.empty() ? own : id, DatasetLocation{folder, {}}).second) {
      return InvalidArgument(
          fmt::format("dataset '{}' was given before: expected one folder for each dataset", own));
    }
  }
  const auto found = library.datasets.find(own);
  if (found == library.datasets.end()) {
    std::string given;
    for (const auto& [id, location] : library.datasets) given += (given.empty() ? "" : ", ") + id;
    return InvalidArgument(
        fmt::format("the pipeline draws from dataset '{}': expected its folder, got {}{}", own,
                    given.empty() ? "none" : "only that of " + given, datasets.advice));
  }
  found->second.index_file = datasets.index_file;
  auto opened = std::make_unique<PlanLibrary>(
      std::move(library), MakeStderrLogger("millrace", LogLevel::kWarning, false));
  return LocalPlans(std::move(pipeline), std::move(opened));
}

Result<std::shared_ptr<const Dataset>> LocalPlans::OpenDataset() {
  return library_->Open(pipeline_.dataset());
}

Result<std::shared_ptr<const Plan>> LocalPlans::Compile(const PlanDraft& draft) {
  // A draft that differs from the pipeline must not be taken for it, so it gets digests of its own.
  const Digest128 own =
      Xxh3(fmt::format("{} changed, source {}", pipeline_.digest().ToHex(), draft.source));
  return library_->Compile(draft, pipeline_.dataset(), own, own);
}

}  // namespace millrace
