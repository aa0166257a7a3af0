// The things that a dispatcher knows about: plans, sessions, workers, jobs. They are plain data.
// DispatcherFacts holds them, and nothing else changes them.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/epoch/position.h"
#include "common/transport/convert/places.h"
#include "millrace/v1/dispatcher.pb.h"
#include "millrace/v1/journal.pb.h"
#include "server/dispatcher/machine/list_size.h"
#include "server/plan/facts/plan_facts.h"

namespace millrace {

/// The number that the network gives to a stream: from 1, and never used again. 0 means no stream.
using StreamId = std::uint64_t;

/// A plan that sessions have asked for. They ask for it by the text of a pipeline.
struct RequestedPlan {
  /// kLacksColumns: columns that it reads have to be measured first. kAsking: a worker has to
  /// compile it, because this host lacks plugins, or its data are damaged.
  enum class Phase { kCompiling, kReady, kRetrying, kLacksColumns, kAsking };

  std::string key;  // the PlanKey of `pipeline`
  v1::PipelineText pipeline;
  Phase phase = Phase::kCompiling;
  std::shared_ptr<const PlanFacts> facts;  // set if ready
  std::string fingerprint;                 // as text; set if ready
  Status error;                            // of the last try; ok if no try has failed
  Time retry_at;                           // when to try again, if retrying
  Time used;                               // when a session last needed it
  std::string lacks;                       // key of the columns that it lacked at the last try
  std::vector<std::string> plugins;        // as datasets, that this host lacked at the last try
  Status damage;                           // of this host's data at the last try, if workers are
                                           // asked for it; `plugins` then has all named ones
  std::string question;                    // the name under which workers are asked, if asking
  Time asked;                              // when they were asked first under this name
};

/// A compiled plan, fitted to the world size and start of one session.
struct SessionPlan {
  std::shared_ptr<const PlanFacts> facts;
  std::string fingerprint;
  StepArithmetic steps;
  Position start;  // of its first batch, computed from Hello.start
  v1::Spec spec;
};

/// The cumulative figures of a consumer at one moment. Rates come from the difference of two.
struct CounterSample {
  Time at;
  std::uint64_t batches = 0;
  std::uint64_t examples = 0;
  std::uint64_t tokens = 0;
  std::uint64_t bytes = 0;
  double waited_seconds = 0;
};

/// A worker that has failed a consumer, as the consumer reports it.
struct FailingWorker {
  Time since;  // when it last failed, as far as reports show
  double remaining_seconds = 0;
  StatusCode code = StatusCode::kOk;  // not ok: why it can never send some batch
  std::string reason;
  /// Batches that the code of a user failed to build there, each with the reason.
  std::map<Position, std::string> refused;
};

/// The list of workers that a live session may ask.
struct ListFacts {
  ListSize size;
  // About the list that was sent last:
  std::uint64_t number = 0;  // 0: no list was sent
  std::vector<WorkerId> members;
  std::uint64_t digest = 0;  // of its entries for them
  Time sent;
};

/// One process's claim to a rank.
struct SessionFacts {
  SessionId id;
  v1::Hello hello;
  std::string plan_key;
  std::optional<SessionPlan> plan;
  bool live = false;         // it has had a Welcome from this dispatcher
  bool live_before = false;  // it has had a Welcome from this dispatcher or an earlier one
  std::string owner;         // name of its peer; empty: not proved
  StreamId stream = 0;
  Time opened;
  Time admitted;
  Time heard;                              // when its last message came
  std::optional<Time> held_up;             // since when it waits for holders of its job
  std::string why;                         // why it waits, as last sent to it
  std::optional<v1::Report> report;        // its last one, without tuning
  std::optional<v1::Report> early_report;  // a report that came before this dispatcher admitted it
  v1::Tuning tuning;                       // the last one that it sent
  Time tuning_told;
  ListFacts list;
  Time waited;  // when its waits for workers were last seen to grow
  std::map<WorkerId, FailingWorker> failing;
  std::deque<CounterSample> samples;  // of the last minute, oldest first

  Position wanted_start() const { return FromProto(hello.start()); }
  /// The first epoch from which it wants no batch.
  std::uint64_t end_epoch() const {
    if (hello.epochs() == 0) return std::numeric_limits<std::uint64_t>::max();
    return wanted_start().epoch + hello.epochs();
  }
  /// The place of the training loop: `next` of its report, or the start if there is no report.
  Position next() const {
    if (report) return FromProto(report->next());
    return plan ? plan->start : wanted_start();
  }
};

/// A worker, as its last report describes it.
struct Worker {
  WorkerId id;
  v1::WorkRequest report;  // without file lists and tuning
  v1::Tuning tuning;       // the last one that it sent
  Time tuning_told;
  std::set<std::string> ready;  // fingerprints of its ready plans
  bool loopback = false;        // whether only its own host reaches its address
  StreamId stream = 0;
  Time heard;
  bool drained = false;    // an operator has drained it
  bool undrained = false;  // an operator has taken that back, and it does not say so yet
  /// The first difference between the worker's copy of a dataset and the dispatcher's copy.
  struct Difference {
    std::string digest;  // of the worker's copy when it was compared
    std::string text;    // in words
  };
  std::map<std::string, Difference> differences;  // by dataset id

  bool draining() const { return drained || report.draining(); }
};

/// A write of a job's record that is under way or has failed.
struct RecordWrite {
  bool outstanding = false;  // the store has not answered yet
  Status error;              // of the last try
  Time retry_at;             // when to try again, if there is an error
  v1::JobRecord record;      // the record that could not be written
  bool unknown = false;      // some try that failed may still have written it
};

struct StreamFacts {
  bool of_worker = false;
  Time opened;
  // The owner is one of these two, by `of_worker`. Both are unset before the first message.
  SessionId session;
  WorkerId worker;
  std::string peer;  // the name that the peer has proved; empty: not proved

  /// The number of the owner.
  Number owner() const { return of_worker ? worker.number() : session.number(); }
};

/// The fingerprints of the plans that a worker reports as ready.
std::set<std::string> ReadyPlans(const v1::WorkRequest& report);

/// The key of a pipeline text. Equal texts have one key, so that each text is compiled once.
std::string PlanKey(const v1::PipelineText& pipeline);

/// "rank 3 of job x", or "rank 3, replica 1 of job x" if the replica is not 0.
std::string RankOfJob(const v1::Hello& hello);

}  // namespace millrace
