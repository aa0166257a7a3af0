// closure: how the graph of an example is found from its roots. Kinds of datasets add ways of their
// own.

#include "common/parameters/make_parameter.h"
#include "server/sampling/closure_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {

StageType ClosureStage() {
  StageType stage;
  stage.name = "closure";
  stage.of_graphs = true;
  stage.place = StagePlace::kWorker;
  stage.help = "finds the graph of an example: what its roots reach";
  Parameter max_size =
      IntParameter("max_subgraph_size", 1024,
                   "nodes of a graph, at most; edges to nodes beyond are dropped", 1, 1 << 20);
  max_size.default_beside = Parameter::OtherDefault{"kind", "neighbors", {}};
  stage.parameters = {
      std::move(max_size),
      WordParameter("order", "bfs", "bfs: breadth first; dfs: depth first", {"bfs", "dfs"}),
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    ClosureOptions& options = parts.Edit<ClosurePart>().options;
    if (params.is_set("max_subgraph_size")) {
      options.max_subgraph_size = static_cast<std::uint32_t>(params.GetInt("max_subgraph_size"));
    }
    options.order = params.GetText("order") == "bfs" ? ClosureOrder::kBreadthFirst
                                                       : ClosureOrder::kDepthFirst;
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
