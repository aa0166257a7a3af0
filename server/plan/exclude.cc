// exclude: files that are never opened, and single examples. Every example keeps its place, so that
// cursors stay valid. An example that needs an excluded file is dropped in its place.

#include <cstdint>
#include <string>
#include <vector>

#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {

StageType ExcludeStage() {
  StageType stage;
  stage.name = "exclude";
  stage.place = StagePlace::kWorker;
  stage.in_build = false;
  stage.help = "drops examples, or those of damaged files, in their places";
  stage.in_order = false;
  stage.parameters = {
      {
          .name = "files",
          .types = {ParamType::kTexts},
          .default_value = std::vector<std::string>(),
          .help = "names of the files, as in the dataset",
          .may_be_empty = true,
          .unordered = true,
      },
      {
          .name = "examples",
          .types = {ParamType::kInts},
          .default_value = std::vector<std::int64_t>(),
          .help = "ids of single examples",
          .min = 0,
          .may_be_empty = true,
          .unordered = true,
      },
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    ExcludePart& exclude = parts.Edit<ExcludePart>();
    exclude.files = params.GetTexts("files");
    const std::vector<std::int64_t> examples = params.GetInts("examples");
    exclude.examples.assign(examples.begin(), examples.end());
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
