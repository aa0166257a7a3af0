// fields: which optional tensors a batch has.

#include "common/parameters/make_parameter.h"
#include "server/kinds/coq/coq_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {

StageType CoqFieldsStage() {
  StageType stage;
  stage.name = "fields";
  stage.level = StageLevel::kEveryBranch;
  stage.place = StagePlace::kWorker;
  stage.help = "which optional tensors a batch has";
  stage.parameters = {
      WordParameter(
          "global_context", "reference",
          "global contexts as numbers of a table (reference), as label lists (full), or not",
          {"reference", "full", "none"}),
      BoolParameter("text", false, "adds state_text and tactic_text"),
  };
  stage.unused = [](std::string_view source, const Params&) -> std::vector<std::string> {
    if (source == "proof_states") return {};
    return {"global_context", "text"};
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    CoqFieldsPart& fields = parts.Edit<CoqFieldsPart>();
    const std::string& context = params.GetText("global_context");
    fields.global_context = context == "full"   ? GlobalContextField::kFull
                            : context == "none" ? GlobalContextField::kOmitted
                                                : GlobalContextField::kReference;
    fields.text = params.GetBool("text");
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
