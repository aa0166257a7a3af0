// The things a dispatcher knows about: plans, sessions, workers, jobs. Plain data; DispatcherFacts
// holds them and is the only one that changes them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/time.h"
#include "common/epoch/position.h"
#include "common/transport/convert/places.h"
#include "millrace/v1/dispatcher.pb.h"
#include "millrace/v1/journal.pb.h"
#include "server/dispatcher/machine/lease_table.h"
#include "server/dispatcher/machine/plan_facts.h"

namespace millrace {

/// A stream as the network numbers it, from 1, never used again. 0: none.
using StreamId = std::uint64_t;

/// A pipeline that sessions asked for, by its text.
struct RequestedPlan {
  enum class Phase { kCompiling, kReady, kRetrying };

  std::string key;  // of the text, see PlanKey
  v1::PipelineText pipeline;
  Phase phase = Phase::kCompiling;
  std::shared_ptr<const PlanFacts> facts;  // where ready
  std::string fingerprint;                 // where ready, as text
  Status error;                            // where retrying
  Time retry_at;                           // where retrying
  Time used;                               // when a session last needed it
};

/// What a session was told when its plan was compiled.
struct SessionPlan {
  std::shared_ptr<const PlanFacts> facts;
  std::string fingerprint;
  StepArithmetic steps;
  Position start;  // of its first batch; Hello.start after step arithmetic
  v1::Spec spec;
};

/// Cumulative figures of a consumer at a moment: rates are differences of two.
struct CounterSample {
  Time at;
  std::uint64_t batches = 0;
  std::uint64_t examples = 0;
  std::uint64_t bytes = 0;
  double waited_seconds = 0;
};

/// A worker that a consumer says has failed it.
struct FailingWorker {
  Time since;  // of its last failure, as far as reports show it
  double remaining_seconds = 0;
  StatusCode code = StatusCode::kOk;  // not ok: of a batch that can never come of it
  std::string reason;
};

/// One process's claim to a rank.
struct SessionFacts {
  Number id;
  v1::Hello hello;
  std::string plan_key;
  std::optional<SessionPlan> plan;
  bool live = false;         // it has had a Welcome
  bool live_before = false;  // … from this dispatcher or an earlier one
  StreamId stream = 0;
  Time opened;
  Time admitted;
  Time heard;                              // its last word
  std::optional<Time> held_up;             // since when others hold its job
  std::string why;                         // what it waits for, as last told
  std::optional<v1::Report> report;        // its last one, without held leases
  std::optional<v1::Report> early_report;  // one that came before its plan was compiled again
  LeaseTable leases;
  std::map<Number, FailingWorker> failing;
  std::deque<CounterSample> samples;  // of the last minute, oldest first

  Position wanted_start() const { return FromProto(hello.start()); }
};

/// A worker, by its last report.
struct Worker {
  Number id;
  v1::WorkRequest report;       // without file lists
  std::set<std::string> ready;  // fingerprints
  StreamId stream = 0;
  Time heard;
  bool drained = false;               // told by an operator
  std::uint64_t granted_batches = 0;  // since its last report
  /// First file that differs from the dispatcher's copy, by dataset id, with the worker's digest
  /// that this was found for.
  struct Difference {
    std::string digest;
    std::string text;
  };
  std::map<std::string, Difference> differences;

  bool draining() const { return drained || report.draining(); }
};

/// The writing of a job's record.
struct RecordWrite {
  bool outstanding = false;
  Status error;          // of the last try
  Time retry_at;         // where there is an error
  v1::JobRecord record;  // that could not be written
  bool unknown = false;  // whether of any try the store did not say that it did nothing
};

struct StreamFacts {
  bool of_worker = false;
  Time opened;
  Number owner;  // session or worker; unset before the first message
};

/// Fingerprints of the plans that a worker reports as ready.
std::set<std::string> ReadyPlans(const v1::WorkRequest& report);

/// Key of a pipeline text, for one compilation a text.
std::string PlanKey(const v1::PipelineText& pipeline);

/// "rank 3 of job x", with the replica where it is not 0.
std::string RankOfJob(const v1::Hello& hello);

}  // namespace millrace
