#include "server/kinds/graph/generator/graph_generator.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "server/kinds/graph/generator/generated_arrays.h"
#include "server/kinds/graph/generator/made_up_graph.h"
#include "server/source/generate.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

using generator::CheckRange;

constexpr std::uint64_t kProgressNodes = 1 << 16;

Status CheckOptions(const GraphGeneratorOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckRange("nodes", options.nodes, 1, 0x7FFFFFFF));
  MILLRACE_RETURN_IF_ERROR(CheckRange("degree", options.degree, 4, 1000));
  MILLRACE_RETURN_IF_ERROR(CheckRange("features", options.features, 0, 65536));
  MILLRACE_RETURN_IF_ERROR(CheckRange("edge features", options.edge_features, 0, 65536));
  MILLRACE_RETURN_IF_ERROR(CheckRange("node labels", options.node_labels, 0, 65535));
  MILLRACE_RETURN_IF_ERROR(CheckRange("edge labels", options.edge_labels, 0, 65535));
  MILLRACE_RETURN_IF_ERROR(CheckRange("classes", options.classes, 1, 65536));
  MILLRACE_RETURN_IF_ERROR(CheckRange("roots", options.roots, 0, options.nodes));
  return CheckRange("graphs", options.graphs, 0, options.nodes);
}

std::vector<std::string> NumberedNames(std::string_view prefix, std::uint32_t count) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", prefix, i));
  return names;
}

/// Writes the arrays of one graph.
class GraphGeneration {
 public:
  GraphGeneration(fs::path dir, GraphGeneratorOptions options)
      : dir_(std::move(dir)), options_(std::move(options)), graph_(options_) {}

  Status Write(GraphGeneratorReport* report) {
    CountEdges();
    GraphDescription description;
    description.nodes = options_.nodes;
    description.edges = edges_;
    if (options_.edge_labels > 0)
      description.edge_labels = NumberedNames("edge", options_.edge_labels);
    if (options_.node_labels > 0)
      description.node_labels = NumberedNames("node", options_.node_labels);
    generator::GeneratedArrays arrays(dir_, std::move(description));
    MILLRACE_RETURN_IF_ERROR(WriteRows(arrays));
    MILLRACE_RETURN_IF_ERROR(WriteNodes(arrays));
    MILLRACE_RETURN_IF_ERROR(WriteLists(arrays));
    MILLRACE_RETURN_IF_ERROR(arrays.Seal());
    *report = {options_.nodes, edges_, Roots(), arrays.bytes()};
    return OkStatus();
  }

 private:
  void CountEdges() {
    for (std::uint64_t node = 0; node < options_.nodes; ++node) edges_ += graph_.Degree(node);
  }
  std::uint64_t Roots() const {
    return options_.roots > 0 ? options_.roots : std::max<std::uint64_t>(1, options_.nodes / 10);
  }

  /// Writes an array: `append` is called with the writer and each number below `count`.
  template <class AppendOne>
  Status WriteArray(generator::GeneratedArrays& arrays, const std::string& name, ArrayType type,
                    std::uint64_t count, const AppendOne& append) {
    // The other arrays take little time beside these.
    const bool counts = options_.progress && (name == "indices" || name == "node_feature/x");
    const std::uint64_t total = options_.nodes * (options_.features > 0 ? 2 : 1);
    return arrays.Write(name, std::move(type), count, [&](ArrayWriter& writer, std::uint64_t i) {
      MILLRACE_RETURN_IF_ERROR(append(writer, i));
      if (counts && (i + 1) % kProgressNodes == 0) options_.progress(kProgressNodes, total);
      return OkStatus();
    });
  }

  Status WriteRows(generator::GeneratedArrays& arrays) {
    std::int64_t end = 0;
    MILLRACE_RETURN_IF_ERROR(WriteArray(arrays, "indptr", {DType::kInt64, {options_.nodes + 1}},
                                        options_.nodes + 1,
                                        [&](ArrayWriter& writer, std::uint64_t node) {
                                          const std::int64_t begin = end;
                                          if (node < options_.nodes) end += graph_.Degree(node);
                                          return writer.Append(begin);
                                        }));
    std::vector<std::int32_t> row;
    MILLRACE_RETURN_IF_ERROR(WriteArray(arrays, "indices", {DType::kInt32, {edges_}},
                                        options_.nodes,
                                        [&](ArrayWriter& writer, std::uint64_t node) {
                                          graph_.Row(node, row);
                                          return writer.AppendBytes(std::as_bytes(std::span(row)));
                                        }));
    if (options_.edge_labels > 0) {
      std::vector<std::uint16_t> labels;
      MILLRACE_RETURN_IF_ERROR(
          WriteArray(arrays, "edge_label", {DType::kUint16, {edges_}}, options_.nodes,
                     [&](ArrayWriter& writer, std::uint64_t node) {
                       labels.resize(graph_.Degree(node));
                       for (std::uint32_t e = 0; e < labels.size(); ++e) {
                         labels[e] = static_cast<std::uint16_t>(
                             graph_.EdgeLabel(e, static_cast<std::uint32_t>(labels.size())));
                       }
                       return writer.AppendBytes(std::as_bytes(std::span(labels)));
                     }));
    }
    if (options_.edge_features == 0) return OkStatus();
    std::vector<float> values;
    return WriteArray(arrays, "edge_feature/w", {DType::kFloat32, {edges_, options_.edge_features}},
                      edges_, [&](ArrayWriter& writer, std::uint64_t edge) {
                        graph_.EdgeFeatures(edge, values);
                        return writer.AppendBytes(std::as_bytes(std::span(values)));
                      });
  }

  Status WriteNodes(generator::GeneratedArrays& arrays) {
    if (options_.node_labels > 0) {
      MILLRACE_RETURN_IF_ERROR(
          WriteArray(arrays, "node_label", {DType::kUint16, {options_.nodes}}, options_.nodes,
                     [&](ArrayWriter& writer, std::uint64_t node) {
                       return writer.Append(static_cast<std::uint16_t>(graph_.NodeLabel(node)));
                     }));
    }
    if (options_.features == 0) return OkStatus();
    std::vector<float> values;
    return WriteArray(arrays, "node_feature/x",
                      {DType::kFloat32, {options_.nodes, options_.features}}, options_.nodes,
                      [&](ArrayWriter& writer, std::uint64_t node) {
                        graph_.NodeFeatures(node, values);
                        return writer.AppendBytes(std::as_bytes(std::span(values)));
                      });
  }

  Status WriteLists(generator::GeneratedArrays& arrays) {
    const std::uint64_t roots = Roots();
    MILLRACE_RETURN_IF_ERROR(WriteArray(arrays, "roots/train", {DType::kInt32, {roots}}, roots,
                                        [&](ArrayWriter& writer, std::uint64_t row) {
                                          return writer.Append(
                                              static_cast<std::int32_t>(graph_.Root(row)));
                                        }));
    MILLRACE_RETURN_IF_ERROR(WriteArray(arrays, "targets/train/y", {DType::kInt64, {roots}}, roots,
                                        [&](ArrayWriter& writer, std::uint64_t row) {
                                          return writer.Append(
                                              std::int64_t{graph_.Class(graph_.Root(row))});
                                        }));
    if (options_.graphs == 0) return OkStatus();
    MILLRACE_RETURN_IF_ERROR(
        WriteArray(arrays, "graphs/small", {DType::kInt64, {options_.graphs + 1}},
                   options_.graphs + 1, [&](ArrayWriter& writer, std::uint64_t number) {
                     return writer.Append(static_cast<std::int64_t>(graph_.GraphBegin(number)));
                   }));
    return WriteArray(arrays, "targets/small/y", {DType::kInt64, {options_.graphs}},
                      options_.graphs, [&](ArrayWriter& writer, std::uint64_t number) {
                        return writer.Append(std::int64_t{graph_.Class(graph_.GraphBegin(number))});
                      });
  }

  const fs::path dir_;
  const GraphGeneratorOptions options_;
  const generator::MadeUpGraph graph_;
  std::uint64_t edges_ = 0;
};

}  // namespace

Status GenerateGraph(const fs::path& dir, const GraphGeneratorOptions& options,
                     GraphGeneratorReport* report) {
  MILLRACE_RETURN_IF_ERROR(CheckOptions(options));
  return GenerateInto(dir, [&] { return GraphGeneration(dir, options).Write(report); });
}

}  // namespace millrace
