// What a builder thread fills: one column a tensor, sealed into a packed batch.
//
// Not thread-safe: one a thread, used for one batch after another. Columns keep their memory, so
// that after warm-up only Seal allocates: the sealed batch's own description, and a buffer where
// the pool has none. Same calls between Begin and Seal, same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/batch/layout.h"
#include "common/batch/tensor_table.h"

namespace millrace {

/// Use: Begin; for each example of the range either the Append calls of all its tensors and then
/// EndExample, or AddDropped; Seal. Append only when the example is known to be complete: nothing
/// can be taken back. Splits tensors are the writer's own business: EndExample fills them.
class BatchWriter {
 public:
  /// InvalidArgument where the list breaks the rules of tensor_table.h, or a tensor has more than
  /// one dimension. `pool` has to outlive the writer.
  static Result<BatchWriter> Create(std::vector<TensorSpec> tensors, ExpandSpec expand,
                                    BufferPool& pool);
  BatchWriter(BatchWriter&&) noexcept = default;
  BatchWriter& operator=(BatchWriter&&) noexcept = default;

  /// Forgets what was appended since the last Seal and begins a batch.
  void Begin(const Fingerprint& fingerprint, std::uint64_t epoch, std::uint64_t first_example,
             std::uint32_t planned_examples);

  /// Append values to a tensor, given by its number in the list and not of kind kSplits, narrowed
  /// to its dtype. A value outside the tensor's bounds makes Seal fail.
  void Append(std::size_t tensor, std::span<const std::uint32_t> values);
  void AppendSigned(std::size_t tensor, std::span<const std::int32_t> values);
  void AppendOne(std::size_t tensor, std::int64_t value);
  /// REQUIRES: the tensor's dtype is uint8. Bounds are not checked: bytes are bytes.
  void AppendBytes(std::size_t tensor, std::span<const std::byte> bytes);

  /// Ends a row of every splits tensor: what was appended since the last EndExample is this
  /// example's.
  void EndExample(ExampleId id);
  void AddDropped(ExampleId id, DropReason reason);

  /// Bytes in the columns so far.
  std::uint64_t pending_bytes() const;

  /// The batch. Internal, naming the tensor, where a value was out of bounds or a tensor has
  /// another number of rows than its kind asks for, or where examples and dropped ones are not as
  /// many as planned. ResourceExhausted where there is no memory. Afterwards only Begin may be
  /// called.
  Result<std::shared_ptr<const PackedBatch>> Seal();

 private:
  /// Values of one tensor, one after another. Grows without clearing.
  class Column {
   public:
    /// Room for `bytes` more, which count as written.
    std::byte* Extend(std::size_t bytes);
    void Clear() { size_ = 0; }
    const std::byte* data() const { return data_.get(); }
    std::size_t size() const { return size_; }

   private:
    void Grow(std::size_t capacity);

    std::unique_ptr<std::byte[]> data_;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
  };

  struct Tensor {
    TensorSpec spec;
    std::uint32_t value_bytes = 1;
    std::size_t rows_of = kNone;   // of splits and of what they cut: the first tensor they cut
    std::uint64_t last_split = 0;  // of a splits tensor: its last value
    bool out_of_bounds = false;
    std::int64_t bad_value = 0;  // the first one out of bounds
  };

  static constexpr std::size_t kNone = ~std::size_t{0};

  BatchWriter(std::vector<Tensor> tensors, std::vector<EdgeGroup> edges, ExpandSpec expand,
              BufferPool& pool);
  template <class T>
  void AppendValues(std::size_t tensor, std::span<const T> values);
  void AppendValue(std::size_t tensor, std::int64_t value);
  void AppendSplit(std::size_t splits, std::uint64_t rows);
  std::uint64_t Rows(std::size_t tensor) const;
  Status CheckComplete() const;
  std::vector<TensorPlace> Places() const;

  std::vector<Tensor> tensors_;
  std::vector<Column> columns_;
  std::vector<EdgeGroup> edges_;
  BufferPool* pool_;
  BatchInfo info_;
};

}  // namespace millrace
