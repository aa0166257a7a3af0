// A small graph dataset, plans over it, and what the page says of their batches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/batch/batch.h"
#include "server/catalog/product_kinds.h"
#include "server/plan/plan_library.h"
#include "server/source/keyed_order.h"
#include "tests/unit/common/batch/model_batch.h"
#include "tests/unit/server/kinds/graph/graph_folder.h"
#include "tests/unit/server/sampling/plain_neighbors.h"

namespace millrace::test {

struct NeighborWorldOptions {
  std::uint64_t nodes = 60;
  std::uint32_t labels = 3;  // of edges: a, b, c and so on; 0: edges have none
  GraphRows rows = GraphRows::kSource;
  DType pointers = DType::kInt64;
  DType indices = DType::kInt32;
  std::uint64_t seed = 5;
};

/// Rows of RandomRows; `roots/some` has 40 nodes, some of them twice; nodes have labels and a
/// feature.
class NeighborWorld {
 public:
  using Options = NeighborWorldOptions;

  explicit NeighborWorld(const Options& options = {})
      : options_(options), random_(options.seed), folder(options.nodes, 0) {
    rows = RandomRows(random_, options.nodes, std::max(options.labels, 1u), 40);
    std::vector<std::uint64_t> pointers = {0};
    std::vector<std::uint64_t> indices;
    std::vector<std::uint8_t> labels;
    for (const auto& row : rows) {
      for (const PlainEntry& entry : row) {
        indices.push_back(entry.node);
        labels.push_back(static_cast<std::uint8_t>(entry.label));
      }
      pointers.push_back(indices.size());
    }
    folder.description.edges = indices.size();
    folder.description.rows = options.rows;
    folder.description.node_labels = {"x", "y"};
    AddIntegers("indptr", options.pointers, pointers);
    AddIntegers("indices", options.indices, indices);
    if (options.labels > 0) {
      folder.description.edge_labels.emplace();
      for (std::uint32_t label = 0; label < options.labels; ++label) {
        folder.description.edge_labels->emplace_back(1, static_cast<char>('a' + label));
      }
      folder.Add<std::uint8_t>("edge_label", DType::kUint8, labels);
    }
    std::vector<std::uint8_t> node_labels(options.nodes);
    std::vector<float> features(options.nodes);
    for (std::uint64_t node = 0; node < options.nodes; ++node) {
      node_labels[node] = node % 3 == 0;
      features[node] = static_cast<float>(node) / 2;
    }
    folder.Add<std::uint8_t>("node_label", DType::kUint8, node_labels);
    folder.Add<float>("node_feature/x", DType::kFloat32, features);
    for (std::size_t i = 0; i < 40; ++i) roots.push_back(random_() % options.nodes);
    roots[7] = roots[6];
    AddIntegers("roots/some", DType::kInt64, roots);
    folder.Add<std::int64_t>("graphs/parts", DType::kInt64,
                             {0, static_cast<std::int64_t>(options.nodes)});
    REQUIRE(folder.Seal().ok());
    Open();
  }

  /// Forgets the dataset, so that the next plan opens it again.
  void Open() {
    PlanLibraryOptions library_options;
    library_options.kinds = ProductKinds();
    library_options.datasets["g"].dir = folder.dir.path();
    library_options.cache_dir = cache_dir_ / "cache";
    library = std::make_unique<PlanLibrary>(std::move(library_options), MakeNullLogger());
  }

  static std::string Text(const std::string& closure, const std::string& more = "") {
    const std::string batch =
        more.find("batch:") == std::string::npos ? "batch: {size: 8, remainder: keep}\n" : "";
    return "millrace: 1\ndataset: g\nsource: {roots: some}\nclosure: {kind: neighbors, " + closure +
           "}\n" + batch + more;
  }
  Result<std::shared_ptr<const Plan>> CompileText(const std::string& yaml) const {
    PipelineSource pipeline;
    pipeline.yaml = yaml;
    pipeline.name = "p.yaml";
    return library->Compile(pipeline);
  }
  Result<std::shared_ptr<const Plan>> Compile(const std::string& closure,
                                              const std::string& more = "") const {
    return CompileText(Text(closure, more));
  }
  std::shared_ptr<const Plan> MustCompile(const std::string& closure,
                                          const std::string& more = "") const {
    auto plan = Compile(closure, more);
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    return *std::move(plan);
  }
  std::string Error(const std::string& closure, const std::string& more = "") const {
    const auto plan = Compile(closure, more);
    return plan.ok() ? "no error" : plan.status().message();
  }

  static std::shared_ptr<const PackedBatch> Build(const Plan& plan,
                                                  const std::vector<std::uint64_t>& ids,
                                                  std::uint64_t epoch = 0) {
    std::vector<ExampleId> examples(ids.begin(), ids.end());
    const auto scratch = plan.NewScratch();
    auto batch = plan.BatchOf(examples, epoch, *scratch);
    INFO(batch.status().message());
    REQUIRE(batch.ok());
    return *std::move(batch);
  }

  /// The key of the draws of an example.
  static std::uint64_t KeyOf(std::uint64_t seed, std::uint64_t epoch, std::uint64_t id) {
    return *DeriveSeed(DeriveSeed(seed, "neighbors", epoch), "example", id);
  }
  /// The graph of some examples, by the page.
  PlainNeighbors Expected(const std::vector<std::uint64_t>& ids, const NeighborOptions& options,
                          std::uint64_t key) const {
    std::vector<std::uint64_t> nodes;
    for (const std::uint64_t id : ids) nodes.push_back(roots[id]);
    return DrawByThePage(rows, nodes, options, key);
  }
  /// Checks what a batch says of one of its graphs, which begins at these rows of its tensors.
  void CheckGraph(const PackedBatch& batch, const PlainNeighbors& expected,
                  std::size_t graph) const {
    using Numbers = std::vector<std::int64_t>;
    const auto slice = [&](const char* path, std::size_t first, std::size_t count) {
      const Numbers all = Values(batch, path);
      REQUIRE(first + count <= all.size());
      return Numbers(all.begin() + static_cast<std::ptrdiff_t>(first),
                     all.begin() + static_cast<std::ptrdiff_t>(first + count));
    };
    const auto node = static_cast<std::size_t>(Values(batch, "node_splits").at(graph));
    const auto edge = static_cast<std::size_t>(Values(batch, "edge_splits").at(graph));
    CHECK(Values(batch, "node_splits").at(graph + 1) ==
          static_cast<std::int64_t>(node + expected.nodes.size()));
    CHECK(Values(batch, "edge_splits").at(graph + 1) ==
          static_cast<std::int64_t>(edge + expected.edges.size()));
    CHECK(slice("node", node, expected.nodes.size()) ==
          Numbers(expected.nodes.begin(), expected.nodes.end()));
    std::vector<PlainNeighbor> edges = expected.edges;
    std::stable_sort(
        edges.begin(), edges.end(),
        [](const PlainNeighbor& a, const PlainNeighbor& b) { return a.label < b.label; });
    Numbers row;
    Numbers other;
    Numbers place;
    Numbers label;
    for (const PlainNeighbor& one : edges) {
      row.push_back(one.row);
      other.push_back(one.other);
      place.push_back(static_cast<std::int64_t>(one.place));
      label.push_back(one.label);
    }
    const bool of_target = options_.rows == GraphRows::kTarget;
    CHECK(slice("edge_source", edge, edges.size()) == (of_target ? other : row));
    CHECK(slice("edge_target", edge, edges.size()) == (of_target ? row : other));
    if (batch.Find("edge")) CHECK(slice("edge", edge, edges.size()) == place);
    if (options_.labels > 0) CHECK(slice("edge_label", edge, edges.size()) == label);
    for (const auto& [path, hops] : {std::pair("hop_nodes", &expected.hop_nodes),
                                     std::pair("hop_edges", &expected.hop_edges)}) {
      const std::size_t tensor = *batch.Find(path);
      REQUIRE(batch.tensors()[tensor].spec.inner == std::vector<std::uint64_t>{hops->size()});
      for (std::size_t hop = 0; hop < hops->size(); ++hop) {
        CHECK(batch.ValueAt(tensor, graph * hops->size() + hop) == (*hops)[hop]);
      }
    }
  }

 private:
  template <class T>
  void AddAs(const std::string& name, DType dtype, const std::vector<std::uint64_t>& values) {
    folder.Add<T>(name, dtype, std::vector<T>(values.begin(), values.end()));
  }
  void AddIntegers(const std::string& name, DType dtype, const std::vector<std::uint64_t>& values) {
    if (DTypeSize(dtype) == 4) return AddAs<std::uint32_t>(name, dtype, values);
    AddAs<std::uint64_t>(name, dtype, values);
  }

  const Options options_;
  std::mt19937_64 random_;
  TempDir cache_dir_;

 public:
  GraphFolder folder;
  PlainRows rows;
  std::vector<std::uint64_t> roots;
  std::unique_ptr<PlanLibrary> library;
};

}  // namespace millrace::test
