// The dispatcher's end of one stream. Incoming messages wait here for the event loop. An outgoing
// message waits here until the message before it is written. The number of waiting messages is
// bounded, because a later report or heartbeat replaces one that still waits.
//
// Thread-safe. The event loop calls Take, Send and Close; the network calls the rest.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/access/identity.h"
#include "common/system/mutex.h"
#include "common/transport/stream.h"
#include "server/dispatcher/machine/actions.h"

namespace millrace {

/// Merges `later` into `waiting`, which came before it. False if both messages are needed.
bool Coalesce(v1::AttachRequest& waiting, v1::AttachRequest& later);
bool Coalesce(v1::WorkRequest& waiting, v1::WorkRequest& later);

/// Merges `later` into `waiting`, which would go out before it. The waiting message stays bounded.
void CoalesceOut(v1::AttachResponse& waiting, v1::AttachResponse&& later);
void CoalesceOut(v1::WorkResponse& waiting, v1::WorkResponse&& later);

template <class In, class Out>
class ServerStream final : public StreamHandler<In> {
 public:
  /// The most messages that may wait if they cannot be merged. A peer that sends more is cut off.
  static constexpr std::size_t kMostWaiting = 16;

  /// The messages that came in since the last Take, and the stream's state.
  struct Inbound {
    std::deque<In> messages;
    bool closed = false;   // the stream has ended after the messages
    bool flooded = false;  // too many messages waited; later ones are dropped
  };

  /// Both functions are called on the network's threads. `notify` is called when there is something
  /// to Take, and then not again until it is taken. `on_trace` is called at once with the spans
  /// that came with a message.
  ServerStream(StreamId id, std::shared_ptr<Stream<Out>> stream, std::function<void()> notify,
               std::function<void(v1::TraceReport)> on_trace = nullptr, Identity peer = {})
      : id_(id),
        peer_(std::move(peer)),
        stream_(std::move(stream)),
        notify_(std::move(notify)),
        on_trace_(std::move(on_trace)) {}

  StreamId id() const { return id_; }
  const Identity& peer() const { return peer_; }

  void OnMessage(In message) override {
    if (message.has_trace()) {
      if (on_trace_) on_trace_(std::move(*message.mutable_trace()));
      message.clear_trace();
    }
    {
      MutexLock lock(mutex_);
      if (inbound_.closed || inbound_.flooded) return;
      if (!inbound_.messages.empty() && Coalesce(inbound_.messages.back(), message)) return;
      if (inbound_.messages.size() >= kMostWaiting) {
        inbound_.flooded = true;
      } else {
        inbound_.messages.push_back(std::move(message));
      }
    }
    Notify();
  }

  void OnWriteDone() override {
    std::optional<Out> next;
    std::shared_ptr<Stream<Out>> stream;
    {
      MutexLock lock(mutex_);
      next = std::exchange(waiting_, std::nullopt);
      writing_ = next.has_value() && stream_ != nullptr;
      stream = stream_;
    }
    if (next && stream) stream->Write(*std::move(next));
  }

  void OnClosed(const Status&) override {
    std::shared_ptr<Stream<Out>> stream;  // dropped outside the lock
    {
      MutexLock lock(mutex_);
      inbound_.closed = true;
      stream = std::exchange(stream_, nullptr);
      waiting_.reset();
    }
    Notify();
  }

  Inbound Take() {
    MutexLock lock(mutex_);
    notified_ = false;
    Inbound taken = std::move(inbound_);
    inbound_ = {{}, taken.closed, taken.flooded};
    return taken;
  }

  void Send(Out message) {
    std::shared_ptr<Stream<Out>> stream;
    {
      MutexLock lock(mutex_);
      if (stream_ == nullptr) return;
      if (writing_) {
        if (waiting_) {
          CoalesceOut(*waiting_, std::move(message));
        } else {
          waiting_ = std::move(message);
        }
        return;
      }
      writing_ = true;
      stream = stream_;
    }
    stream->Write(std::move(message));
  }

  /// Closes the stream. A message that still waits to be written is dropped.
  void Close(const Status& status) {
    std::shared_ptr<Stream<Out>> stream;
    {
      MutexLock lock(mutex_);
      waiting_.reset();
      stream = stream_;
    }
    if (stream) stream->Close(status);
  }

 private:
  void Notify() {
    {
      MutexLock lock(mutex_);
      if (std::exchange(notified_, true)) return;
    }
    notify_();
  }

  const StreamId id_;
  const Identity peer_;
  Mutex mutex_;
  std::shared_ptr<Stream<Out>> stream_ MILLRACE_GUARDED_BY(mutex_);  // null after OnClosed
  Inbound inbound_ MILLRACE_GUARDED_BY(mutex_);
  bool notified_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool writing_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::optional<Out> waiting_ MILLRACE_GUARDED_BY(mutex_);
  const std::function<void()> notify_;
  const std::function<void(v1::TraceReport)> on_trace_;
};

using AttachStream = ServerStream<v1::AttachRequest, v1::AttachResponse>;
using WorkStream = ServerStream<v1::WorkRequest, v1::WorkResponse>;

}  // namespace millrace
