#include "server/kinds/graph/graph_generate.h"

#include <span>

#include <fmt/format.h>

#include "server/kinds/graph/generator/graph_generator.h"
#include "server/kinds/graph/generator/rmat_generator.h"

namespace millrace {
namespace {

constexpr std::uint64_t kMostNodes = 0x7FFFFFFF;
constexpr std::uint64_t kMostEdges = 0xFFFFFFFF;

// The numbers of the models, which are their places among the words of --model.
constexpr std::uint64_t kPowerLaw = 0;
constexpr std::uint64_t kRmat = 1;
const std::vector<std::string>& Models() {
  static const std::vector<std::string> models = {"power-law", "rmat"};
  return models;
}

/// InvalidArgument if an option is given that only the other model has.
Status CheckModel(const GenerateRequest& request, std::uint64_t model) {
  static constexpr const char* kOfPowerLaw[] = {"edge-features", "node-labels", "edge-labels",
                                                "graphs"};
  static constexpr const char* kOfRmat[] = {"edges", "rows", "rmat-a", "rmat-b", "rmat-c"};
  const auto others =
      model == kRmat ? std::span<const char* const>(kOfPowerLaw) : std::span(kOfRmat);
  for (const char* const name : others) {
    if (!request.Has(name)) continue;
    return InvalidArgument(fmt::format("--{}: model {} has no such option", name, Models()[model]));
  }
  if (model != kRmat || !request.Has("edges") || !request.Has("degree")) return OkStatus();
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

std::uint32_t Small(const GenerateRequest& request, const char* name, std::uint32_t usual) {
  return static_cast<std::uint32_t>(request.Get(name, usual));
}

Status GeneratePowerLaw(const std::filesystem::path& dir, const GenerateRequest& request,
                        GraphGeneratorReport* report) {
  GraphGeneratorOptions options;
  options.seed = request.Get("seed", options.seed);
  options.nodes = request.Get("nodes", options.nodes);
  options.degree = Small(request, "degree", options.degree);
  options.features = Small(request, "features", options.features);
  options.edge_features = Small(request, "edge-features", options.edge_features);
  options.node_labels = Small(request, "node-labels", options.node_labels);
  options.edge_labels = Small(request, "edge-labels", options.edge_labels);
  options.classes = Small(request, "classes", options.classes);
  options.roots = request.Get("roots", options.roots);
  options.graphs = request.Get("graphs", options.graphs);
  options.progress = request.progress;
  return GenerateGraph(dir, options, report);
}

Status GenerateRmatModel(const std::filesystem::path& dir, const GenerateRequest& request,
                         GraphGeneratorReport* report) {
  RmatOptions options;
  options.seed = request.Get("seed", options.seed);
  options.nodes = request.Get("nodes", options.nodes);
  options.edges =
      request.Get("edges", options.nodes * request.Get("degree", GraphGeneratorOptions{}.degree));
  options.rows = request.Get("rows", 0) == 0 ? GraphRows::kSource : GraphRows::kTarget;
  options.a = Small(request, "rmat-a", options.a);
  options.b = Small(request, "rmat-b", options.b);
  options.c = Small(request, "rmat-c", options.c);
  options.features = Small(request, "features", options.features);
  options.classes = Small(request, "classes", options.classes);
  options.roots = request.Get("roots", options.roots);
  options.progress = request.progress;
  return GenerateRmat(dir, options, report);
}

}  // namespace

std::vector<GenerateOption> GraphGenerateOptions() {
  const GraphGeneratorOptions usual;
  const RmatOptions rmat;
  return {
      {.name = "model",
       .help = "how degrees and edges are drawn",
       .usual = kPowerLaw,
       .max = Models().size() - 1,
       .words = Models()},
      {.name = "nodes", .help = "nodes", .usual = usual.nodes, .min = 1, .max = kMostNodes},
      {.name = "degree",
       .help = "edges of a node, about, on average",
       .usual = usual.degree,
       .min = 4,
       .max = 1000},
      {.name = "edges",
       .help = "rmat: edges, in place of --degree",
       .usual = {},
       .min = 1,
       .max = kMostEdges},
      {.name = "rows",
       .help = "rmat: whether rows go by the sources or the targets of edges",
       .usual = 0,
       .max = 1,
       .words = {std::string(GraphRowsName(GraphRows::kSource)),
                 std::string(GraphRowsName(GraphRows::kTarget))}},
      {.name = "rmat-a",
       .help = "rmat: chance in percent that both ends are in the lower half, at each step",
       .usual = rmat.a,
       .min = 25,
       .max = 100},
      {.name = "rmat-b", .help = "rmat: that only the source is", .usual = rmat.b, .max = 75},
      {.name = "rmat-c", .help = "rmat: that only the target is", .usual = rmat.c, .max = 75},
      {.name = "features",
       .help = "values of node_feature/x of a node; 0: no such array",
       .usual = usual.features,
       .max = 65536},
      {.name = "edge-features",
       .help = "values of edge_feature/w of an edge; 0: no such array",
       .usual = usual.edge_features,
       .max = 65536},
      {.name = "node-labels",
       .help = "labels of nodes; 0: none",
       .usual = usual.node_labels,
       .max = 65535},
      {.name = "edge-labels",
       .help = "labels of edges; 0: none",
       .usual = usual.edge_labels,
       .max = 65535},
      {.name = "classes",
       .help = "classes of nodes: 16, in targets/train/y; with rmat none, in node_feature/y",
       .usual = {},
       .min = 1,
       .max = 65536},
      {.name = "roots",
       .help = "length of the list roots/train (default: a tenth of the nodes)",
       .usual = {},
       .min = 1,
       .max = kMostNodes},
      {.name = "graphs",
       .help = "small graphs of the list graphs/small; 0: one large graph",
       .usual = usual.graphs,
       .max = kMostNodes},
      {.name = "seed", .help = "equal seed and options, equal bytes", .usual = usual.seed},
  };
}

Result<std::string> GenerateGraphDataset(const std::filesystem::path& dir,
                                         const GenerateRequest& request) {
  const std::uint64_t model = request.Get("model", kPowerLaw);
  MILLRACE_RETURN_IF_ERROR(CheckModel(request, model));
  GraphGeneratorReport report;
  MILLRACE_RETURN_IF_ERROR(model == kRmat ? GenerateRmatModel(dir, request, &report)
                                          : GeneratePowerLaw(dir, request, &report));
  return ReportText(dir, report);
}

}  // namespace millrace
