// Batches of random examples, for programs that measure writing, reading or expanding batches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/batch/batch_writer.h"
#include "common/command_line/command_line.h"

namespace millrace::bench {

struct MadeUp {
  std::uint32_t batches = 64;    // all different
  std::uint32_t examples = 512;  // in each batch
  std::uint32_t nodes = 31;      // in each example, on average
  double edges_per_node = 1.5;
};

/// Adds the options that describe made-up batches to a program.
inline void AddOptions(CommandLine& app, MadeUp& made_up) {
  app.AddOption("--batches", &made_up.batches, "distinct batches").Positive();
  app.AddOption("--examples", &made_up.examples, "examples a batch").Positive();
  app.AddOption("--nodes", &made_up.nodes, "mean nodes an example").Between(1, 1000);
  app.AddOption("--edges-per-node", &made_up.edges_per_node, "base edges for each node");
}

/// The arrays of one example, as a closure builder hands them to a writer.
struct Example {
  std::vector<std::uint32_t> labels, sources, targets, edge_labels, context;
};

enum : std::size_t {
  kLabel,
  kSource,
  kTarget,
  kEdgeLabel,
  kContext,
  kRoot,
  kId,
  kNodeSplits,
  kEdgeSplits,
  kContextSplits
};

/// The tensors of a batch of proof states, without those that have one number for each graph.
inline std::vector<TensorSpec> Tensors() {
  const auto make = [](std::string path, TensorKind kind, std::uint64_t max, std::string splits,
                       Expansion expansion, std::string node_splits) {
    TensorSpec spec;
    spec.path = std::move(path);
    spec.kind = kind;
    spec.max = max;
    spec.dtype = NarrowestDType(0, max);
    spec.dimension = "rows";
    spec.splits = std::move(splits);
    spec.expansion = expansion;
    spec.node_splits = std::move(node_splits);
    return spec;
  };
  using K = TensorKind;
  using E = Expansion;
  return {make("node_label", K::kDense, 40'000, "node_splits", E::kWiden, ""),
          make("edge_source", K::kDense, 1023, "edge_splits", E::kEdgeSource, "node_splits"),
          make("edge_target", K::kDense, 1023, "edge_splits", E::kEdgeTarget, "node_splits"),
          make("edge_label", K::kDense, 29, "edge_splits", E::kEdgeLabel, ""),
          make("local_context", K::kRaggedValues, 1023, "local_context_splits", E::kNodeOffset,
               "node_splits"),
          make("root", K::kDense, 1023, "", E::kNodeOffset, "node_splits"),
          make("example_id", K::kDense, 1u << 30, "", E::kWiden, ""),
          make("node_splits", K::kSplits, 1u << 24, "", E::kWiden, ""),
          make("edge_splits", K::kSplits, 1u << 24, "", E::kEdgeSplits, ""),
          make("local_context_splits", K::kSplits, 1u << 24, "", E::kWiden, "")};
}

/// The examples of all batches.
inline std::vector<Example> MakeExamples(const MadeUp& options) {
  std::mt19937 random(1);
  std::geometric_distribution<std::uint32_t> size(1.0 / options.nodes);
  std::vector<Example> examples(std::size_t{options.batches} * options.examples);
  for (Example& e : examples) {
    const std::uint32_t nodes = std::min(1 + size(random), 1023u);
    const auto node = [&] { return static_cast<std::uint32_t>(random() % nodes); };
    for (std::uint32_t i = 0; i < nodes; ++i) {
      e.labels.push_back(static_cast<std::uint32_t>(random() % 40'000));
    }
    const auto edges = static_cast<std::uint32_t>(nodes * options.edges_per_node);
    for (std::uint32_t i = 0; i < edges; ++i) {
      e.sources.push_back(node());
      e.targets.push_back(node());
      e.edge_labels.push_back(static_cast<std::uint32_t>(random() % 30));
    }
    std::sort(e.edge_labels.begin(), e.edge_labels.end());
    for (int i = 0; i < 4; ++i) e.context.push_back(node());
  }
  return examples;
}

inline Result<std::shared_ptr<const PackedBatch>> Pack(BatchWriter& writer,
                                                       std::span<const Example> examples,
                                                       std::uint64_t first) {
  writer.Begin({}, 0, first, static_cast<std::uint32_t>(examples.size()));
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Example& e = examples[i];
    writer.Append(kLabel, e.labels);
    writer.Append(kSource, e.sources);
    writer.Append(kTarget, e.targets);
    writer.Append(kEdgeLabel, e.edge_labels);
    writer.Append(kContext, e.context);
    writer.AppendOne(kRoot, 0);
    writer.AppendOne(kId, static_cast<std::int64_t>(first + i));
    writer.EndExample(ExampleId(first + i));
  }
  return writer.Seal();
}

}  // namespace millrace::bench
