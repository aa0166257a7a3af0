// The keys that graph datasets add to pipelines: labels at which closures stop, how neighbourhoods
// are drawn, and the arrays whose rows come with the graphs.

#include <cstdint>
#include <string>
#include <vector>

#include "common/parameters/make_parameter.h"
#include "server/kinds/graph/graph_parts.h"
#include "server/kinds/graph/graph_sources.h"
#include "server/sampling/neighbor_options.h"
#include "server/source/plan_parts.h"

namespace millrace {
namespace {

constexpr const char* kNeighbors = "neighbors";

std::vector<Parameter> ClosureParameters() {
  return {
      Unordered(
          ParameterOf({ParamType::kInts, ParamType::kTexts}, "stop_at",
                      "labels of nodes that are found but not gone through (roots always are)")),
      WordParameter("kind", "closure",
                    "closure: all that the root reaches; neighbors: some neighbours of it, drawn "
                    "anew in every epoch, some of theirs, and so on",
                    {"closure", kNeighbors}),
      ParameterOf({ParamType::kInts, ParamType::kTree}, "fanout",
                  "neighbors drawn of each node, hop by hop; -1: all of them. Or such a list for "
                  "each label of edges: {cites: [15, 10], writes: [5, 5]}",
                  -1, kMaxFanout),
      BoolParameter("replace", false, "whether an edge may be drawn several times"),
      BoolParameter("merge", true,
                    "one graph a batch, with every node once; false: a graph for each root"),
      SeedParameter("seed", 0, "another seed, other neighbors"),
  };
}

StageType ClosureKeys() {
  StageType stage;
  stage.name = "closure";
  stage.parameters = ClosureParameters();
  stage.reserved = {"weights", "before", "draw"};
  stage.unused = [](std::string_view source, const Params& params) -> std::vector<std::string> {
    if (source == "graphs") {
      return {"stop_at", "max_subgraph_size", "order", "kind",
              "fanout",  "replace",           "merge", "seed"};
    }
    if (source != "roots") return {"stop_at", "kind", "fanout", "replace", "merge", "seed"};
    if (params.GetText("kind") == kNeighbors) return {"stop_at", "order"};
    return {"fanout", "replace", "merge", "seed"};
  };
  stage.check = [](const Params& params) {
    if (params.GetText("kind") != kNeighbors) return OkStatus();
    if (!params.is_set("fanout")) {
      return InvalidArgument(
          "the key closure.fanout is missing; expected how many neighbors are "
          "drawn of each node, hop by hop, such as [15, 10]");
    }
    if (params.GetBool("merge") && params.is_set("max_subgraph_size")) {
      return InvalidArgument(
          "max_subgraph_size: expected merge: false beside it, because one graph "
          "a batch has no limit for an example");
    }
    return OkStatus();
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    parts.Edit<GraphClosurePart>().stop_at = params.values().at("stop_at");
    if (params.GetText("kind") != kNeighbors) return OkStatus();
    NeighborPart& neighbors = parts.Edit<NeighborPart>();
    neighbors.drawn = true;
    neighbors.fanout = params.values().at("fanout");
    neighbors.replace = params.GetBool("replace");
    neighbors.merge = params.GetBool("merge");
    neighbors.seed = params.GetUnsigned("seed");
    if (params.is_set("max_subgraph_size")) {
      neighbors.max_subgraph_size = static_cast<std::uint32_t>(params.GetInt("max_subgraph_size"));
    }
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
  stage.parameters = {Unordered(TextsParameter(name, help))};
  stage.unused = [key = stage.name](std::string_view source, const Params&) {
    if (source == "roots" || source == "graphs") return std::vector<std::string>();
    return std::vector<std::string>{key};
  };
  stage.compile = [key = stage.name, names](const Params& params, PlanParts& parts) {
    parts.Edit<GraphArraysPart>().*names = params.GetTexts(key);
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
