// Takes traces. It asks workers and consumers to record spans, and passes these on to the reader
// that asked for the trace. It keeps nothing. See docs/internals/protocol.md, "Traces".
//
// Thread-safe. It does not touch the dispatcher's state machine. The adapter of that machine calls
// Tick and sends the asks.
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
  /// How long to wait, after a trace's end, for spans that peers still have to send.
  static constexpr Duration kLateness = std::chrono::seconds(2);

  /// `name` and `host_id` are the dispatcher's own.
  TraceCollector(std::shared_ptr<const Clock> clock, std::string name, std::string host_id);

  /// Takes the stream of a reader, who is expected to send one request.
  std::shared_ptr<StreamHandler<v1::TraceRequest>> Accept(
      std::shared_ptr<Stream<v1::TraceChunk>> stream);

  /// Passes new spans on. To be called regularly. `peers` is the number of streams of workers and
  /// consumers. While a trace is being taken or ended, it returns an ask that has to go out on all
  /// of them. Otherwise it returns nullopt, at the cost of one relaxed load.
  std::optional<v1::TraceAsk> Tick(const DispatcherFacts& facts, std::size_t peers);

  /// Takes a peer's report of spans, which came just now. Ignored if it is not for the trace that
  /// is being taken.
  void OnReport(v1::TraceRole role, v1::TraceReport report);

  /// Ends a trace at once.
  void Stop(const Status& why);

 private:
  class Reader;
  /// A worker or a session, with its number.
  using PeerKey = std::pair<v1::TraceRole, Number>;
  struct Peer {
    ClockOffset clock;
    bool done = false;
    std::uint64_t not_passed_on = 0;  // spans that were lost because the reader was too slow
  };
  struct Trace {
    std::uint64_t number = 0;
    std::shared_ptr<Stream<v1::TraceChunk>> reader;  // null if it is gone
    std::uint64_t reader_id = 0;
    bool writing = false;
    std::deque<v1::TraceChunk> waiting;
    Time began;
    Time until;
    std::map<PeerKey, Peer> peers;
    std::set<std::pair<SessionId, bool>> told;  // sessions; true if with their steps
  };

  void OnRequest(std::uint64_t reader, const std::shared_ptr<Stream<v1::TraceChunk>>& stream,
                 const v1::TraceRequest& request);
  void OnWritten(std::uint64_t reader);
  void OnGone(std::uint64_t reader);
  void PassOn(v1::TraceChunk chunk) MILLRACE_REQUIRES(mutex_);
  void WriteNext() MILLRACE_REQUIRES(mutex_);
  void TellSessions(const DispatcherFacts& facts) MILLRACE_REQUIRES(mutex_);
  void End(const Status& status) MILLRACE_REQUIRES(mutex_);

  const std::shared_ptr<const Clock> clock_;
  const std::string name_;
  const std::string host_id_;
  std::atomic<bool> active_{false};
  std::atomic<std::uint64_t> last_reader_{0};
  Mutex mutex_;
  std::unique_ptr<Trace> trace_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t last_trace_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace
