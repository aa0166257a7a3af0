// balance: deals the examples of neighbouring batches anew, so that the batches cost about the
// same.

#include "common/parameters/make_parameter.h"
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
      Required(NonEmptyTextParameter(
          "by", "what is summed: a column of the source, or an expression over columns")),
      IntParameter("group", 64,
                   "batches that share their examples; a multiple of the world size is best", 1,
                   1 << 16),
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
