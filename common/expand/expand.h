// Turns a packed batch into a delivered one in a single pass. A delivery (delivery.h) says which
// tensors are delivered, and which of them are computed. The others are expanded: integers are
// widened to one index type, node numbers count across the batch, and reversed edges and self-loops
// are added in an exact order. Tensors that expand as kKeep are delivered unchanged, with a type of
// their own.
//
// The packed edges of an example are grouped by label, labels ascending. With L labels, they are
// completed as follows:
//  - none: the L groups as they are.
//  - undirected: each group, followed by its own edges reversed, with the same label.
//  - bidirectional: the L groups, then L more groups: the edges reversed and labelled label + L.
//  - add_self_edges: one last group with an edge (i, i, last label) for every node i.
// The work for each tensor depends on the tensor table (expansion, splits, node_splits), never on
// names.
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
#include "common/expand/delivery.h"

namespace millrace {

/// Rows [first, first + count) of a batch: whole examples, or graphs.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// The graphs of these examples, or the only one of a merged batch. REQUIRES: for a merged batch,
/// these are all examples.
inline RowRange GraphsOf(const BatchInfo& info, RowRange examples) {
  return info.expand.merged ? RowRange{0, 1} : examples;
}

/// The rows of micro-batch `index`, if a batch is cut into `micro` micro-batches that are as even
/// as possible. Some are empty if there are more of them than examples. REQUIRES: index < micro.
RowRange RowsOfMicroBatch(std::size_t examples, std::size_t index, std::size_t micro);

namespace internal {
class BatchComputation;
}

/// How many nodes, complete edges and graphs there are.
struct GraphCounts {
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  std::uint64_t graphs = 0;
};

/// A run of equal values in a delivered batch.
struct FillRun {
  std::uint64_t offset = 0;  // multiple of `width`
  std::uint64_t count = 0;   // at least 1
  std::uint32_t width = 1;   // bytes of a value: 1, 2, 4 or 8
  std::uint64_t value = 0;
};

/// A computed tensor of one batch, or a mask.
struct ComputedPlace {
  DType dtype = DType::kInt32;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  // multiple of kTensorAlignment

  /// Without padding.
  std::uint64_t bytes() const;
};

/// Where the tensors of a delivered batch go. A device needs to know this before it expands the
/// batch. Copies share the memory in which tensors are computed: if there are such tensors, only
/// one thread at a time may use a layout and its copies.
struct ExpandLayout {
  RowRange rows;    // the examples of the packed batch that are delivered
  RowRange graphs;  // their graphs
  DType index_dtype = DType::kInt32;
  // The next four are about packed tensors. One that is not delivered has no bytes.
  std::vector<bool> expanded;  // whether the tensor is delivered
  std::vector<DType> dtypes;   // as delivered
  std::vector<std::vector<std::uint64_t>> shapes;
  std::vector<std::uint64_t> own_rows;  // the rows of `shapes` that are no padding of pad.graph
  std::vector<std::uint64_t> offsets;   // multiples of kTensorAlignment
  std::vector<EdgeGroup> edges;
  // The next three are empty without pad.graph (graph_padding.h). Masks come after the tensors.
  GraphCounts own;  // without padding
  std::vector<ComputedPlace> masks;
  std::vector<FillRun> fills;  // all masks, and fills of tensors after their own rows
  /// The computed tensors come after the expanded ones, from `computed_begin` on.
  std::vector<ComputedPlace> computed;
  std::uint64_t computed_begin = 0;
  std::uint64_t bytes = 0;                                   // all tensors with padding
  std::shared_ptr<const internal::Computation> computation;  // null: nothing is computed
  std::shared_ptr<internal::BatchComputation> batch_computation;
  ProgramObserver* observer = nullptr;  // the delivery's observer

  /// The size of one packed tensor as it is delivered, without alignment.
  std::uint64_t tensor_bytes(std::size_t tensor) const;
  /// The size of its own rows.
  std::uint64_t own_bytes(std::size_t tensor) const;
  /// The size of the tensor with alignment.
  std::uint64_t padded_bytes(std::size_t tensor) const;
};

/// The layout of the delivered form of `packed`. `rows`: the delivered batch consists of these rows
/// only, and its nodes and splits count from 0; absent: all rows. InvalidArgument unless
/// `index_dtype` is int32 or int64. OutOfRange if the number of rows of a tensor does not fit
/// `index_dtype`; the message names the tensor and `index_dtype: int64`. FailedPrecondition for
/// some of the rows of a merged batch. DataLoss if the tensor table of the batch cannot be
/// expanded, if the delivery is for other tensors, if values do not suit the delivery's program, or
/// if the batch does not fit its pad.graph. ResourceExhausted if padding requires a tensor that is
/// too large. REQUIRES: the batch has these rows.
Result<ExpandLayout> LayOutExpanded(const PackedBatch& packed, const Delivery& delivery,
                                    std::optional<RowRange> rows = std::nullopt);

/// Expands into `out` and fills the padding too. REQUIRES: `layout` is the layout of `packed`;
/// out.size() == layout.bytes; out.data() is at a multiple of kTensorAlignment. OutOfRange for a
/// number that does not fit the index type. DataLoss, with tensor, row and example, for an edge or
/// a node reference that leaves its example, and for labels that do not ascend or are too big;
/// DataLoss too for a bool that is neither 0 nor 1, and with the name of a tensor if it cannot be
/// computed from these values.
Status ExpandInto(const PackedBatch& packed, const ExpandLayout& layout, std::span<std::byte> out);

/// The part of ExpandInto that fills computed tensors and their padding. `out` is the memory from
/// layout.computed_begin on.
Status ComputeInto(const PackedBatch& packed, const ExpandLayout& layout, std::span<std::byte> out);

/// A view of `out` after it has been filled. `out` itself is not read here, so it may be memory of
/// any device. `memory` describes it. REQUIRES: as for ExpandInto.
std::shared_ptr<const DeliveredBatch> ViewExpanded(const PackedBatch& packed,
                                                   const ExpandLayout& layout,
                                                   std::span<std::byte> out,
                                                   std::shared_ptr<const void> owner,
                                                   const TensorMemory& memory = {});

/// The unexpanded packed form, for tools and tests: narrow types, numbers of nodes within their
/// graph, and no added edges.
std::shared_ptr<const DeliveredBatch> ViewPacked(std::shared_ptr<const PackedBatch> packed);

/// All of the above, into a buffer of `pool`. Only a batch with the first rows names the dropped
/// examples.
Result<std::shared_ptr<const DeliveredBatch>> Expand(const PackedBatch& packed,
                                                     const Delivery& delivery, BufferPool& pool,
                                                     std::optional<RowRange> rows = std::nullopt);

/// The same, into memory of another owner: a slot of a session. REQUIRES: as for ExpandInto, but
/// `out` may be larger than the layout.
Result<std::shared_ptr<const DeliveredBatch>> ExpandTo(const PackedBatch& packed,
                                                       const ExpandLayout& layout,
                                                       std::span<std::byte> out,
                                                       std::shared_ptr<const void> owner);

}  // namespace millrace
