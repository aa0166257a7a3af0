// The workers of one consumer, as it judges them: which of them failed and for how long that
// counts, what each one owes, and what each one was told.
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

/// One worker. `stream` has the facts of the present stream; they begin anew with each stream.
struct WorkerLink {
  WorkerAddress where;

  Time used;  // when it last had a stream, or became known
  Time failing_until;
  Duration backoff{0};  // how long the last failure counts; 0 after a good batch
  std::string reason;   // of the last failure
  bool drains = false;  // it said so, and the dispatcher has not named it since

  /// A batch that this worker can never deliver: the worker said so, or the batch that it sends
  /// cannot be accepted.
  struct Refusal {
    StatusCode code = StatusCode::kOk;
    std::string reason;
    std::uint64_t until = 0;  // the refusal counts until the loop has reached this step
  };
  std::optional<Refusal> refusal;
  /// Steps that the code of a user failed to build at this worker, twice, each with the reason.
  /// Other workers may be able to build them, and this one can build other steps.
  std::map<std::uint64_t, std::string> tried;

  struct StreamFacts {
    StreamId id = 0;
    bool heard_any = false;
    bool writing = false;
    bool going_away = false;
    Time heard;                         // when its last byte came, or it began to owe something
    std::uint64_t credit = 0;           // bytes granted so far; it never decreases
    std::uint64_t used = 0;             // bytes of the credit that are used, as the worker says
    std::optional<Position> receiving;  // the batch under way
    std::uint64_t receiving_bytes = 0;  // size of the batch under way
    bool receiving_wanted = false;      // decided at its first part
    std::uint64_t received = 0;         // batches that have come whole, as the worker counts them
    std::optional<Position> building;   // the batch that it builds, from Alive
    std::string stage;
    std::uint32_t batches_before = 0;
    bool mostly_python = false;   // of the batch that came last
    std::uint64_t owed = 0;       // batches it was told to build and has not sent
    std::uint64_t told_room = 0;  // room in the last want list
    Position told_next;
    Time told;           // when the last want list was sent
    Time telling_since;  // since when it owes something, and is told every second
    bool stale = true;   // its last want list is no longer right
    bool urgent = true;  // ... and somebody may wait for a new one
    Time unused_since;   // since when no lease expects anything from it

    /// Whether the worker owes something: batches, or that it takes the want list under way.
    bool owes() const { return owed > 0 || writing; }
  } stream;

  CreditLimit credit_limit;

  /// `room` is the number of batches granted now. credit_left() is the number of bytes that may be
  /// on their way.
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

  /// Returns the worker, which is known from now on, with this address. It no longer counts as
  /// draining.
  WorkerLink& Learn(const WorkerAddress& worker);
  WorkerLink* Find(Number worker);
  const WorkerLink* Find(Number worker) const;
  WorkerLink* FindStream(StreamId stream);
  Map& all() { return links_; }
  const Map& all() const { return links_; }

  void Opened(WorkerLink& link, StreamId stream, Time now);
  /// Forgets the stream.
  void Closed(WorkerLink& link);
  /// The worker counts as failing: for 3 s at first, and for twice as long after each failure in a
  /// row, up to 60 s.
  void Failed(WorkerLink& link, std::string reason, Time now);
  /// A good batch came from the worker, so it no longer counts as failing.
  void Proved(WorkerLink& link);
  /// Forgets a worker that has no stream in three cases: it failed long ago and has sent nothing
  /// good since, it drains, or it has had no stream for a day. A worker for which `is_needed` is
  /// true stays, and so does one that has tried a lacking step. A worker that is restarted has a
  /// new number.
  void ForgetDead(const std::function<bool(const WorkerLink&)>& is_needed, Time now);
  /// The worker can never deliver the step `until` - 1, or one before it. Good batches of other
  /// steps do not change that.
  void Refused(WorkerLink& link, const Status& why, std::uint64_t until);
  /// How many workers have tried a step whose building fails with the code of a user.
  std::size_t TriedBy(std::uint64_t step) const;
  /// The worker for a lease that the consumer gives itself, from `step` on. Workers that drain,
  /// that have refused a lacking batch, or that have tried this step, are left out. Workers that
  /// are not failing come first; among them, those of the own host, and then those with the least
  /// `load`. If all are failing, it is the one whose time of failing ends first. nullptr if no
  /// worker is left.
  WorkerLink* ForSelfLease(std::uint64_t step, const std::string& own_host,
                           const std::function<std::uint64_t(Number)>& load, Time now);
  /// The last want lists are no longer right. `urgent`: somebody may wait for new ones.
  void MarkStale(bool urgent);
  /// Ends refusals of steps before `next`, since those steps came from other workers.
  void ForgetRefusals(std::uint64_t next);

 private:
  Map links_;
  std::map<StreamId, Number> streams_;
};

}  // namespace millrace::client
