#include "server/dataset/graph/kind/graph_generate.h"

#include <fmt/format.h>

#include "server/dataset/graph/generator/graph_generator.h"

namespace millrace {
namespace {

constexpr std::uint64_t kMostNodes = 0x7FFFFFFF;

}  // namespace

std::vector<GenerateOption> GraphGenerateOptions() {
  const GraphGeneratorOptions usual;
  return {
      {.name = "nodes", .help = "nodes", .usual = usual.nodes, .min = 1, .max = kMostNodes},
      {.name = "degree",
       .help = "edges of a node, about, on average",
       .usual = usual.degree,
       .min = 4,
       .max = 1000},
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
       .help = "classes of nodes, which targets/train/y has",
       .usual = usual.classes,
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
  GraphGeneratorOptions options;
  const auto small = [&request](const char* name, std::uint32_t usual) {
    return static_cast<std::uint32_t>(request.Get(name, usual));
  };
  options.seed = request.Get("seed", options.seed);
  options.nodes = request.Get("nodes", options.nodes);
  options.degree = small("degree", options.degree);
  options.features = small("features", options.features);
  options.edge_features = small("edge-features", options.edge_features);
  options.node_labels = small("node-labels", options.node_labels);
  options.edge_labels = small("edge-labels", options.edge_labels);
  options.classes = small("classes", options.classes);
  options.roots = request.Get("roots", options.roots);
  options.graphs = request.Get("graphs", options.graphs);
  if (request.progress) {
    options.progress = [&request](std::uint64_t done, std::uint64_t total) {
      request.progress(done, total);
    };
  }
  GraphGeneratorReport report;
  MILLRACE_RETURN_IF_ERROR(GenerateGraph(dir, options, &report));
  return fmt::format(
      "dataset       {}\n"
      "nodes         {}\n"
      "edges         {}\n"
      "roots         {}\n"
      "bytes         {}\n",
      dir.string(), report.nodes, report.edges, report.roots, report.bytes);
}

}  // namespace millrace
