// What a builder thread fills: one column a tensor, sealed into a packed batch.
//
// Not thread-safe: one a thread, used for one batch after another. Columns keep their memory, so
// that after warm-up only Seal allocates: the sealed batch's own description, and a buffer where
// the pool has none. Same calls between Begin and Seal, same bytes.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/batch/layout/layout.h"
#include "common/batch/layout/tensor_table.h"

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
  void AppendOne(std::size_t tensor, std::int64_t value) {
    assert(tensors_[tensor].spec.kind != TensorKind::kSplits);
    AppendValue(tensor, value);
  }
  /// Room for `rows` values of a tensor, at least 0 and at most `max`, which the caller writes, and
  /// which count as appended. REQUIRES: T is an unsigned integer as wide as the tensor's dtype.
  template <class T>
  T* AppendRoom(std::size_t tensor, std::size_t rows, std::uint64_t max) {
    assert(sizeof(T) == columns_[tensor].value_bytes);
    if (static_cast<std::int64_t>(max) > columns_[tensor].max) NoteOutside(tensor, max);
    return reinterpret_cast<T*>(columns_[tensor].Extend(rows * sizeof(T)));
  }
  /// Bytes of a value of the tensor.
  std::uint32_t value_bytes(std::size_t tensor) const { return columns_[tensor].value_bytes; }
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
  struct Column {
    /// A value is appended as 8 bytes of which the first count, so that there is room for the rest.
    static constexpr std::size_t kSlack = 8;

    /// Room for `bytes` more, which count as written.
    std::byte* Extend(std::size_t bytes) {
      if (size + bytes + kSlack > capacity) [[unlikely]]
        Grow(bytes);
      std::byte* const at = data.get() + size;
      size += bytes;
      return at;
    }
    void Grow(std::size_t bytes);
    std::uint64_t rows() const { return size >> value_shift; }

    std::unique_ptr<std::byte[]> data;
    std::size_t size = 0;
    std::size_t capacity = 0;
    std::uint32_t value_bytes = 1;
    std::uint32_t value_shift = 0;
    std::int64_t min = 0;
    std::int64_t max = 0;
  };

  struct Tensor {
    TensorSpec spec;
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
  void AppendValue(std::size_t tensor, std::int64_t value) {
    Column& column = columns_[tensor];
    // Little endian: the narrowed value is the first bytes of the wide one.
    std::memcpy(column.Extend(column.value_bytes), &value, sizeof value);
    if ((value < column.min) | (value > column.max)) [[unlikely]] {
      NoteOutside(tensor, static_cast<std::uint64_t>(value));
    }
  }
  [[gnu::cold]] void NoteOutside(std::size_t tensor, std::uint64_t value);
  void AppendSplit(std::size_t splits, std::uint64_t rows);
  Status CheckComplete() const;
  std::vector<TensorPlace> Places() const;

  std::vector<Tensor> tensors_;
  std::vector<Column> columns_;
  std::vector<std::size_t> splits_;  // the tensors that are splits
  std::vector<EdgeGroup> edges_;
  BufferPool* pool_;
  BatchInfo info_;
};

}  // namespace millrace
