// balance: deals the examples of neighbouring batches anew, so that the batches cost about the
// same.

#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {

StageType BalanceStage() {
  StageType stage;
  stage.name = "balance";
  stage.place = StagePlace::kPlan;
  stage.in_build = false;
  stage.level = StageLevel::kMix;
  stage.not_with_branches = "balance";
  stage.help =
      "deals the examples of some batches to these anew, so that their sums are about equal";
  stage.optional = true;
  stage.parameters = {
      {
          .name = "by",
          .types = {ParamType::kText},
          .help = "what is summed: a column of the source, or an expression over columns",
          .required = true,
      },
      {
          .name = "group",
          .types = {ParamType::kInt},
          .default_value = std::int64_t{64},
          .help = "batches that share their examples; a multiple of the world size is best",
          .min = 1,
          .max = 1 << 16,
      },
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    BalancePart& balance = parts.Edit<BalancePart>();
    balance.by = params.GetText("by");
    balance.group = static_cast<std::uint64_t>(params.GetInt("group"));
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
