// shuffle: a new order of all examples in every epoch.

#include "server/pipeline/graph/plan_parts.h"
#include "server/pipeline/graph/stage.h"
#include "server/pipeline/order/order_parts.h"

namespace millrace {

StageType ShuffleStage() {
  StageType stage;
  stage.name = "shuffle";
  stage.place = StagePlace::kPlan;
  stage.help = "a new order of all examples in every epoch; without it they come in index order";
  stage.optional = true;
  stage.parameters = {{
      .name = "seed",
      .types = {ParamType::kInt},
      .default_value = std::int64_t{0},
      .help = "another seed, another order in every epoch",
      .min = 0,
  }};
  stage.reserved = {"block"};
  stage.compile = [](const Params& params, PlanParts& parts) {
    parts.Edit<ShufflePart>().seed = params.GetInt("seed");
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
