// Takes traces: asks workers and consumers to record, and passes what they send on to whoever asked
// for the trace. It keeps nothing. docs/protocol.md, "Traces".
//
// Thread-safe. Nothing of it touches the dispatcher's state machine, whose adapter calls Tick and
// sends the asks.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/base/ids.h"
#include "common/system/clock.h"
#include "common/system/mutex.h"
#include "common/system/trace.h"
#include "common/transport/stream.h"
#include "server/dispatcher/machine/dispatcher_facts.h"
#include "server/dispatcher/service/clock_offset.h"

namespace millrace {

class TraceCollector final : public std::enable_shared_from_this<TraceCollector> {
 public:
  static constexpr std::uint32_t kMostSeconds = 600;
  /// How long to wait for what peers still have to send after the end.
  static constexpr Duration kLateness = std::chrono::seconds(2);

  /// `name` and `host_id` are the dispatcher's own.
  TraceCollector(std::shared_ptr<const Clock> clock, std::string name, std::string host_id);

  /// The dispatcher's own spans.
  Tracer& tracer() { return tracer_; }

  /// Somebody's stream: one request is expected of it.
  std::shared_ptr<StreamHandler<v1::TraceRequest>> Accept(
      std::shared_ptr<Stream<v1::TraceChunk>> stream);

  /// Passes on what is new; regularly. An ask for all `peers` streams, where a trace is being taken
  /// or ended; none, at the cost of one relaxed load, where not.
  std::optional<v1::TraceAsk> Tick(const DispatcherFacts& facts, std::size_t peers);

  /// A peer's report of spans, which came now. Ignored where it is of no trace that is being taken.
  void OnReport(v1::TraceRole role, v1::TraceReport report);

  /// Ends a trace at once.
  void Stop(const Status& why);

 private:
  class Reader;
  using PeerKey = std::pair<v1::TraceRole, Number>;
  struct Peer {
    ClockOffset clock;
    bool done = false;
    std::uint64_t not_passed_on = 0;  // spans, since the reader was too slow
  };
  struct Trace {
    std::uint64_t number = 0;
    std::shared_ptr<Stream<v1::TraceChunk>> reader;  // null: it has gone
    std::uint64_t reader_id = 0;
    bool writing = false;
    std::deque<v1::TraceChunk> waiting;
    Time began;
    Time until;
    std::map<PeerKey, Peer> peers;
    std::set<std::pair<Number, bool>> told;  // sessions; whether with their steps
  };

  void OnRequest(std::uint64_t reader, const std::shared_ptr<Stream<v1::TraceChunk>>& stream,
                 const v1::TraceRequest& request);
  void OnWritten(std::uint64_t reader);
  void OnGone(std::uint64_t reader);
  void PassOn(v1::TraceChunk chunk) MILLRACE_REQUIRES(mutex_);
  void WriteNext() MILLRACE_REQUIRES(mutex_);
  void TellSessions(const DispatcherFacts& facts) MILLRACE_REQUIRES(mutex_);
  void PassOnOwn() MILLRACE_REQUIRES(mutex_);
  void End(const Status& status) MILLRACE_REQUIRES(mutex_);

  const std::shared_ptr<const Clock> clock_;
  const std::string name_;
  const std::string host_id_;
  Tracer tracer_;
  std::atomic<bool> active_{false};
  std::atomic<std::uint64_t> last_reader_{0};
  Mutex mutex_;
  std::unique_ptr<Trace> trace_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t last_trace_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace
