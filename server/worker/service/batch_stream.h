// The sending side of one consumer's stream. It cuts a built batch into fragments and sends one at
// a time: the next fragment goes out when the previous fragment is written. If the consumer asked
// for it, fragments are compressed, each while the previous fragment is written.
//
// Not thread-safe. The worker guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "common/compression/compression.h"
#include "common/transport/stream.h"
#include "server/worker/machine/build_queue.h"
#include "server/worker/service/builder.h"
#include "server/worker/service/fragment_compressor.h"

namespace millrace {

class BatchStream {
 public:
  /// Compresses bytes, which `owner` keeps alive, and calls OnCompressed later.
  using Compress = std::function<void(Compression, std::span<const std::byte> bytes,
                                      std::shared_ptr<const void> owner)>;

  BatchStream(std::shared_ptr<Stream<OutgoingFragment>> stream, Compress compress)
      : stream_(std::move(stream)), compress_(std::move(compress)) {}

  /// Whether some fragments of a batch were not written yet.
  bool sending() const { return outgoing_.has_value(); }

  // All writes below REQUIRE that no earlier write is outstanding.
  /// Begins to send a batch: writes its first fragment, or has it compressed first. REQUIRES: not
  /// sending().
  void Send(BuildQueue::Outgoing outgoing, Compression compression);
  /// Writes the next fragment of the batch that is being sent, as soon as it is compressed.
  /// REQUIRES: sending().
  void WriteNext();
  /// Takes the fragment that was being compressed, and writes it if no earlier write is
  /// outstanding.
  void OnCompressed(CompressedFragment fragment);
  /// Writes a message without data. REQUIRES: not sending().
  void WriteControl(v1::BatchFragment message);
  void Close(const Status& status);

 private:
  /// The bytes of the next fragment: at most wire::kMaxFragmentBytes.
  std::span<const std::byte> NextBytes() const;
  /// Has the next fragment compressed.
  void CompressNext();
  /// Writes the fragment with the next bytes, compressed or not.
  void Write(CompressedFragment compressed);

  const std::shared_ptr<Stream<OutgoingFragment>> stream_;
  const Compress compress_;
  std::optional<BuildQueue::Outgoing> outgoing_;
  std::uint64_t offset_ = 0;
  // If fragments are compressed:
  Compression compression_ = Compression::kOff;
  bool may_write_ = false;                   // no write is outstanding
  std::optional<CompressedFragment> ready_;  // the next fragment
};

}  // namespace millrace
