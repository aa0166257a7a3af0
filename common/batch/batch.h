// The two forms of a batch. The packed form is made by workers and travels over the network. The
// delivered form is the one that the user sees. docs/formats/batch.md describes the packed bytes.
//
// Both are immutable and thread-safe. Each keeps its memory alive through an owner.
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

/// Header and payload in one contiguous run of bytes, checked: offsets, shapes and splits of a
/// PackedBatch can be trusted, whatever the bytes were. The values of other tensors cannot be
/// trusted. Expand checks the node numbers and edge labels that it uses.
class PackedBatch {
 public:
  /// A view of `bytes`. `owner` keeps them alive, and nobody may change them. REQUIRES:
  /// bytes.data() is at a multiple of kTensorAlignment. DataLoss (with what, where, expected and
  /// got) unless `bytes` is exactly one valid batch. Checked are the checksum of the header, the
  /// tensor table, the padding (all zeros), and the splits: they begin with 0, do not decrease, and
  /// end with the number of rows that they cut. Unimplemented for a format version that this
  /// program does not know.
  static Result<std::shared_ptr<const PackedBatch>> Parse(std::span<const std::byte> bytes,
                                                          std::shared_ptr<const void> owner);
  /// The same, for the first `size` bytes of a buffer.
  static Result<std::shared_ptr<const PackedBatch>> Parse(std::shared_ptr<const Buffer> buffer,
                                                          std::size_t size);

  const BatchInfo& info() const { return info_; }
  /// B, the number of examples: the rows of tensors that no splits cut and that do not belong to
  /// graphs.
  std::size_t examples() const { return info_.example_ids.size(); }
  const std::vector<TensorPlace>& tensors() const { return tensors_; }
  /// The groups of tensors that describe the same edges.
  const std::vector<EdgeGroup>& edges() const { return edges_; }
  /// The number of the tensor with this path; empty if there is none.
  std::optional<std::size_t> Find(std::string_view path) const;
  /// A tensor's values, little endian, without padding.
  std::span<const std::byte> tensor_bytes(std::size_t tensor) const;
  /// One value, for tools and tests. A uint64 value beyond int64 wraps. REQUIRES: the tensor has
  /// this element, and its dtype is an integer.
  std::int64_t ValueAt(std::size_t tensor, std::size_t element) const;

  /// The whole batch: the bytes that travel and that are saved.
  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<const std::byte> header() const { return bytes_.first(header_bytes_); }
  std::span<const std::byte> payload() const { return bytes_.subspan(header_bytes_); }

  /// XXH3-128 of the payload, for logs. Computed at each call.
  Digest128 payload_hash() const;
  /// XXH3-128 of header and payload. Receivers check it, and copies of a batch are compared by it.
  /// Stored if the batch was built here, otherwise computed at each call.
  Digest128 digest() const;

 private:
  friend class BatchFrame;
  PackedBatch(BatchInfo info, std::vector<TensorPlace> tensors, std::vector<EdgeGroup> edges,
              std::size_t header_bytes, std::span<const std::byte> bytes,
              std::shared_ptr<const void> owner, std::optional<Digest128> digest)
      : info_(std::move(info)),
        tensors_(std::move(tensors)),
        edges_(std::move(edges)),
        header_bytes_(header_bytes),
        bytes_(bytes),
        owner_(std::move(owner)),
        digest_(digest) {}

  BatchInfo info_;
  std::vector<TensorPlace> tensors_;
  std::vector<EdgeGroup> edges_;
  std::size_t header_bytes_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::optional<Digest128> digest_;
};

/// Saves bytes() and, after them, their digest. The file appears complete or not at all: it is
/// written under a temporary name, synced, and then renamed.
Status WriteBatchFile(const PackedBatch& batch, const std::string& path);
/// Reads such a file into a buffer of `pool`. DataLoss if the digest does not match the bytes.
/// Files that hold only a batch, without a digest after it, are read too.
Result<std::shared_ptr<const PackedBatch>> ReadBatchFile(const std::string& path, BufferPool& pool);

/// Tracks on which streams of a device a delivered batch is used, so that its memory is used again
/// only after that work. Thread-safe.
class StreamLedger {
 public:
  virtual ~StreamLedger() = default;
  /// Notes that work on this stream of the device reads the batch. The work has been queued
  /// already, or will be before the batch is dropped. Stream numbers are DLPack's: 1 is the default
  /// stream, 2 the thread's stream, and any other number is a handle that stays valid until then.
  virtual void UsedOn(std::uintptr_t stream) = 0;
};

/// Where delivered tensors are. The host cannot read tensors outside its own memory.
struct TensorMemory {
  enum class Kind : std::uint8_t { kHost = 1, kCuda = 2 };  // as DLPack numbers them
  Kind kind = Kind::kHost;
  int device = 0;  // number of the device among those of its kind
  StreamLedger* ledger =
      nullptr;  // lives as long as the batch's owner; null: nobody has to be notified
};

/// One tensor as the user sees it.
struct DeliveredTensor {
  std::string path;  // of the packed tensor, or of the computed one
  TensorKind kind = TensorKind::kDense;
  DType dtype = DType::kInt32;          // the index type, or the packed type if expansion keeps it
  std::vector<std::uint64_t> shape;     // rows, then the inner extents
  std::vector<std::string> dimensions;  // as many as `shape`; inner extents are named by their size
  std::string splits;       // path of the tensor that cuts this one; empty: each row is one graph
  std::string node_splits;  // path of the splits that number the nodes that the values name, if any
  const std::byte* data = nullptr;  // at a multiple of kTensorAlignment, row major
  std::uint64_t bytes = 0;          // without padding
  TensorMemory memory;

  /// REQUIRES: the tensor is in the host's memory, and T is the type that `dtype` names.
  template <class T>
  std::span<const T> values() const {
    assert(sizeof(T) == DTypeSize(dtype));
    return {reinterpret_cast<const T*>(data), static_cast<std::size_t>(bytes / sizeof(T))};
  }
  /// One value, for tools and tests. REQUIRES: the tensor has this element, is in the host's
  /// memory, and its dtype is an integer.
  std::int64_t ValueAt(std::size_t element) const;
};

/// The batch that a session gives to the training loop: complete edges, node numbers that count
/// across the batch, and one index type. All tensors are in one aligned run of bytes.
class DeliveredBatch {
 public:
  /// A view of `bytes`. The tensors point into these bytes, and `owner` keeps them alive.
  DeliveredBatch(BatchInfo info, std::vector<DeliveredTensor> tensors,
                 std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : info_(std::move(info)),
        tensors_(std::move(tensors)),
        bytes_(bytes),
        owner_(std::move(owner)) {}

  const BatchInfo& info() const { return info_; }
  /// The number of examples. Tensors have more rows if graphs are padded.
  std::size_t examples() const { return info_.example_ids.size(); }
  /// In the order of the source, then the computed ones by name (common/expand/delivery.h).
  const std::vector<DeliveredTensor>& tensors() const { return tensors_; }
  /// The tensor with this path, or nullptr.
  const DeliveredTensor* Find(std::string_view path) const;
  /// All tensors, with the zeros that pad them.
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
