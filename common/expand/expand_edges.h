// Completes the edges of a batch. expand.h is the interface to the whole expansion.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "common/base/result.h"
#include "common/batch/batch.h"
#include "common/batch/layout/integer_visit.h"
#include "common/expand/expand.h"

namespace millrace::internal {

/// The rows of a splits tensor, by graph. PackedBatch::Parse has checked that they ascend.
class SplitsView {
 public:
  SplitsView(const PackedBatch& packed, std::size_t tensor)
      : data_(packed.tensor_bytes(tensor).data()), dtype_(packed.tensors()[tensor].spec.dtype) {}
  std::uint64_t operator[](std::size_t i) const {
    return static_cast<std::uint64_t>(LoadValue(data_, dtype_, i));
  }

 private:
  const std::byte* data_;
  DType dtype_;
};

/// The DataLoss error for a wrong value of one example. `row` is the row of its graph.
Status BadValue(const PackedBatch& packed, std::size_t tensor, std::size_t row,
                std::string_view what);

/// The number of delivered edges for `edges` packed edges of an example with `nodes` nodes.
std::uint64_t CompleteEdges(const ExpandSpec& expand, std::uint64_t edges, std::uint64_t nodes);

/// Fills the tensors of a group. REQUIRES: as for ExpandInto.
Status ExpandEdges(const PackedBatch& packed, const ExpandLayout& layout, const EdgeGroup& group,
                   std::span<std::byte> out);

}  // namespace millrace::internal
