// The sending side of one consumer's stream: cuts a built batch into parts, one outstanding at a
// time.
//
// Not thread-safe: the worker guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/transport/stream.h"
#include "server/worker/build_queue.h"
#include "server/worker/builder.h"

namespace millrace {

class BatchStream {
 public:
  BatchStream(std::shared_ptr<Stream<OutgoingPart>> stream, std::string peer)
      : stream_(std::move(stream)), peer_(std::move(peer)) {}

  const std::string& peer() const { return peer_; }
  /// Whether a part may be written now.
  bool idle() const { return !writing_; }
  /// Whether a batch is half-way out.
  bool sending() const { return outgoing_.has_value(); }

  /// Starts on a batch. REQUIRES: idle() and not sending().
  void Send(BuildQueue::Outgoing outgoing);
  /// Writes the next part of the batch under way. REQUIRES: idle() and sending().
  void WriteNext();
  /// Writes a part without data. REQUIRES: idle() and not sending().
  void WriteControl(v1::BatchPart part);
  void OnWriteDone(Time now);
  void Close(const Status& status) { stream_->Close(status); }

  /// Data bytes written so far.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  Time last_write() const { return last_write_; }

 private:
  const std::shared_ptr<Stream<OutgoingPart>> stream_;
  const std::string peer_;
  std::optional<BuildQueue::Outgoing> outgoing_;
  std::uint64_t offset_ = 0;
  bool writing_ = false;
  std::uint64_t bytes_sent_ = 0;
  Time last_write_;
};

}  // namespace millrace
