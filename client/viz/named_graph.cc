#include "client/viz/named_graph.h"

#include <fmt/format.h>

namespace millrace {

NamedGraph NameGraph(const LabelledGraph& graph, const LabelNames& names) {
  NamedGraph named;
  named.title = fmt::format("example {}: {} nodes, {} edges", graph.example,
                            graph.node_labels.size(), graph.edges.size());
  for (std::size_t n = 0; n < graph.node_labels.size(); ++n) {
    const std::uint64_t label = graph.node_labels[n];
    named.nodes.push_back({label < names.node_labels ? names.node(label) : std::string(kNoName),
                           graph.roots[n], label >= names.node_classes});
  }
  for (const LabelledEdge& edge : graph.edges) {
    named.edges.push_back(
        {edge.source, edge.target,
         edge.label < names.edge_labels ? names.edge(edge.label) : std::string(kNoName)});
  }
  return named;
}

std::string GraphSvg(const NamedGraph& graph) {
  return GraphSvg(graph.title, graph.nodes, graph.edges);
}

}  // namespace millrace
