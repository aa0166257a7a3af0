// The sending side of one consumer's stream: cuts a built batch into parts, one outstanding at a
// time.
//
// Not thread-safe: the worker guards it.
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

  /// Whether a batch is half-way out.
  bool sending() const { return outgoing_.has_value(); }

  // REQUIRES of all writes: none is outstanding.
  /// Starts on a batch. REQUIRES: not sending().
  void Send(BuildQueue::Outgoing outgoing);
  /// Writes the next part of the batch under way. REQUIRES: sending().
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
