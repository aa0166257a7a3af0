// A packed batch that is being put together: a buffer with the header written, and room for each
// tensor of the payload. Its bytes are hashed as they come.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/hash.h"
#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/batch/layout/layout.h"
#include "common/batch/layout/tensor_table.h"

namespace millrace {

class BatchFrame {
 public:
  /// Lays the tensors out, in order. REQUIRES: rows and bytes of each place are set; the tensors
  /// keep the rules of tensor_table.h, and `edges` are their groups. ResourceExhausted if there is
  /// no memory left.
  static Result<BatchFrame> Make(BatchInfo info, std::vector<TensorPlace> places,
                                 std::vector<EdgeGroup> edges, BufferPool& pool);

  /// Room for the values of a tensor, which the caller fills. It begins at a multiple of
  /// kTensorAlignment.
  std::span<std::byte> room(std::size_t tensor);

  /// The first `bytes` of a tensor's room are final, and all tensors before it. Optional: bytes
  /// that are reported early are hashed while they are in the processor's caches.
  void Filled(std::size_t tensor, std::uint64_t bytes);

  /// The batch. Nothing else may be called afterwards. REQUIRES: all tensors are filled.
  std::shared_ptr<const PackedBatch> Finish();

 private:
  BatchFrame() = default;
  void HashUpTo(std::size_t bytes);

  BatchInfo info_;
  std::vector<TensorPlace> places_;
  std::vector<EdgeGroup> edges_;
  std::size_t header_bytes_ = 0;
  Xxh3Stream hash_;
  std::size_t hashed_ = 0;  // bytes of the buffer
  std::shared_ptr<Buffer> buffer_;
};

}  // namespace millrace
