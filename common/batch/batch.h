// The two forms of a batch: packed, as workers make it and as it travels, and delivered, as the
// user sees it. docs/batch-layout.md describes the packed bytes.
//
// Both are immutable and thread-safe, and keep their memory alive through an owner.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/layout/layout.h"
#include "common/batch/layout/tensor_table.h"

namespace millrace {

/// Header and payload in one contiguous run of bytes, checked: whatever the bytes were, offsets,
/// shapes and splits of a PackedBatch can be trusted. The values of other tensors cannot: Expand
/// checks those that it uses as numbers of something.
class PackedBatch {
 public:
  /// A view of `bytes`, which `owner` keeps alive and nobody changes. REQUIRES: bytes.data() is at
  /// a multiple of kTensorAlignment. DataLoss with what, where, expected and got, unless `bytes` is
  /// exactly one batch: checksum of the header, table, zeroed padding, and splits that begin with
  /// 0, do not decrease and end with the number of rows they cut. Unimplemented for a format
  /// version that this program does not know.
  static Result<std::shared_ptr<const PackedBatch>> Parse(std::span<const std::byte> bytes,
                                                          std::shared_ptr<const void> owner);
  /// The same of the first `size` bytes of a buffer.
  static Result<std::shared_ptr<const PackedBatch>> Parse(std::shared_ptr<const Buffer> buffer,
                                                          std::size_t size);

  const BatchInfo& info() const { return info_; }
  /// B: the rows of [B] tensors.
  std::size_t graphs() const { return info_.example_ids.size(); }
  const std::vector<TensorPlace>& tensors() const { return tensors_; }
  /// Which tensors are edges that belong together.
  const std::vector<EdgeGroup>& edges() const { return edges_; }
  /// The number of the tensor with this path.
  std::optional<std::size_t> Find(std::string_view path) const;
  /// A tensor's values, little endian, without padding.
  std::span<const std::byte> tensor_bytes(std::size_t tensor) const;
  /// One value, for tools and tests. REQUIRES: it exists. A uint64 beyond int64 wraps.
  std::int64_t ValueAt(std::size_t tensor, std::size_t element) const;

  /// All of it: what travels and what is saved.
  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<const std::byte> header() const { return bytes_.first(header_bytes_); }
  std::span<const std::byte> payload() const { return bytes_.subspan(header_bytes_); }

  /// XXH3-128 of the payload: the hash in logs. Computed at each call.
  Digest128 payload_hash() const;
  /// XXH3-128 of header and payload: what receivers check and copies are compared by. Computed at
  /// each call.
  Digest128 digest() const;

 private:
  friend class BatchWriter;
  PackedBatch(BatchInfo info, std::vector<TensorPlace> tensors, std::vector<EdgeGroup> edges,
              std::size_t header_bytes, std::span<const std::byte> bytes,
              std::shared_ptr<const void> owner)
      : info_(std::move(info)),
        tensors_(std::move(tensors)),
        edges_(std::move(edges)),
        header_bytes_(header_bytes),
        bytes_(bytes),
        owner_(std::move(owner)) {}

  BatchInfo info_;
  std::vector<TensorPlace> tensors_;
  std::vector<EdgeGroup> edges_;
  std::size_t header_bytes_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

/// Saves bytes() as a file, and their digest behind them, complete or not at all: under a temporary
/// name, synced, then renamed.
Status WriteBatchFile(const PackedBatch& batch, const std::string& path);
/// Reads such a file into a buffer of `pool`. DataLoss where the digest is not that of the bytes;
/// files of a batch with nothing behind it are read too.
Result<std::shared_ptr<const PackedBatch>> ReadBatchFile(const std::string& path, BufferPool& pool);

/// Told where a delivered batch of a device is worked on, so that its memory is used again only
/// after that. Thread-safe.
class StreamLedger {
 public:
  virtual ~StreamLedger() = default;
  /// Work that reads the batch has been or will be queued on this stream of the device before the
  /// batch is dropped. Numbers as in DLPack: 1 the default stream, 2 the thread's, else a handle
  /// that is good until then.
  virtual void UsedOn(std::uintptr_t stream) = 0;
};

/// Where delivered tensors lie. Those outside the host's memory cannot be read by the host.
struct TensorMemory {
  enum class Kind : std::uint8_t { kHost = 1, kCuda = 2 };  // as DLPack numbers them
  Kind kind = Kind::kHost;
  int device = 0;                  // which of its kind
  StreamLedger* ledger = nullptr;  // lives as long as the batch's owner; null: nobody needs to know
};

/// One tensor as the user sees it.
struct DeliveredTensor {
  std::string path;  // that of the packed tensor
  TensorKind kind = TensorKind::kDense;
  DType dtype = DType::kInt32;  // int32 or int64; uint8 for string bytes
  std::vector<std::uint64_t> shape;
  std::vector<std::string> dimensions;  // as many as `shape`
  std::string splits;               // path of the tensor that cuts this one; empty: rows are graphs
  const std::byte* data = nullptr;  // at a multiple of kTensorAlignment, row major
  std::uint64_t bytes = 0;          // without padding
  TensorMemory memory;

  /// REQUIRES: the host's memory; T is the type that `dtype` says.
  template <class T>
  std::span<const T> values() const {
    assert(sizeof(T) == DTypeSize(dtype));
    return {reinterpret_cast<const T*>(data), static_cast<std::size_t>(bytes / sizeof(T))};
  }
  /// One value, whatever the dtype, for tools and tests. REQUIRES: it exists, in the host's memory.
  std::int64_t ValueAt(std::size_t element) const;
};

/// What a session hands to the training loop: complete edges, node numbers that count across the
/// batch, one index type. All tensors lie in one aligned run of bytes.
class DeliveredBatch {
 public:
  /// A view of `bytes`, into which the tensors point and which `owner` keeps alive.
  DeliveredBatch(BatchInfo info, std::vector<DeliveredTensor> tensors,
                 std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : info_(std::move(info)),
        tensors_(std::move(tensors)),
        bytes_(bytes),
        owner_(std::move(owner)) {}

  const BatchInfo& info() const { return info_; }
  std::size_t graphs() const { return info_.example_ids.size(); }
  /// In the order of the packed batch.
  const std::vector<DeliveredTensor>& tensors() const { return tensors_; }
  /// The tensor with this path, or nullptr.
  const DeliveredTensor* Find(std::string_view path) const;
  /// All tensors with their zeroed padding.
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Keeps the memory alive, for views that outlive the batch (numpy, DLPack).
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  BatchInfo info_;
  std::vector<DeliveredTensor> tensors_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace millrace
