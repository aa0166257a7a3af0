// filter: leaves examples out before they are built. Kinds of datasets add keys of their own.

#include "common/parameters/make_parameter.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {

StageType FilterStage() {
  StageType stage;
  stage.name = "filter";
  stage.place = StagePlace::kPlan;
  stage.help = "leaves examples out before they are built";
  stage.parameters = {
      OnlySelects(NonEmptyTextParameter(
          "where",
          "an expression over columns of the source; examples for which it is 0 are left out")),
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    if (params.is_set("where")) parts.Edit<FilterPart>().where = params.GetText("where");
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
