#include "server/dataset/graph/generator/graph_generator.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "server/dataset/generate.h"
#include "server/dataset/graph/generator/made_up_graph.h"
#include "server/dataset/graph/writer/array_writer.h"
#include "server/dataset/graph/writer/graph_sealer.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kProgressNodes = 1 << 16;

Status CheckRange(std::string_view name, std::uint64_t value, std::uint64_t min,
                  std::uint64_t max) {
  if (value >= min && value <= max) return OkStatus();
  return InvalidArgument(fmt::format("{}: expected {} to {}, got {}", name, min, max, value));
}

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

std::vector<std::string> Names(std::string_view prefix, std::uint32_t count) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", prefix, i));
  return names;
}

/// Writes the arrays of one graph.
class Run {
 public:
  Run(fs::path dir, GraphGeneratorOptions options)
      : dir_(std::move(dir)), options_(std::move(options)), graph_(options_) {}

  Status Write(GraphGeneratorReport* report) {
    CountEdges();
    GraphDescription description;
    description.nodes = options_.nodes;
    description.edges = edges_;
    if (options_.edge_labels > 0) description.edge_labels = Names("edge", options_.edge_labels);
    if (options_.node_labels > 0) description.node_labels = Names("node", options_.node_labels);
    GraphSealer sealer(dir_, std::move(description));
    MILLRACE_RETURN_IF_ERROR(WriteRows(sealer));
    MILLRACE_RETURN_IF_ERROR(WriteNodes(sealer));
    MILLRACE_RETURN_IF_ERROR(WriteLists(sealer));
    MILLRACE_RETURN_IF_ERROR(sealer.Seal().status());
    *report = {options_.nodes, edges_, Roots(), bytes_};
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
  Status WriteArray(GraphSealer& sealer, const std::string& name, ArrayType type,
                    std::uint64_t count, const AppendOne& append) {
    MILLRACE_ASSIGN_OR_RETURN(ArrayWriter writer,
                              ArrayWriter::Create(dir_, name + ".npy", std::move(type)));
    // The other arrays take little time beside these.
    const bool counts = options_.progress && (name == "indices" || name == "node_feature/x");
    const std::uint64_t total = options_.nodes * (options_.features > 0 ? 2 : 1);
    for (std::uint64_t i = 0; i < count; ++i) {
      MILLRACE_RETURN_IF_ERROR(append(writer, i));
      if (counts && (i + 1) % kProgressNodes == 0) options_.progress(kProgressNodes, total);
    }
    MILLRACE_ASSIGN_OR_RETURN(ArrayRecord record, std::move(writer).Finish());
    bytes_ += record.bytes;
    sealer.AddWritten(name, std::move(record));
    return OkStatus();
  }

  Status WriteRows(GraphSealer& sealer) {
    std::int64_t end = 0;
    MILLRACE_RETURN_IF_ERROR(WriteArray(sealer, "indptr", {DType::kInt64, {options_.nodes + 1}},
                                        options_.nodes + 1,
                                        [&](ArrayWriter& writer, std::uint64_t node) {
                                          const std::int64_t begin = end;
                                          if (node < options_.nodes) end += graph_.Degree(node);
                                          return writer.Append(begin);
                                        }));
    std::vector<std::int32_t> row;
    MILLRACE_RETURN_IF_ERROR(WriteArray(sealer, "indices", {DType::kInt32, {edges_}},
                                        options_.nodes,
                                        [&](ArrayWriter& writer, std::uint64_t node) {
                                          graph_.Row(node, row);
                                          return writer.AppendBytes(std::as_bytes(std::span(row)));
                                        }));
    if (options_.edge_labels > 0) {
      std::vector<std::uint16_t> labels;
      MILLRACE_RETURN_IF_ERROR(
          WriteArray(sealer, "edge_label", {DType::kUint16, {edges_}}, options_.nodes,
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
    return WriteArray(sealer, "edge_feature/w", {DType::kFloat32, {edges_, options_.edge_features}},
                      edges_, [&](ArrayWriter& writer, std::uint64_t edge) {
                        graph_.EdgeFeatures(edge, values);
                        return writer.AppendBytes(std::as_bytes(std::span(values)));
                      });
  }

  Status WriteNodes(GraphSealer& sealer) {
    if (options_.node_labels > 0) {
      MILLRACE_RETURN_IF_ERROR(
          WriteArray(sealer, "node_label", {DType::kUint16, {options_.nodes}}, options_.nodes,
                     [&](ArrayWriter& writer, std::uint64_t node) {
                       return writer.Append(static_cast<std::uint16_t>(graph_.NodeLabel(node)));
                     }));
    }
    if (options_.features == 0) return OkStatus();
    std::vector<float> values;
    return WriteArray(sealer, "node_feature/x",
                      {DType::kFloat32, {options_.nodes, options_.features}}, options_.nodes,
                      [&](ArrayWriter& writer, std::uint64_t node) {
                        graph_.NodeFeatures(node, values);
                        return writer.AppendBytes(std::as_bytes(std::span(values)));
                      });
  }

  Status WriteLists(GraphSealer& sealer) {
    const std::uint64_t roots = Roots();
    MILLRACE_RETURN_IF_ERROR(WriteArray(sealer, "roots/train", {DType::kInt32, {roots}}, roots,
                                        [&](ArrayWriter& writer, std::uint64_t row) {
                                          return writer.Append(
                                              static_cast<std::int32_t>(graph_.Root(row)));
                                        }));
    MILLRACE_RETURN_IF_ERROR(WriteArray(sealer, "targets/train/y", {DType::kInt64, {roots}}, roots,
                                        [&](ArrayWriter& writer, std::uint64_t row) {
                                          return writer.Append(
                                              std::int64_t{graph_.Class(graph_.Root(row))});
                                        }));
    if (options_.graphs == 0) return OkStatus();
    MILLRACE_RETURN_IF_ERROR(
        WriteArray(sealer, "graphs/small", {DType::kInt64, {options_.graphs + 1}},
                   options_.graphs + 1, [&](ArrayWriter& writer, std::uint64_t number) {
                     return writer.Append(static_cast<std::int64_t>(graph_.GraphBegin(number)));
                   }));
    return WriteArray(sealer, "targets/small/y", {DType::kInt64, {options_.graphs}},
                      options_.graphs, [&](ArrayWriter& writer, std::uint64_t number) {
                        return writer.Append(std::int64_t{graph_.Class(graph_.GraphBegin(number))});
                      });
  }

  const fs::path dir_;
  const GraphGeneratorOptions options_;
  const generator::MadeUpGraph graph_;
  std::uint64_t edges_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

Status GenerateGraph(const fs::path& dir, const GraphGeneratorOptions& options,
                     GraphGeneratorReport* report) {
  MILLRACE_RETURN_IF_ERROR(CheckOptions(options));
  return GenerateInto(dir, [&] { return Run(dir, options).Write(report); });
}

}  // namespace millrace
