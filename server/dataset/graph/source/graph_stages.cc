// The keys that graph datasets add to pipelines: labels at which closures stop, and the arrays
// whose rows come with the graphs.

#include "server/dataset/graph/source/graph_parts.h"
#include "server/dataset/graph/source/graph_sources.h"
#include "server/pipeline/graph/plan_parts.h"

namespace millrace {
namespace {

StageType ClosureKeys() {
  StageType stage;
  stage.name = "closure";
  stage.parameters = {{
      .name = "stop_at",
      .types = {ParamType::kIntList, ParamType::kStringList},
      .default_value = {},
      .help = "labels of nodes that are found but not gone through (roots always are)",
      .unordered = true,
  }};
  stage.unused = [](std::string_view source, const Params&) {
    if (source == "roots") return std::vector<std::string>();
    if (source != "graphs") return std::vector<std::string>{"stop_at"};
    return std::vector<std::string>{"stop_at", "max_subgraph_size", "order"};
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    parts.Edit<GraphClosurePart>().stop_at = params.values().at("stop_at");
    return OkStatus();
  };
  return stage;
}

/// A key whose value is a list of names of arrays.
StageType ArraysStage(const char* name, const char* help, StageLevel level,
                      std::vector<std::string> GraphArraysPart::*names) {
  StageType stage;
  stage.name = name;
  stage.level = level;
  stage.place = StagePlace::kWorker;
  stage.help = help;
  stage.optional = true;
  stage.scalar = true;
  stage.parameters = {{
      .name = name,
      .types = {ParamType::kStringList},
      .default_value = {},
      .help = help,
      .unordered = true,
  }};
  stage.unused = [key = stage.name](std::string_view source, const Params&) {
    if (source == "roots" || source == "graphs") return std::vector<std::string>();
    return std::vector<std::string>{key};
  };
  stage.compile = [key = stage.name, names](const Params& params, PlanParts& parts) {
    parts.Edit<GraphArraysPart>().*names = params.GetStrings(key);
    return OkStatus();
  };
  return stage;
}

}  // namespace

std::vector<AddedStage> GraphStages() {
  return {
      {ClosureKeys(), "edges"},
      {ArraysStage("features", "arrays node_feature/X whose rows come with the nodes",
                   StageLevel::kBranch, &GraphArraysPart::features),
       "batch"},
      {ArraysStage("edge_features", "arrays edge_feature/X whose rows come with the edges",
                   StageLevel::kEveryBranch, &GraphArraysPart::edge_features),
       "batch"},
      {ArraysStage("targets", "arrays targets/NAME/X whose rows come with the examples",
                   StageLevel::kEveryBranch, &GraphArraysPart::targets),
       "batch"},
  };
}

}  // namespace millrace
