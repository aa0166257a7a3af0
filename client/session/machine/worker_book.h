// The workers of one consumer, as it judges them: its list of members, which of them failed and for
// how long that counts, their reports about themselves, and the last want lists.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/session/machine/credit_limit.h"
#include "client/session/machine/session_actions.h"
#include "client/session/machine/worker_address.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/epoch/position.h"

namespace millrace::client {

/// A worker's report about itself, on the present stream.
struct WorkerWord {
  struct Build {
    std::uint64_t step = 0;
    Time since;
    std::string stage;  // empty: unknown
  };

  std::uint64_t slots = 0;           // steps that may be asked and not built; 0: it drains
  double batch_seconds = 0;          // of one thread, for a batch; 0: it has built no batch yet
  double threads = 1;                // that it has for this consumer; above 0
  double split = 1;                  // threads that make one batch together, at least 1
  std::optional<Time> turn;          // when it can begin to build here, if it builds for other jobs
  std::uint32_t batches_before = 0;  // that it has to begin, for all consumers
  std::vector<Build> building;       // for this consumer
  std::set<std::uint64_t> twins;     // steps that it has, or builds, for other consumers
};

/// One worker. `stream` has the facts of the present stream; they begin anew with each stream.
struct WorkerLink {
  WorkerAddress where;

  Time used;                         // when it last had a stream, or became known
  std::optional<std::size_t> place;  // in the list; unset: it is no member
  Time failing_until;                // before this time no stream is opened
  int failures = 0;                  // in a row, without a good batch between them
  std::string reason;                // of the last failure
  bool drains = false;
  bool chosen = false;  // a stream to it is wanted, as long as it is a member

  /// A batch that this worker can never deliver: the worker said so, or the batch that it sends
  /// cannot be accepted.
  struct Refusal {
    StatusCode code = StatusCode::kOk;
    std::string reason;
    std::uint64_t until = 0;  // the refusal counts until the loop has reached this step
  };
  std::optional<Refusal> refusal;
  /// Steps that the code of a user failed to build at this worker, twice, each with the reason.
  /// WorkerBook::Tried adds them. Other workers may be able to build them, and this one can build
  /// other steps.
  std::map<std::uint64_t, std::string> tried;

  struct StreamFacts {
    StreamId id = 0;
    std::optional<WorkerWord> word;  // unset until the worker has spoken
    bool writing = false;
    bool going_away = false;
    Time heard;                         // when its last byte came, or it began to owe something
    double round_trip = 0;              // seconds, as measured
    Duration lag{0};                    // how far its oldest step is past due
    std::uint64_t credit = 0;           // bytes granted so far; it never decreases
    std::uint64_t used = 0;             // bytes of the credit that are used, as the worker says
    std::optional<Position> receiving;  // the batch under way
    std::uint64_t receiving_bytes = 0;  // size of the batch under way
    bool receiving_wanted = false;      // decided at its first fragment
    std::uint64_t received = 0;         // batches that have come whole, as the worker counts them
    bool mostly_python = false;         // whether plugins took most of the time of the last batch
    Time told;                          // when the last want list was sent
    bool owes = false;                  // the last want list asked for something
    std::uint64_t told_next = 0;        // the loop's next step in the last want list
    std::uint64_t told_until = 0;       // the end of the steps to be sent, in the last want list
    Time telling_since;                 // since when it owes something and gets repeated lists
    bool stale = true;                  // its last want list is no longer right
    bool urgent = true;                 // ... and somebody may wait for a new one
    double wanted_bytes = 0;  // for which it is to have credit, of the steps examined so far
    Time unused_since;        // since when nothing is asked of it

    bool spoke() const { return word.has_value(); }
    /// Whether something is expected of it: batches, or that it takes the want list under way.
    bool waits_for_it() const { return owes || writing; }
  } stream;

  CreditLimit credit_limit;

  /// How many bytes may be on their way.
  std::uint64_t credit_left() const { return stream.credit - std::min(stream.credit, stream.used); }
  /// Whether steps may be asked of it once it has spoken.
  bool usable(Time now) const { return !drains && !refusal && failing_until <= now; }
  /// The worker's last batch was bad, or did not come. It is asked for one step until that is here.
  bool on_trial() const { return failures > 0; }
};

class WorkerBook {
 public:
  static constexpr Duration kForgetUnused = std::chrono::minutes(10);

  using Map = std::map<WorkerId, WorkerLink>;

  /// Replaces the list. Workers that it does not name are no longer members.
  void SetList(const std::vector<WorkerAddress>& list);
  /// The members, in the order of the list.
  const std::vector<WorkerLink*>& members() const { return members_; }
  /// Workers that have a stream, whether they are members or not.
  const std::vector<WorkerLink*>& open() const { return open_; }
  /// Members that have a stream, in the order of the list.
  const std::vector<WorkerLink*>& connected() const { return connected_; }
  WorkerLink* Find(WorkerId worker);
  const WorkerLink* Find(WorkerId worker) const;
  WorkerLink* FindStream(StreamId stream);
  Map& all() { return links_; }
  const Map& all() const { return links_; }

  void Opened(WorkerLink& link, StreamId stream, Time now);
  /// Forgets the stream.
  void Closed(WorkerLink& link);
  /// The worker counts as failing: for 0.5 s at first, then 1, 2, 4, and 5 s after each further
  /// failure in a row.
  void Failed(WorkerLink& link, std::string reason, Time now);
  /// A good batch came from the worker, so it no longer counts as failing.
  void Proved(WorkerLink& link);
  /// Forgets workers that are no members, have had no stream for a while, and have refused no step
  /// that is lacking. A worker that is restarted has a new number.
  void ForgetDead(Time now);
  /// The worker can never deliver the step `until` - 1, or one before it. Good batches of other
  /// steps do not change that.
  void Refused(WorkerLink& link, const Status& why, std::uint64_t until);
  /// The code of a user failed to build the step at this worker, twice.
  void Tried(WorkerLink& link, std::uint64_t step, const std::string& why);
  /// How many workers have tried a step whose building fails with the code of a user.
  std::size_t TriedBy(std::uint64_t step) const;
  /// The last want lists are no longer right. `urgent`: somebody may wait for new ones.
  void MarkStale(bool urgent);
  /// Ends refusals of steps before `next`, since those steps came from other workers.
  void ForgetRefusals(std::uint64_t next);

 private:
  void FindConnected();

  Map links_;
  std::vector<WorkerLink*> members_;
  std::vector<WorkerLink*> open_;
  std::vector<WorkerLink*> connected_;
  std::unordered_map<WorkerId, WorkerLink*> by_number_;  // finds faster than links_
  std::map<StreamId, WorkerId> streams_;
  std::map<std::uint64_t, std::size_t> tried_by_;  // workers that have tried a step
  std::size_t refusals_ = 0;                       // workers that have a refusal
};

}  // namespace millrace::client
