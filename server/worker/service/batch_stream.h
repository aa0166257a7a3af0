// The sending side of one consumer's stream. It cuts a built batch into parts and sends one at a
// time: the next part goes out when the write of the part before it is done.
//
// Not thread-safe. The worker guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "common/transport/stream.h"
#include "server/worker/machine/build_queue.h"
#include "server/worker/service/builder.h"

namespace millrace {

class BatchStream {
 public:
  explicit BatchStream(std::shared_ptr<Stream<OutgoingPart>> stream) : stream_(std::move(stream)) {}

  /// Whether some parts of a batch were written and others were not.
  bool sending() const { return outgoing_.has_value(); }

  // All writes below REQUIRE that no earlier write is outstanding.
  /// Begins to send a batch: writes its first part. REQUIRES: not sending().
  void Send(BuildQueue::Outgoing outgoing);
  /// Writes the next part of the batch that is being sent. REQUIRES: sending().
  void WriteNext();
  /// Writes a part without data. REQUIRES: not sending().
  void WriteControl(v1::BatchPart part);
  void Close(const Status& status) { stream_->Close(status); }

 private:
  const std::shared_ptr<Stream<OutgoingPart>> stream_;
  std::optional<BuildQueue::Outgoing> outgoing_;
  std::uint64_t offset_ = 0;
};

}  // namespace millrace
