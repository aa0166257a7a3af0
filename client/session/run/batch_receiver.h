// Puts the parts of one stream's batches together: one batch after another, each gathered once,
// into the memory where it stays; or left where its worker wrote it, where this process can read
// that.
//
// Not thread-safe: one a stream.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/session/machine/session_actions.h"
#include "common/base/hash.h"
#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/transport/stream.h"

namespace millrace::client {

struct ReceivedBatch {
  Arrival arrival;
  std::shared_ptr<const PackedBatch> batch;
};

class BatchReceiver {
 public:
  explicit BatchReceiver(std::shared_ptr<BufferPool> pool) : pool_(std::move(pool)) {}

  /// Takes a part with data. A batch when it was its last one and it was wanted; `wanted` counts
  /// when it was its first one: memory is spent on no other. DataLoss where parts do not follow
  /// each other, where a batch has another digest than it says, or is no batch, and OutOfRange
  /// where it has more than `limit_bytes`; then nothing that comes after it on this stream can be
  /// trusted. ResourceExhausted without memory.
  Result<std::optional<ReceivedBatch>> OnPart(const IncomingPart& in, bool wanted,
                                              std::uint64_t limit_bytes);

 private:
  struct UnderWay {
    Number lease;
    Position at;
    std::uint64_t total = 0;
    std::uint64_t received = 0;
    Digest128 digest;
    bool wanted = false;
    std::shared_ptr<Buffer> slot;  // null: not wanted, or in place
    // In place: where the batch lies, and what keeps it there.
    std::span<const std::byte> place;
    std::vector<std::shared_ptr<const void>> owners;
    Xxh3Stream hash;
  };

  Result<UnderWay> Begin(const IncomingPart& in, bool wanted, std::uint64_t limit_bytes) const;
  static Status CheckFollows(const UnderWay& batch, const v1::BatchPart& part);
  static Result<std::optional<ReceivedBatch>> Finish(UnderWay batch);

  std::shared_ptr<BufferPool> pool_;
  std::optional<UnderWay> under_way_;
};

}  // namespace millrace::client
