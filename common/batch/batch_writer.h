// The object that a builder thread fills: one column per tensor. Seal makes a packed batch of it.
//
// Not thread-safe: every thread needs its own, and uses it for one batch after another. Columns
// keep their memory. After warm-up only Seal allocates: the description of the sealed batch, and a
// buffer if the pool has none to reuse. The same calls between Begin and Seal give the same bytes.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/batch/late_rows.h"
#include "common/batch/layout/layout.h"
#include "common/batch/layout/tensor_table.h"

namespace millrace {

class BatchFrame;  // batch_frame.h

/// Call Begin first. Then, for each example of the range, call either the Append functions for all
/// its tensors followed by EndExample, or AddDropped. Call Seal last. Append only when the example
/// is known to be complete, because an append cannot be taken back. The writer fills splits tensors
/// itself, in EndExample. If batches are merged, append the graph at any time, and call EndGraph
/// once, also if all examples are dropped.
class BatchWriter {
 public:
  /// InvalidArgument if the list breaks the rules of tensor_table.h. `pool` has to outlive the
  /// writer.
  static Result<BatchWriter> Create(std::vector<TensorSpec> tensors, ExpandSpec expand,
                                    BufferPool& pool);
  BatchWriter(BatchWriter&&) noexcept = default;
  BatchWriter& operator=(BatchWriter&&) noexcept = default;

  /// Forgets everything appended since the last Seal, and begins a batch.
  void Begin(const Fingerprint& fingerprint, std::uint64_t epoch, std::uint64_t first_example,
             std::uint32_t planned_examples);

  /// Notes the pass that each example of the batch belongs to, in their order. A branch of a mix
  /// counts passes of its own, and may end one within a batch. Without it all belong to the epoch.
  void SetPasses(std::vector<std::uint64_t> passes) { passes_ = std::move(passes); }
  /// The pass of the example that comes `ahead` examples after the next one. REQUIRES: the batch
  /// has that many.
  std::uint64_t PassOf(std::size_t ahead) const {
    if (passes_.empty()) return info_.epoch;
    return passes_[info_.example_ids.size() + info_.dropped.size() + ahead];
  }
  /// The passes of the next `count` examples; empty if all belong to the epoch.
  std::vector<std::uint64_t> PassesOfNext(std::size_t count) const;

  /// Notes the number of the chunk, within its example, that each example of the batch is built
  /// for. Without it they are built for themselves, or for all of their chunks.
  void SetChunks(std::vector<std::uint64_t> chunks) { chunks_ = std::move(chunks); }
  /// The chunks of the next `count` examples; empty if SetChunks was not called for the batch.
  std::vector<std::uint64_t> ChunksOfNext(std::size_t count) const;

  /// Notes the bound of the class of the batch's examples. REQUIRES: it is at most kMaxClassBound.
  void SetBound(std::optional<std::uint32_t> bound) { info_.bound = bound; }

  /// Append values to the tensor with this number in the list; its kind must not be kSplits, and
  /// its dtype has to be an integer (for AppendOne also bool). A row of several values is appended
  /// value by value. Values are narrowed to the tensor's dtype. A value outside the tensor's bounds
  /// makes Seal fail.
  void Append(std::size_t tensor, std::span<const std::uint32_t> values);
  void AppendOne(std::size_t tensor, std::int64_t value) {
    assert(tensors_[tensor].spec.kind != TensorKind::kSplits);
    AppendValue(tensor, value);
  }
  /// Room for `values` values of a tensor, which count as appended. The caller writes them; each is
  /// at least 0 and at most `max`. REQUIRES: T is an unsigned integer as wide as the tensor's
  /// dtype.
  template <class T>
  T* AppendRoom(std::size_t tensor, std::size_t values, std::uint64_t max) {
    assert(sizeof(T) == columns_[tensor].value_bytes);
    if (static_cast<std::int64_t>(max) > columns_[tensor].max) NoteOutside(tensor, max);
    return reinterpret_cast<T*>(columns_[tensor].Extend(values * sizeof(T)));
  }
  /// The size of one value of the tensor, in bytes.
  std::uint32_t value_bytes(std::size_t tensor) const { return columns_[tensor].value_bytes; }
  /// Room for `rows` rows of a tensor of any dtype, which count as appended. It is good until the
  /// next call for this tensor. The caller writes the values, little endian; they are not checked.
  /// REQUIRES: the tensor expands as kKeep.
  std::span<std::byte> AppendRows(std::size_t tensor, std::size_t rows) {
    assert(tensors_[tensor].spec.expansion == Expansion::kKeep);
    const std::size_t bytes = rows * columns_[tensor].row_bytes;
    return {columns_[tensor].Extend(bytes), bytes};
  }
  /// Appends whole rows of such a tensor.
  void AppendBytes(std::size_t tensor, std::span<const std::byte> bytes);
  /// Room for `rows` rows of a tensor, which count as appended. The caller writes them, in the
  /// tensor's own type. They are not checked: another writer has found them to be in bounds.
  /// REQUIRES: the tensor's kind is not kSplits.
  std::byte* PackedRoom(std::size_t tensor, std::size_t rows) {
    assert(tensors_[tensor].spec.kind != TensorKind::kSplits);
    return columns_[tensor].Extend(rows * columns_[tensor].row_bytes);
  }
  /// Appends whole rows from values() of a writer with the same tensor. REQUIRES: as PackedRoom.
  void AppendPacked(std::size_t tensor, std::span<const std::byte> rows) {
    assert(tensors_[tensor].spec.kind != TensorKind::kSplits);
    if (!rows.empty()) std::memcpy(columns_[tensor].Extend(rows.size()), rows.data(), rows.size());
  }

  /// From now on, rows of the tensor may be late: callers use AppendLate. Its values() cannot be
  /// read. `late` has to outlive the writer.
  void AllowLate(std::size_t tensor, const LateRows& late) { columns_[tensor].late = &late; }
  bool may_be_late(std::size_t tensor) const { return columns_[tensor].late != nullptr; }
  /// Counts rows as appended, which are written when the batch is sealed. REQUIRES:
  /// may_be_late(tensor).
  void AppendLate(std::size_t tensor, std::uint64_t rows) { columns_[tensor].late_rows += rows; }

  /// Ends a row of every splits tensor: everything appended since the last EndExample belongs to
  /// this example.
  void EndExample(ExampleId id);
  void AddDropped(ExampleId id, DropReason reason);
  /// Counts pieces of packed documents that rows of the batch, dropped ones too, lack because their
  /// documents are dropped for this reason.
  void AddLostPieces(DropReason reason, std::uint64_t pieces);
  /// Appends all that another writer has since its Begin, as if it had been appended here: rows,
  /// also late ones, examples, dropped ones and lost pieces. REQUIRES: both have the same tensors,
  /// and the same ones may be late; batches are not merged.
  void AppendAll(const BatchWriter& other);
  /// Ends the graph of a merged batch. REQUIRES: batches are merged.
  void EndGraph();

  /// The bytes that the columns hold so far.
  std::uint64_t pending_bytes() const;

  /// Everything appended since Begin, for code that makes other tensors of it before a batch is
  /// sealed. Valid until the next call that appends or begins.
  const BatchInfo& info() const { return info_; }
  /// REQUIRES: the rows are not late.
  std::span<const std::byte> values(std::size_t tensor) const {
    assert(columns_[tensor].late == nullptr);
    return {columns_[tensor].data.get(), columns_[tensor].size};
  }
  /// A number of a splits tensor: the beginning of the rows of the example at `place`, and the end
  /// of the rows of the one before. REQUIRES: the tensor has it.
  std::uint64_t SplitAt(std::size_t splits, std::size_t place) const {
    std::uint64_t value = 0;
    const std::uint32_t bytes = value_bytes(splits);
    std::memcpy(&value, values(splits).data() + place * bytes, bytes);
    return value;
  }
  /// Writes all rows of a tensor, late or not, into tensor `to` of a frame, which has room for
  /// exactly these.
  Status WriteValues(std::size_t tensor, BatchFrame& frame, std::size_t to) const;
  std::uint64_t bytes(std::size_t tensor) const {
    return columns_[tensor].size + columns_[tensor].late_rows * columns_[tensor].row_bytes;
  }
  std::uint64_t rows(std::size_t tensor) const { return columns_[tensor].rows(); }
  /// Whether all values appended since Begin are within the bounds of their tensors.
  bool in_bounds() const;
  /// The error that Seal would return, except for lack of memory.
  Status CheckComplete() const;

  /// The batch. Internal, with the tensor's name, if a value was out of bounds, if a tensor ends
  /// within a row, or if it has another number of rows than its kind asks for. Internal too if the
  /// examples and the dropped ones together are not as many as planned. ResourceExhausted if there
  /// is no memory left. Afterwards only Begin may be called.
  Result<std::shared_ptr<const PackedBatch>> Seal();

 private:
  /// The values of one tensor, one after another. It grows without clearing memory.
  struct Column {
    /// Each value is appended as 8 bytes, of which only the first ones count. So there must be room
    /// for the rest.
    static constexpr std::size_t kSlack = 8;

    /// Room for `bytes` more bytes, which count as written.
    std::byte* Extend(std::size_t bytes) {
      if (size + bytes + kSlack > capacity) [[unlikely]]
        Grow(bytes);
      std::byte* const at = data.get() + size;
      size += bytes;
      return at;
    }
    void Grow(std::size_t bytes);
    std::uint64_t rows() const { return size / row_bytes + late_rows; }

    struct Free {
      void operator()(std::byte* bytes) const {
        ::operator delete[](bytes, std::align_val_t(kTensorAlignment));
      }
    };
    /// At a multiple of kTensorAlignment: a store that straddles two lines takes twice as long.
    std::unique_ptr<std::byte[], Free> data;
    std::size_t size = 0;
    std::size_t capacity = 0;
    std::uint32_t value_bytes = 1;
    std::uint64_t row_bytes = 1;
    std::int64_t min = 0;
    std::int64_t max = 0;
    const LateRows* late = nullptr;  // nullptr: rows are appended
    std::uint64_t late_rows = 0;
  };

  struct Tensor {
    TensorSpec spec;
    std::size_t rows_of =
        kNone;  // kNone, or the first tensor that its splits (or this splits tensor) cut
    std::uint64_t last_split = 0;  // the last value, if this is a splits tensor
    bool out_of_bounds = false;
    std::int64_t bad_value = 0;  // the first value that was out of bounds
  };

  static constexpr std::size_t kNone = ~std::size_t{0};

  BatchWriter(std::vector<Tensor> tensors, std::vector<EdgeGroup> edges, ExpandSpec expand,
              BufferPool& pool);
  void AppendValue(std::size_t tensor, std::int64_t value) {
    Column& column = columns_[tensor];
    // On a little-endian machine the narrowed value is the first bytes of the wide one.
    std::memcpy(column.Extend(column.value_bytes), &value, sizeof value);
    if ((value < column.min) | (value > column.max)) [[unlikely]] {
      NoteOutside(tensor, static_cast<std::uint64_t>(value));
    }
  }
  [[gnu::cold]] void NoteOutside(std::size_t tensor, std::uint64_t value);
  /// The values of the next `count` examples; empty if there are no values.
  std::vector<std::uint64_t> OfNext(const std::vector<std::uint64_t>& values,
                                    std::size_t count) const;
  /// Ends a row of the splits of examples, or of the graph of a merged batch.
  void EndRows(bool of_graphs);
  /// Whether all tensors with the splits of tensor `with` have as many rows.
  bool RowsAgree(std::size_t with) const;
  void AppendSplit(std::size_t splits, std::uint64_t rows);
  std::vector<TensorPlace> Places() const;

  std::vector<Tensor> tensors_;
  std::vector<Column> columns_;
  std::vector<std::size_t> splits_;  // the numbers of the splits tensors
  std::vector<EdgeGroup> edges_;
  BufferPool* pool_;
  BatchInfo info_;
  std::vector<std::uint64_t> passes_;  // empty: all are info_.epoch
  std::vector<std::uint64_t> chunks_;  // empty: no chunks
};

}  // namespace millrace
