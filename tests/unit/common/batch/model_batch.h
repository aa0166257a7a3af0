// Batches as plain values, for tests: what goes into a writer and what has to come out again,
// written from reference-semantics alone.
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

/// One branch's graph of one example. Edges are grouped by ascending label.
struct ModelGraph {
  std::vector<std::uint32_t> node_labels;
  std::vector<ModelEdge> edges;
};

struct ModelExample {
  std::uint64_t id = 0;
  std::vector<ModelGraph> graphs;      // one a branch
  std::uint32_t root = 0;              // node of the first branch
  std::vector<std::uint32_t> context;  // nodes of the first branch
  std::vector<std::int32_t> args;      // from -1 up
  std::string text;
  std::int64_t step = 0;
};

/// What a plan fixes.
struct ModelPlan {
  std::vector<std::string> branches = {""};  // prefixes of paths: "", or "a/", "b/"
  ExpandSpec expand;
  std::uint64_t max_nodes = 1024;    // of an example
  std::uint64_t max_label = 40'000;  // of a node
  std::uint64_t max_rows = 100'000;  // of all examples of a batch, of any tensor
  std::int32_t max_arg = 100;
  std::uint64_t max_id = std::uint64_t{1} << 40;
  std::uint64_t max_step = 1000;
};

struct ModelBatch {
  ModelPlan plan;
  Fingerprint fingerprint;
  std::uint64_t epoch = 0;
  std::uint64_t first_example = 0;
  std::vector<ModelExample> examples;
  std::vector<DroppedExample> dropped;
};

/// The tensors of a model plan.
std::vector<TensorSpec> Tensors(const ModelPlan& plan);

/// Writes a batch with a writer of Tensors(batch.plan): Begin to the last EndExample, without Seal.
void Fill(const ModelBatch& batch, BatchWriter& writer);

/// Fill and Seal with a new writer. The batch has to be a legal one.
std::shared_ptr<const PackedBatch> Pack(const ModelBatch& batch, BufferPool& pool);

/// A random legal plan and batch; equal seeds give equal batches. `size` bounds examples, nodes, ….
ModelBatch RandomBatch(std::uint64_t seed, int size);

/// Delivered edges of one graph, from the page on reference semantics.
std::vector<ModelEdge> CompleteByThePage(const ModelGraph& graph, const ExpandSpec& expand);

/// All values of a tensor.
std::vector<std::int64_t> Values(const PackedBatch& batch, std::string_view path);
std::vector<std::int64_t> Values(const DeliveredBatch& batch, std::string_view path);

/// An aligned copy of bytes that tests may damage.
std::shared_ptr<Buffer> CopyOf(std::span<const std::byte> bytes, BufferPool& pool);

/// Makes the header's checksum right again after damage.
void ResealHeader(std::span<std::byte> header);

}  // namespace millrace::test
