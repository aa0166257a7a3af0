// exclude: files that are never opened. Every example keeps its place, so that cursors stay valid.
// An example that needs an excluded file is dropped in its place.

#include "server/pipeline/graph/plan_parts.h"
#include "server/pipeline/graph/stage.h"
#include "server/pipeline/order/order_parts.h"

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
  stage.compile = [](const Params& params, PlanParts& parts) {
    parts.Edit<ExcludePart>().files = params.GetStrings("files");
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
