// filter: leaves examples out before they are built. Two of its keys also change the numbering.

#include "common/parameters/make_parameter.h"
#include "server/kinds/coq/coq_columns.h"
#include "server/kinds/coq/coq_parts.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {

StageType CoqFilterStage() {
  StageType stage;
  stage.name = "filter";
  stage.place = StagePlace::kPlan;
  stage.help = "leaves examples out before they are built";
  stage.parameters = {
      OnlySelects(BoolParameter(
          "exclude_none_arguments", false,
          "leaves out proof states with a tactic argument that is neither local nor global")),
      OnlySelects(BoolParameter(
          "exclude_not_faithful", false,
          "leaves out proof states whose tactic text is not what Coq would read back")),
      IntParameter("required_tactic_occurrence", 1,
                   "drops tactics met fewer times, with their examples, and renumbers the rest", 1,
                   0xFFFFFFFF),
      BoolParameter("restrict_to_spine", false,
                    "only definitions on the spine of their file get labels and give proof states"),
  };
  stage.unused = [](std::string_view source, const Params&) -> std::vector<std::string> {
    if (source == "proof_states") return {};
    std::vector<std::string> unused = {"exclude_none_arguments", "exclude_not_faithful",
                                       "required_tactic_occurrence"};
    if (source != "definitions") unused.push_back("restrict_to_spine");
    return unused;
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    FilterPart& filter = parts.Edit<FilterPart>();
    if (params.GetBool("exclude_not_faithful")) {
      filter.conditions.push_back({.column = kFaithfulColumn, .zero = false});
    }
    if (params.GetBool("exclude_none_arguments")) {
      filter.conditions.push_back({.column = kNoneArgumentColumn, .zero = true});
    }
    CoqNumberingPart& numbering = parts.Edit<CoqNumberingPart>();
    numbering.required_tactic_occurrence =
        static_cast<std::uint32_t>(params.GetInt("required_tactic_occurrence"));
    numbering.restrict_to_spine = params.GetBool("restrict_to_spine");
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
