// exclude: files that are never opened. Every example keeps its place, so that cursors stay valid.
// An example that needs an excluded file is dropped in its place.

#include "server/pipeline/graph/plan_draft.h"
#include "server/pipeline/graph/stage.h"

namespace millrace {

StageType ExcludeStage() {
  StageType stage;
  stage.name = "exclude";
  stage.place = StagePlace::kWorker;
  stage.help = "drops the examples of damaged files, in their places";
  stage.in_order = false;
  stage.parameters = {{
      .name = "files",
      .types = {ParamType::kStringList},
      .default_value = std::vector<std::string>(),
      .help = "names of the files, as in the dataset",
      .unordered = true,
  }};
  stage.compile = [](const Params& params, PlanDraft& draft) {
    draft.excluded_files = params.GetStrings("files");
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
