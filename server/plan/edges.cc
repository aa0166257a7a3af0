// edges: how the edges of delivered batches are completed. Packed batches hold only the base edges;
// the code that completes them lies in common/batch.

#include "common/parameters/make_parameter.h"
#include "server/sampling/closure_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {

StageType EdgesStage() {
  StageType stage;
  stage.name = "edges";
  stage.of_graphs = true;
  stage.place = StagePlace::kConsumer;
  stage.in_build = false;
  stage.help = "completes the edges of a batch";
  stage.parameters = {
      WordParameter("symmetrization", "bidirectional",
                    "reversed edges: none, with the same labels (undirected), or with labels of "
                    "their own (bidirectional)",
                    {"none", "undirected", "bidirectional"}),
      BoolParameter("add_self_edges", true,
                    "one more edge from every node to itself, with a label of its own"),
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    EdgesPart& edges = parts.Edit<EdgesPart>();
    edges.symmetrization = SymmetrizationFromName(params.GetText("symmetrization"))
                               .value_or(Symmetrization::kBidirectional);
    edges.add_self_edges = params.GetBool("add_self_edges");
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
