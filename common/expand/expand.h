// Packed to delivered in one pass: values are widened to one index type, node numbers count across
// the batch, reversed and self edges are added in the exact order of the reference semantics.
//
// Edges of an example lie grouped by label, labels ascending. Completed they are:
//  - none: the L groups as they are.
//  - undirected: each group followed by its own edges reversed, with the same label.
//  - bidirectional: the L groups, then L more groups, the edges reversed and labelled label + L.
//  - add_self_edges: one last group (i, i, last label) for every node.
// What to do is read from the tensor table (expansion, splits, node_splits), never from names.
//
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/batch/layout/layout.h"
#include "common/batch/layout/tensor_table.h"

namespace millrace {

/// Graphs [first, first + count) of a batch: whole examples.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// The rows of part `part` of `parts` that are as even as they can be; some are empty where there
/// are more parts than graphs. REQUIRES: part < parts.
RowRange RowsOfPart(std::size_t graphs, std::size_t part, std::size_t parts);

/// Where the tensors of a delivered batch go: what a device needs before it expands.
struct ExpandLayout {
  RowRange rows;  // of the packed batch
  DType index_dtype = DType::kInt32;
  std::vector<DType> dtypes;  // of the delivered tensors
  std::vector<std::vector<std::uint64_t>> shapes;
  std::vector<std::uint64_t> offsets;  // multiples of kTensorAlignment
  std::vector<EdgeGroup> edges;
  std::uint64_t bytes = 0;  // of all tensors with padding

  /// Of one tensor, without padding.
  std::uint64_t tensor_bytes(std::size_t tensor) const;
};

/// InvalidArgument unless `index_dtype` is int32 or int64. OutOfRange where the rows of a tensor do
/// not fit it: the message names the tensor and `index_dtype: int64`. DataLoss where the batch's
/// table cannot be expanded. `rows`: those that the delivered batch consists of, in which nodes and
/// splits count from 0; absent: all. REQUIRES: the batch has them.
Result<ExpandLayout> LayOutExpanded(const PackedBatch& packed, DType index_dtype,
                                    std::optional<RowRange> rows = std::nullopt);

/// Bytes of the delivered form; errors as LayOutExpanded.
Result<std::uint64_t> ExpandedBytes(const PackedBatch& packed, DType index_dtype);

/// Fills `out`, padding included. REQUIRES: `layout` is that of `packed`, out.size() ==
/// layout.bytes, out.data() at a multiple of kTensorAlignment. OutOfRange for a number that does
/// not fit the index type; DataLoss, naming tensor, row and example, for an edge or node reference
/// that leaves its example, or labels that do not ascend or are too big.
Status ExpandInto(const PackedBatch& packed, const ExpandLayout& layout, std::span<std::byte> out);

/// What a filled `out` shows: a view of it, nothing of which is read here, so that it may be memory
/// of any device. `memory` says where it lies. REQUIRES: as ExpandInto.
std::shared_ptr<const DeliveredBatch> ViewExpanded(const PackedBatch& packed,
                                                   const ExpandLayout& layout,
                                                   std::span<std::byte> out,
                                                   std::shared_ptr<const void> owner,
                                                   const TensorMemory& memory = {});

/// All of the above into a buffer of `pool`. Dropped examples are told of the first rows' batch.
Result<std::shared_ptr<const DeliveredBatch>> Expand(const PackedBatch& packed, DType index_dtype,
                                                     BufferPool& pool,
                                                     std::optional<RowRange> rows = std::nullopt);

/// The same into memory of another owner: a session's slot. REQUIRES: as ExpandInto, but out may be
/// larger than the layout.
Result<std::shared_ptr<const DeliveredBatch>> ExpandTo(const PackedBatch& packed,
                                                       const ExpandLayout& layout,
                                                       std::span<std::byte> out,
                                                       std::shared_ptr<const void> owner);

}  // namespace millrace
