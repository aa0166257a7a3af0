#include "server/kinds/graph/graph_generate.h"

#include <span>

#include <fmt/format.h>

#include "common/parameters/make_parameter.h"
#include "server/kinds/graph/generator/graph_generator.h"
#include "server/kinds/graph/generator/rmat_generator.h"

namespace millrace {
namespace {

constexpr std::uint64_t kMostNodes = 0x7FFFFFFF;
constexpr std::uint64_t kMostEdges = 0xFFFFFFFF;

constexpr const char* kPowerLaw = "power-law";
constexpr const char* kRmat = "rmat";

/// InvalidArgument if an option is given that only the other model has.
Status CheckModel(const Params& given, const std::string& model) {
  static constexpr const char* kOfPowerLaw[] = {"edge-features", "node-labels", "edge-labels",
                                                "graphs"};
  static constexpr const char* kOfRmat[] = {"edges", "rows", "rmat-a", "rmat-b", "rmat-c"};
  const auto others =
      model == kRmat ? std::span<const char* const>(kOfPowerLaw) : std::span(kOfRmat);
  for (const char* const name : others) {
    if (!given.is_set(name)) continue;
    return InvalidArgument(fmt::format("--{}: model {} has no such option", name, model));
  }
  if (model != kRmat || !given.is_set("edges") || !given.is_set("degree")) return OkStatus();
  return InvalidArgument("--degree: give either this or --edges");
}

std::string ReportText(const std::filesystem::path& dir, const GraphGeneratorReport& report) {
  return fmt::format(
      "dataset       {}\n"
      "nodes         {}\n"
      "edges         {}\n"
      "roots         {}\n"
      "bytes         {}\n",
      dir.string(), report.nodes, report.edges, report.roots, report.bytes);
}

std::uint32_t Small(const Params& params, const char* name) {
  return static_cast<std::uint32_t>(params.GetUnsigned(name));
}

template <class Options>
void SetCommon(const Params& params, const GenerateRequest& request, Options& options) {
  options.seed = params.GetUnsigned("seed");
  options.nodes = params.GetUnsigned("nodes");
  options.features = Small(params, "features");
  if (params.is_set("classes")) options.classes = Small(params, "classes");
  options.roots = params.GetUnsignedOr("roots", options.roots);
  options.progress = request.progress;
}

Status GeneratePowerLaw(const std::filesystem::path& dir, const Params& params,
                        const GenerateRequest& request, GraphGeneratorReport* report) {
  GraphGeneratorOptions options;
  SetCommon(params, request, options);
  options.degree = Small(params, "degree");
  options.edge_features = Small(params, "edge-features");
  options.node_labels = Small(params, "node-labels");
  options.edge_labels = Small(params, "edge-labels");
  options.graphs = params.GetUnsigned("graphs");
  return GenerateGraph(dir, options, report);
}

Status GenerateRmatModel(const std::filesystem::path& dir, const Params& params,
                         const GenerateRequest& request, GraphGeneratorReport* report) {
  RmatOptions options;
  SetCommon(params, request, options);
  options.edges = params.GetUnsignedOr("edges", options.nodes * params.GetUnsigned("degree"));
  const bool by_target = params.GetText("rows") == GraphRowsName(GraphRows::kTarget);
  options.rows = by_target ? GraphRows::kTarget : GraphRows::kSource;
  options.a = Small(params, "rmat-a");
  options.b = Small(params, "rmat-b");
  options.c = Small(params, "rmat-c");
  return GenerateRmat(dir, options, report);
}

}  // namespace

std::vector<Parameter> GraphGenerateParameters() {
  const GraphGeneratorOptions usual;
  const RmatOptions rmat;
  return {
      WordParameter("model", kPowerLaw, "how degrees and edges are drawn", {kPowerLaw, kRmat}),
      IntParameter("nodes", usual.nodes, "nodes", 1, kMostNodes),
      IntParameter("degree", usual.degree, "edges of a node, about, on average", 4, 1000),
      IntParameter("edges", "rmat: edges, in place of --degree", 1, kMostEdges),
      WordParameter("rows", std::string(GraphRowsName(GraphRows::kSource)),
                    "rmat: whether rows go by the sources or the targets of edges",
                    {std::string(GraphRowsName(GraphRows::kSource)),
                     std::string(GraphRowsName(GraphRows::kTarget))}),
      IntParameter("rmat-a", rmat.a,
                   "rmat: chance in percent that both ends are in the lower half, at each step", 25,
                   100),
      IntParameter("rmat-b", rmat.b, "rmat: that only the source is", 0, 75),
      IntParameter("rmat-c", rmat.c, "rmat: that only the target is", 0, 75),
      IntParameter("features", usual.features,
                   "values of node_feature/x of a node; 0: no such array", 0, 65536),
      IntParameter("edge-features", usual.edge_features,
                   "values of edge_feature/w of an edge; 0: no such array", 0, 65536),
      IntParameter("node-labels", usual.node_labels, "labels of nodes; 0: none", 0, 65535),
      IntParameter("edge-labels", usual.edge_labels, "labels of edges; 0: none", 0, 65535),
      IntParameter("classes",
                   "classes of nodes: 16, in targets/train/y; with rmat none, in node_feature/y", 1,
                   65536),
      IntParameter("roots", "length of the list roots/train (default: a tenth of the nodes)", 1,
                   kMostNodes),
      IntParameter("graphs", usual.graphs,
                   "small graphs of the list graphs/small; 0: one large graph", 0, kMostNodes),
      SeedParameter("seed", usual.seed, "equal seed and options, equal bytes"),
  };
}

Result<std::string> GenerateGraphDataset(const std::filesystem::path& dir,
                                         const GenerateRequest& request) {
  MILLRACE_ASSIGN_OR_RETURN(const Params params,
                            WithDefaults(GraphGenerateParameters(), request.params));
  const std::string& model = params.GetText("model");
  MILLRACE_RETURN_IF_ERROR(CheckModel(request.params, model));
  GraphGeneratorReport report;
  MILLRACE_RETURN_IF_ERROR(model == kRmat ? GenerateRmatModel(dir, params, request, &report)
                                          : GeneratePowerLaw(dir, params, request, &report));
  return ReportText(dir, report);
}

}  // namespace millrace
