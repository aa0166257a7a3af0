// Batches as plain values, for tests: the input of a writer and the expected output. The expected
// output shares no code with the writer: it follows the description of the reference loader.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/batch/batch_writer.h"
#include "common/batch/layout/layout.h"

namespace millrace::test {

struct ModelEdge {
  std::uint32_t source = 0;
  std::uint32_t target = 0;
  std::uint32_t label = 0;
  friend bool operator==(const ModelEdge&, const ModelEdge&) = default;
};

/// The graph of one example in one branch. Edges are grouped by ascending label.
struct ModelGraph {
  std::vector<std::uint32_t> node_labels;
  std::vector<ModelEdge> edges;
};

struct ModelExample {
  std::uint64_t id = 0;
  std::vector<ModelGraph> graphs;      // one for each branch
  std::uint32_t root = 0;              // a node of the first branch
  std::vector<std::uint32_t> context;  // nodes of the first branch
  std::vector<std::int32_t> args;      // -1 or more each
  std::string text;
  std::int64_t step = 0;
  std::vector<std::string> declared;  // for each declared tensor of the plan the bytes of its rows
};

/// The settings that a plan fixes.
struct ModelPlan {
  std::vector<std::string> branches = {""};  // prefixes of paths: "", or "a/" and "b/"
  ExpandSpec expand;
  bool edge_labels = true;           // false: there is no edge_label, as all edges have label 0
  std::uint64_t max_nodes = 1024;    // in an example
  std::uint64_t max_label = 40'000;  // of any node
  std::uint64_t max_rows = 100'000;  // of any tensor, over all examples of a batch
  std::int32_t max_arg = 100;
  std::uint64_t max_id = std::uint64_t{1} << 40;
  std::uint64_t max_step = 1000;
  // Tensors of any types and extents, which come last. Each names splits of the first branch or of
  // its own, or none.
  std::vector<TensorSpec> declared;
};

struct ModelBatch {
  ModelPlan plan;
  Fingerprint fingerprint;
  std::uint64_t epoch = 0;
  std::uint64_t first_example = 0;
  std::vector<ModelExample> examples;
  std::vector<DroppedExample> dropped;
  std::vector<LostPieces> lost_pieces;
  std::vector<ModelGraph> merged;  // if the plan says so: the only graph of each branch

  /// The graphs of a branch, one after another.
  std::vector<ModelGraph> GraphsOf(std::size_t branch) const;
};

/// The tensors of a model plan.
std::vector<TensorSpec> Tensors(const ModelPlan& plan);

/// Writes a batch with a writer of Tensors(batch.plan), from Begin to the last EndExample, without
/// Seal.
void Fill(const ModelBatch& batch, BatchWriter& writer);

/// Calls Fill and Seal with a new writer. REQUIRES: the batch is a legal one.
std::shared_ptr<const PackedBatch> Pack(const ModelBatch& batch, BufferPool& pool);

/// A random legal plan and batch; equal seeds give equal batches. `size` bounds examples, nodes and
/// so on.
ModelBatch RandomBatch(std::uint64_t seed, int size);

/// The batch if all its edges have label 0, and it has no tensor of labels.
ModelBatch WithoutEdgeLabels(ModelBatch batch);

/// The batch as one graph for each branch: those of the examples side by side.
ModelBatch Merged(ModelBatch batch);

/// The delivered edges of one graph, computed slowly, one rule after the other.
std::vector<ModelEdge> CompleteByThePage(const ModelGraph& graph, const ExpandSpec& expand);

/// All values of a tensor of integers.
std::vector<std::int64_t> Values(const PackedBatch& batch, std::string_view path);
std::vector<std::int64_t> Values(const DeliveredBatch& batch, std::string_view path);

/// An aligned copy of the bytes, which tests may damage.
std::shared_ptr<Buffer> CopyOf(std::span<const std::byte> bytes, BufferPool& pool);

/// Corrects the header's checksum after tests have changed the header.
void ResealHeader(std::span<std::byte> header);

}  // namespace millrace::test
