// One example from a reader, as bytes: its rows of all tensors, or why it is dropped. They are
// taken from a batch writer and put into another one. Ids are left out, because an example can have
// another id in another dataset. docs/formats/cache.md describes the bytes.
//
// Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/batch/batch_writer.h"
#include "common/batch/layout/layout.h"
#include "server/plan/cache/example_bytes.h"

namespace millrace {

class ExamplePacker {
 public:
  /// `tensors`: the tensors of the writers.
  explicit ExamplePacker(const std::vector<TensorSpec>& tensors);

  /// A digest of everything that the bytes depend on besides the values: version of the format, and
  /// names and types of the tensors.
  Digest128 digest() const { return digest_; }

  /// The example in row `row` of the writer. REQUIRES: the row is ended; all values are in bounds.
  ExamplePtr Pack(const BatchWriter& writer, std::size_t row) const;
  static ExamplePtr PackDropped(DropReason reason);

  /// Appends the example, or adds it to the dropped ones. False, with the writer unchanged, if the
  /// bytes are no example with these tensors.
  bool Unpack(std::span<const std::byte> bytes, ExampleId id, BatchWriter& writer) const;

 private:
  struct Tensor {
    std::size_t number = 0;  // in the writer
    std::size_t row_bytes = 1;
    std::size_t cut_by = 0;  // number in splits_; kNotCut: it has one row
  };
  struct Splits {
    std::size_t number = 0;  // in the writer
    std::size_t value_bytes = 4;
  };
  static constexpr std::size_t kNotCut = ~std::size_t{0};

  std::vector<Tensor> tensors_;  // except ids and splits
  std::vector<Splits> splits_;
  std::optional<std::size_t> id_;  // number of the tensor with ids
  Digest128 digest_;
};

}  // namespace millrace
