// closure: how the graph of an example is found from its roots. Kinds of datasets add ways of their
// own.

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
  stage.parameters = {
      {
          .name = "max_subgraph_size",
          .types = {ParamType::kInt},
          .default_value = std::int64_t{1024},
          .help = "nodes of a graph, at most; edges to nodes beyond are dropped",
          .min = 1,
          .max = 1 << 20,
          .default_beside = {{"kind", std::string("neighbors"), {}}},
      },
      {
          .name = "order",
          .types = {ParamType::kText},
          .default_value = std::string("bfs"),
          .help = "bfs: breadth first; dfs: depth first",
          .allowed = {"bfs", "dfs"},
      },
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
