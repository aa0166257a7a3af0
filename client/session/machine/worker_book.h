// The workers of one consumer, as it judges them: who failed and for how long that counts, what
// each stream owes, and what each was told.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "client/session/machine/credit_limit.h"
#include "client/session/machine/lease.h"
#include "client/session/machine/session_actions.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "millrace/v1/worker.pb.h"

namespace millrace::client {

/// One worker. The stream's facts are those of its present stream and begin anew with each.
struct WorkerLink {
  WorkerAddress where;

  Time used;  // when it had a stream last, or became known
  Time failing_until;
  Duration backoff{0};  // of the last failure; 0 after a good batch
  std::string reason;   // of the last failure
  bool drains = false;  // as it said, and the dispatcher has not named it since

  /// A batch that can never come of this worker: it said so, or what it sends cannot be taken.
  struct Refusal {
    StatusCode code = StatusCode::kOk;
    std::string reason;
    std::uint64_t until = 0;  // counts while a step before this one is lacking
  };
  std::optional<Refusal> refusal;

  struct StreamFacts {
    StreamId id = 0;
    bool heard_any = false;
    bool writing = false;
    bool going_away = false;
    Time heard;                         // last byte, or since when it owes something
    std::uint64_t credit = 0;           // bytes granted so far, never less
    std::uint64_t used = 0;             // of them, as the worker says
    std::optional<Position> receiving;  // the batch under way
    std::uint64_t receiving_bytes = 0;  // its size
    bool receiving_wanted = false;      // decided at its first part
    std::optional<Position> building;   // from Alive
    std::string stage;
    std::uint32_t batches_before = 0;
    std::uint64_t owed = 0;       // batches it was told to build and has not sent
    std::uint64_t told_room = 0;  // in the last want list
    Position told_next;
    Time told;           // when it was told last
    Time telling_since;  // it owes something, and so is told at least once a second
    bool stale = true;   // what it was told is no longer all of the truth
    bool urgent = true;  // ... and somebody may wait for that
    Time unused_since;   // no lease lacks anything of it

    /// Whether something has to come of it: batches, or that it takes what it is told.
    bool owes() const { return owed > 0 || writing; }
  } stream;

  CreditLimit credit_limit;

  /// Batches granted now, and bytes that may be on their way.
  std::uint64_t room = 0;
  std::uint64_t credit_left() const { return stream.credit - std::min(stream.credit, stream.used); }
};

class WorkerBook {
 public:
  static constexpr Duration kFirstBackoff = std::chrono::seconds(3);
  static constexpr Duration kLongestBackoff = std::chrono::seconds(60);
  static constexpr Duration kForgetAfter = std::chrono::minutes(10);
  static constexpr Duration kForgetUnused = std::chrono::hours(24);

  using Map = std::map<Number, WorkerLink>;

  /// The worker, known from now on.
  WorkerLink& Learn(const WorkerAddress& worker);
  WorkerLink* Find(Number worker);
  const WorkerLink* Find(Number worker) const;
  WorkerLink* FindStream(StreamId stream);
  Map& all() { return links_; }
  const Map& all() const { return links_; }

  void Opened(WorkerLink& link, StreamId stream, Time now);
  /// Forgets the stream.
  void Closed(WorkerLink& link);
  /// The worker is failing: for 3 s, doubling with each failure in a row to 60 s.
  void Failed(WorkerLink& link, std::string reason, Time now);
  /// A good batch came from it.
  void Proved(WorkerLink& link);
  /// Forgets workers that failed long ago and came to nothing since, those that drain and have no
  /// stream any more, and those without one for a day: each restarted one has a new number.
  void ForgetDead(const std::function<bool(const WorkerLink&)>& is_needed, Time now);
  /// The step `until` - 1, or one before it, can never come of the worker. Good batches of other
  /// steps change nothing about that.
  void Refused(WorkerLink& link, const Status& why, std::uint64_t until);
  /// The worker for a lease that the consumer gives itself: of those that neither drain nor refused
  /// what it lacks, one that does not fail it, of its own host where there is one, with the least
  /// `load`. Where all fail: the one that failed longest ago. nullptr where none is known.
  WorkerLink* ForSelfLease(const std::string& own_host,
                           const std::function<std::uint64_t(Number)>& load, Time now);
  /// What the workers were told is no longer all of the truth. `urgent`: somebody may wait for
  /// that.
  void MarkStale(bool urgent);
  /// Refusals of steps before `next` are over: the steps came of somebody else.
  void ForgetRefusals(std::uint64_t next);

 private:
  Map links_;
  std::map<StreamId, Number> streams_;
};

}  // namespace millrace::client
