// source: which kind of example the plan draws.

#include "server/pipeline/graph/plan_draft.h"
#include "server/pipeline/graph/stage.h"

namespace millrace {

StageType SourceStage() {
  StageType stage;
  stage.name = "source";
  stage.place = StagePlace::kPlan;
  stage.help = "what an example is";
  stage.scalar = true;
  stage.parameters = {{
      .name = "source",
      .types = {ParamType::kString},
      .help = "proof_states: one example a proof state; definitions: one a cluster of definitions",
      .allowed = {"proof_states", "definitions"},
      .required = true,
  }};
  stage.compile = [](const Params& params, PlanDraft& draft) {
    draft.source = params.GetString("source");
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
