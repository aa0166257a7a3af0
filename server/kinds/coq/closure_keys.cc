// closure: closures of terms stop at definitions.

#include "common/parameters/make_parameter.h"
#include "server/sampling/closure_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {

StageType CoqClosureKeys() {
  StageType stage;
  stage.name = "closure";
  stage.parameters = {
      BoolParameter("stop_at_definitions", true,
                    "definitions are found but not gone through (roots always are)"),
  };
  stage.unused = [](std::string_view source, const Params&) -> std::vector<std::string> {
    if (source == "roots" || source == "graphs") return {"stop_at_definitions"};
    return {};
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    parts.Edit<ClosurePart>().options.stop_at_boundary = params.GetBool("stop_at_definitions");
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
