// pad.graph: every delivered batch has the same number of nodes, edges and graphs.
//
// A batch's own graphs come first. Empty graphs follow, and then one last graph, which has all
// nodes and edges of padding. It has one node at least. Its edges lead from its first node to the
// same node, and so do references to nodes in rows of padding; every other value there is 0. Rows
// of ragged tensors are empty, so splits repeat their last number. Three masks say which nodes,
// edges and graphs are the batch's own.
//
// Immutable value type.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/batch/batch.h"
#include "common/batch/layout/layout.h"
#include "common/batch/layout/tensor_table.h"
#include "common/expand/expand.h"
#include "common/operations/graph_pad.h"

namespace millrace::internal {

class GraphPadding {
 public:
  /// For batches with these tensors. Errors are GraphOfTensors' errors, and InvalidArgument that
  /// begins with "graph: " if one of them has the name of a mask.
  static Result<GraphPadding> Make(std::span<const TensorSpec> tensors, const GraphPad& pad);

  const GraphPad& pad() const { return pad_; }
  /// The tensors of the edges. They are delivered even if they were not requested.
  const EdgeGroup& graph() const { return graph_; }
  /// The masks as they are delivered, by the bytes of their names.
  const std::vector<TensorSpec>& masks() const { return masks_; }

  /// The rows of a delivered tensor in every batch; absent: batches differ, as they do in the rows
  /// of ragged tensors.
  std::optional<std::uint64_t> RowsOf(const TensorSpec& tensor) const;

  /// Gives the expanded tensors of a layout these rows. DataLoss, with the sizes and what to do, if
  /// the batch does not fit. ResourceExhausted if a tensor would be too large. REQUIRES: the layout
  /// has shapes, with the rows of complete edges.
  Status SetRows(const PackedBatch& packed, ExpandLayout& layout) const;
  /// Places the masks, and adds the values of rows of padding. REQUIRES: SetRows succeeded, and the
  /// expanded tensors have their places.
  void AddFills(const PackedBatch& packed, ExpandLayout& layout) const;

 private:
  GraphPadding(std::span<const TensorSpec> tensors, const GraphPad& pad, const EdgeGroup& graph);

  /// The number in rows of padding of a tensor; the last row of splits may have another one.
  std::uint64_t ValueOf(const PackedBatch& packed, const ExpandLayout& layout,
                        std::size_t tensor) const;

  GraphPad pad_;
  EdgeGroup graph_;
  std::string node_splits_;
  std::string edge_splits_;
  std::vector<TensorSpec> masks_;
};

/// ResourceExhausted if `rows` rows of tensor `path`, of `row_bytes` bytes each, are more than a
/// batch may have.
Status CheckPaddedBytes(std::string_view path, std::uint64_t rows, std::uint64_t row_bytes);

/// Writes a run of equal values into a delivered batch.
void WriteFill(const FillRun& fill, std::span<std::byte> out);

}  // namespace millrace::internal
