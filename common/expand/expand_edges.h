// Completes the edges of a batch: the inner part of expand.h.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "common/base/result.h"
#include "common/batch/batch.h"
#include "common/batch/layout/dtype_visit.h"
#include "common/expand/expand.h"

namespace millrace::internal {

/// The rows of a splits tensor by graph. Parse has made sure that they ascend.
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

/// The DataLoss of a value of one example. `row` is the graph's.
Status BadValue(const PackedBatch& packed, std::size_t tensor, std::size_t row,
                std::string_view what);

/// Edges of the delivered form for `edges` packed ones of an example with `nodes` nodes.
std::uint64_t CompleteEdges(const ExpandSpec& expand, std::uint64_t edges, std::uint64_t nodes);

/// Fills the four tensors of a group. REQUIRES: as ExpandInto.
Status ExpandEdges(const PackedBatch& packed, const ExpandLayout& layout, const EdgeGroup& group,
                   std::span<std::byte> out);

}  // namespace millrace::internal
