// Puts together the fragments of one stream's batches, one batch after another. Each batch is
// copied once, or decompressed, into the memory where it stays. A batch stays in the worker's
// memory if this process can read it.
//
// Not thread-safe. There is one receiver for each stream.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/session/machine/session_actions.h"
#include "common/base/hash.h"
#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch.h"
#include "common/compression/compression.h"
#include "common/transport/stream.h"

namespace millrace::client {

struct ReceivedBatch {
  Arrival arrival;
  std::shared_ptr<const PackedBatch> batch;
};

class BatchReceiver {
 public:
  /// `token_tensor`: as in the plan's spec.
  explicit BatchReceiver(std::shared_ptr<BufferPool> pool, std::string token_tensor = {})
      : pool_(std::move(pool)), token_tensor_(std::move(token_tensor)) {}

  /// Takes a fragment with data. If it is the last fragment of a wanted batch, returns that batch.
  /// `wanted` counts only at the first fragment of a batch; a batch that is not wanted takes no
  /// memory.
  ///
  /// DataLoss if a fragment does not follow the one before, if compressed data are not the bytes
  /// that the fragment says they are, if the digest of a batch is wrong, or if the bytes are no
  /// batch. OutOfRange if a batch has more than `limit_bytes`. After either error, the rest of the
  /// stream cannot be trusted. ResourceExhausted if there is no memory.
  Result<std::optional<ReceivedBatch>> OnFragment(const IncomingFragment& in, bool wanted,
                                                  std::uint64_t limit_bytes);

 private:
  struct UnderWay {
    Position at;
    std::uint64_t total = 0;
    std::uint64_t received = 0;    // bytes of the batch
    std::uint64_t wire_bytes = 0;  // of these, bytes that came over a network
    Digest128 digest;
    bool wanted = false;
    std::shared_ptr<Buffer> slot;  // null: not wanted, or in place
    // For a batch in place: its bytes, and the owners that keep them there.
    std::span<const std::byte> place;
    std::vector<std::shared_ptr<const void>> owners;
    Xxh3Stream hash;
  };

  Result<UnderWay> Begin(const IncomingFragment& in, bool wanted, std::uint64_t limit_bytes) const;
  /// Fills `to` with the bytes of the batch that a fragment has.
  Status Fill(const IncomingFragment& in, std::span<std::byte> to);
  static Status CheckFollows(const UnderWay& batch, const v1::BatchFragment& fragment);
  Result<std::optional<ReceivedBatch>> Finish(UnderWay batch) const;

  std::shared_ptr<BufferPool> pool_;
  std::string token_tensor_;
  std::optional<UnderWay> under_way_;
  Decompressor decompressor_;
  std::vector<std::byte> gathered_;  // a compressed fragment that came in pieces
};

}  // namespace millrace::client
