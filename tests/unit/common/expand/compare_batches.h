// Compares the bytes of delivered batches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "common/expand/expand.h"

namespace millrace::test {

inline bool SameBytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// The name of the first tensor whose bytes differ. REQUIRES: some do.
inline std::string FirstDifference(const PackedBatch& packed, const ExpandLayout& layout,
                                   std::span<const std::byte> got,
                                   std::span<const std::byte> expected) {
  const auto view =
      ViewExpanded(packed, layout, {const_cast<std::byte*>(got.data()), got.size()}, nullptr);
  for (const DeliveredTensor& tensor : view->tensors()) {
    const auto at = static_cast<std::size_t>(tensor.data - got.data());
    for (std::size_t i = 0; i < tensor.bytes; ++i) {
      if (got[at + i] != expected[at + i]) return tensor.path + " at byte " + std::to_string(i);
    }
  }
  return "padding";
}

/// Whether two batches have the same tensors in the same order, wherever they lie.
inline bool SameTensors(const DeliveredBatch& a, const DeliveredBatch& b) {
  return std::equal(a.tensors().begin(), a.tensors().end(), b.tensors().begin(), b.tensors().end(),
                    [](const DeliveredTensor& x, const DeliveredTensor& y) {
                      return x.path == y.path && x.kind == y.kind && x.dtype == y.dtype &&
                             x.shape == y.shape && x.dimensions == y.dimensions &&
                             x.splits == y.splits && x.node_splits == y.node_splits;
                    });
}

}  // namespace millrace::test
