// Rows that are written when a batch is sealed, straight to their place in it. Rows of features are
// most of a batch's bytes; so they are copied once, and not twice.
//
// Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "common/base/result.h"

namespace millrace {

class BatchWriter;

class LateRows {
 public:
  /// Called with the number of final bytes, from the first on. They are hashed while they are still
  /// in the processor's caches.
  using Filled = std::function<void(std::size_t bytes)>;

  virtual ~LateRows() = default;

  /// The tensors whose rows may be late, by their numbers in the writer's list.
  virtual std::span<const std::size_t> tensors() const = 0;
  /// Writes all rows of such a tensor. `writer` has the other tensors of the batch. DataLoss if the
  /// stored data are bad. `filled` may be called meanwhile. REQUIRES: `out` has room for exactly
  /// these rows.
  virtual Status Write(std::size_t tensor, const BatchWriter& writer, std::span<std::byte> out,
                       const Filled& filled) const = 0;
};

}  // namespace millrace
