// exclude: files that are never opened, and single examples. Every example keeps its place, so that
// cursors stay valid. An example that needs an excluded file is dropped in its place.

#include <cstdint>
#include <string>
#include <vector>

#include "common/parameters/make_parameter.h"
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
      WithDefault(
          Unordered(MayBeEmpty(TextsParameter("files", "names of the files, as in the dataset"))),
          std::vector<std::string>()),
      WithDefault(Unordered(MayBeEmpty(IntsParameter("examples", "ids of single examples", 0))),
                  std::vector<std::int64_t>()),
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
