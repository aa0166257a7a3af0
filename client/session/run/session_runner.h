// Runs a session's state machine: its streams, its clock, and the loop that waits for batches.
//
// One mutex guards the machine. The thread that brings an event also performs the actions that
// follow from it, in the machine's order. Only opening and dropping streams is left to the
// session's own thread. That thread does it without the mutex, since the network may call back from
// there.
//
// The network's threads gather and hash the fragments of batches without the mutex. The
// prefetcher's thread expands batches. A loop that waits for a batch expands it itself.
//
// Thread-safe. The network may still hold handlers after Shutdown; they do nothing then.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/session.h"
#include "client/session/machine/session_machine.h"
#include "client/session/run/batch_rep.h"
#include "client/session/run/prefetcher.h"
#include "common/base/log.h"
#include "common/base/tables.h"
#include "common/batch/arena.h"
#include "common/system/mutex.h"
#include "common/transport/stream.h"
#include "common/transport/trace_peer.h"

namespace millrace {

class SessionRunner : public std::enable_shared_from_this<SessionRunner> {
 public:
  SessionRunner(const SessionOptions& options, const SessionEnvironment& environment,
                client::SessionMachineOptions machine_options);

  void Start() MILLRACE_EXCLUDES(mutex_);
  /// Says good-bye and stops all threads. Afterwards only handlers may call anything.
  void Shutdown() MILLRACE_EXCLUDES(mutex_);

  Status Attach(const Interrupt& interrupt) MILLRACE_EXCLUDES(mutex_);
  Result<std::optional<Batch>> Next(const Interrupt& interrupt) MILLRACE_EXCLUDES(mutex_);
  Result<bool> NextEpoch() MILLRACE_EXCLUDES(mutex_);
  void Cancel() MILLRACE_EXCLUDES(mutex_);

  /// REQUIRES: attached. The spec does not change from then on.
  const BatchSpec& spec() const { return spec_; }
  std::uint64_t epoch() MILLRACE_EXCLUDES(mutex_);
  Position position() MILLRACE_EXCLUDES(mutex_);
  SessionStats stats() MILLRACE_EXCLUDES(mutex_);
  std::string waiting_why() MILLRACE_EXCLUDES(mutex_);
  Result<std::shared_ptr<const NamedTables>> Tables(const Interrupt& interrupt)
      MILLRACE_EXCLUDES(mutex_);

 private:
  using WallTime = std::chrono::steady_clock::time_point;
  class AttachHandler;
  class BatchesHandler;
  /// Counts the batches in the loop's hands, without the session's mutex.
  struct HoldCount {
    std::atomic<std::uint64_t> batches{0};
    std::weak_ptr<SessionRunner> runner;
  };
  /// A stream that was just opened. One of the two pointers is set.
  struct Opened {
    client::StreamId id = 0;
    std::shared_ptr<Stream<v1::AttachRequest>> attach;
    std::shared_ptr<Stream<v1::WantList>> batches;
  };

  void Run() MILLRACE_EXCLUDES(mutex_);
  /// Fetches the serialized static tables from a worker. A thread of its own fetches them, so that
  /// an interrupt can end the wait.
  Result<std::string> FetchStatic(const std::string& address, const std::string& fingerprint,
                                  const std::string& digest, const Interrupt& interrupt)
      MILLRACE_EXCLUDES(mutex_);
  void AfterEvent() MILLRACE_REQUIRES(mutex_);
  void PerformActions() MILLRACE_REQUIRES(mutex_);
  void Perform(client::Action action) MILLRACE_REQUIRES(mutex_);
  Opened Open(const client::Action& action) MILLRACE_EXCLUDES(mutex_);
  void OnStreamClosed(client::StreamId stream) MILLRACE_REQUIRES(mutex_);
  void OnLoopHolds() MILLRACE_EXCLUDES(mutex_);
  bool AtEndOfEpoch() const MILLRACE_REQUIRES(mutex_);
  /// Waits until something may have happened. Returns true if the caller should now ask
  /// `interrupt`, without the mutex, whether the wait ends. `asked` is the time of the last
  /// question.
  bool WaitUntilAskDue(const Interrupt& interrupt, WallTime* asked) MILLRACE_REQUIRES(mutex_);
  void Push(std::uint64_t step, std::shared_ptr<const PackedBatch> batch) MILLRACE_REQUIRES(mutex_);
  Batch MakeBatch(std::uint64_t step, client::ExpandedBatch expanded) MILLRACE_REQUIRES(mutex_);
  Time Now() const { return clock_->Now(); }

  // These record spans for a trace (session_trace.cc). While no trace is taken, they cost no more
  // than a load of `on`.
  Span SpanOf(SpanKind kind, std::uint64_t step) const MILLRACE_REQUIRES(mutex_);
  void RecordTaken(std::uint64_t step, const client::ExpandedBatch& expanded, Time began)
      MILLRACE_REQUIRES(mutex_);
  /// Records the ask that the batch at `at`, which has just come, has answered.
  void RecordAsk(Position at, std::uint64_t bytes) MILLRACE_REQUIRES(mutex_);
  /// Called after each event. Records a span if a wait has ended or its cause has changed.
  void NoteWait() MILLRACE_REQUIRES(mutex_);
  /// Records the wait so far as a span. It is also called at each ask of a trace, so that a long
  /// wait is recorded before it ends.
  void RecordWait() MILLRACE_REQUIRES(mutex_);

  const SessionOptions options_;
  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Connector> connector_;
  const std::shared_ptr<const Clock> clock_;
  const Duration longest_sleep_;
  const std::shared_ptr<BufferPool> pool_;
  const std::shared_ptr<HoldCount> holds_;
  TracePeer trace_;

  Mutex mutex_;
  CondVar loop_;    // for Attach and Next
  CondVar driver_;  // for Run
  client::SessionMachine machine_ MILLRACE_GUARDED_BY(mutex_);
  BatchSpec spec_;  // written once, before `attached_`
  bool attached_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::uint64_t epoch_ MILLRACE_GUARDED_BY(mutex_) = 0;
  bool cancelled_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool loop_asks_ MILLRACE_GUARDED_BY(mutex_) = false;   // the machine knows that it asks
  bool loop_waits_ MILLRACE_GUARDED_BY(mutex_) = false;  // the loop sleeps in Next
  bool stopping_ MILLRACE_GUARDED_BY(mutex_) = false;
  Time sleeping_until_ MILLRACE_GUARDED_BY(mutex_);
  WaitCause noted_cause_ MILLRACE_GUARDED_BY(mutex_) = WaitCause::kNone;
  std::uint64_t noted_step_ MILLRACE_GUARDED_BY(mutex_) = 0;
  Time noted_since_ MILLRACE_GUARDED_BY(mutex_);  // unset: the wait is not being recorded

  std::deque<client::Action> actions_ MILLRACE_GUARDED_BY(mutex_);
  bool opening_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::vector<client::StreamId> closed_while_opening_ MILLRACE_GUARDED_BY(mutex_);
  std::map<client::StreamId, std::shared_ptr<Stream<v1::AttachRequest>>> attach_streams_
      MILLRACE_GUARDED_BY(mutex_);
  std::map<client::StreamId, std::shared_ptr<Stream<v1::WantList>>> batch_streams_
      MILLRACE_GUARDED_BY(mutex_);
  /// Streams to be dropped without the mutex.
  std::vector<std::shared_ptr<void>> dropped_ MILLRACE_GUARDED_BY(mutex_);

  Mutex tables_mutex_;
  std::shared_ptr<const NamedTables> tables_ MILLRACE_GUARDED_BY(tables_mutex_);

  std::unique_ptr<client::Prefetcher> prefetcher_;
  std::thread thread_;
};

}  // namespace millrace
