// shuffle: a new order of all examples in every epoch.

#include <string>
#include <vector>

#include "common/parameters/make_parameter.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {

StageType ShuffleStage() {
  StageType stage;
  stage.name = "shuffle";
  stage.place = StagePlace::kPlan;
  stage.in_build = false;
  stage.help = "a new order of all examples in every epoch; without it they come in index order";
  stage.optional = true;
  stage.parameters = {
      IntParameter("seed", 0, "another seed, another order in every epoch"),
      IntParameter("block",
                   "examples that are neighbours in the dataset and stay together: blocks are "
                   "shuffled, then the examples of some blocks; null: all examples are shuffled",
                   1, std::int64_t{1} << 40),
      IntParameter("window", 16, "blocks whose examples are shuffled with one another, at most", 1,
                   std::int64_t{1} << 40),
  };
  stage.unused = [](std::string_view, const Params& params) {
    return params.is_set("block") ? std::vector<std::string>() : std::vector<std::string>{"window"};
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    ShufflePart& shuffle = parts.Edit<ShufflePart>();
    shuffle.seed = params.GetInt("seed");
    if (params.is_set("block")) shuffle.block = static_cast<std::uint64_t>(params.GetInt("block"));
    shuffle.window = static_cast<std::uint64_t>(params.GetInt("window"));
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
