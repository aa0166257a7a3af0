// The part of a worker or consumer in a trace. It records when the dispatcher asks for it, and
// sends the recorded spans with messages that it sends anyway. docs/internals/protocol.md,
// "Traces".
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "common/base/ids.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"
#include "common/system/trace.h"
#include "millrace/v1/trace.pb.h"

namespace millrace {

/// Thread-safe. While no trace is taken, each call costs one relaxed load.
class TracePeer {
 public:
  /// The most spans in one message; 1.2 MB.
  static constexpr std::size_t kMostInMessage = 16'384;

  /// `name` is for people: host:pid. `host_id` is equal for processes that share a clock.
  TracePeer(const std::shared_ptr<const Clock>& clock, std::string name, std::string host_id)
      : clock_(clock), name_(std::move(name)), host_id_(std::move(host_id)), tracer_(clock) {}

  Tracer& tracer() { return tracer_; }

  /// Begins to record if the dispatcher's message asks for it. Returns whether it asks.
  template <class Message>
  bool Obey(const Message& message) {
    if (message.has_trace()) OnAsk(message.trace());
    return message.has_trace();
  }
  /// Adds the spans recorded since the last call to `message`, which goes to the dispatcher. `id`
  /// is the number of the sender, a session or a worker.
  template <class Message>
  void AddTo(Message& message, Number id) {
    if (asked_.load(std::memory_order_relaxed)) Fill(id, *message.mutable_trace());
  }

 private:
  void OnAsk(const v1::TraceAsk& ask);
  void Fill(Number id, v1::TraceReport& report);

  const std::shared_ptr<const Clock> clock_;
  const std::string name_;
  const std::string host_id_;
  Tracer tracer_;
  std::atomic<bool> asked_{false};  // the trace that was asked for is not done yet
  Mutex mutex_;
  v1::TraceAsk ask_ MILLRACE_GUARDED_BY(mutex_);  // the last request
  Time ask_received_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
