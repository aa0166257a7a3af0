// All the changes that a dispatcher's facts can go through. Each change has a name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/dispatcher/machine/column_facts.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

struct TermBegun {
  std::uint64_t term;
  Time at;
  std::vector<v1::JobRecord> records;
};
struct NumberIssued {};
/// Everybody gets that much more time, after a pause of the dispatcher itself.
struct TimeGranted {
  Duration by;
};
struct DatasetOpened {
  std::string id;
  v1::DatasetState dataset;
};

struct StreamOpened {
  StreamId id;
  bool of_worker;
  Time at;
  std::string peer;
};
struct StreamForgotten {
  StreamId id;
};

struct PlanRequested {
  std::string key;
  v1::PipelineText pipeline;
  Time at;
};
struct PlanReady {
  std::string key;
  std::shared_ptr<const PlanFacts> facts;
  Time at;
};
struct PlanPutOff {
  std::string key;
  Status error;
  Time retry_at;
};
struct PlanForgotten {
  std::string key;
};

struct PlanLacks {
  std::string key;
  std::string columns;
};

/// Workers are asked for the plan, because this host lacks plugins.
struct PlanAsked {
  std::string key;
  std::string question;
  std::vector<std::string> plugins;
  Status damage;  // OK: the plugins are missing
  Time at;
};

struct ColumnsWanted {
  std::string key;
  v1::ColumnSet set;
  v1::PipelineText pipeline;
  std::vector<std::uint64_t> measured;  // ranges
  Time at;
};
struct RangesGiven {
  std::string key;
  WorkerId worker;
  std::vector<std::uint64_t> ranges;
};
struct RangesTakenBack {
  std::string key;
  WorkerId worker;
};
struct RangeMeasured {
  std::string key;
  std::uint64_t range;
};
struct MeasurerPaced {
  std::string key;
  WorkerId worker;
  std::uint64_t share;
};
struct MeasurerFailed {
  std::string key;
  WorkerId worker;
  FailingMeasurer failing;
};
struct ColumnsTold {
  std::string key;
  Time at;
};
/// All ranges of the columns are measured, and are being kept.
struct ColumnsWhole {
  std::string key;
};
struct ColumnsForgotten {
  std::string key;
};

struct SessionOpened {
  SessionId id;
  v1::Hello hello;
  std::string plan_key;
  StreamId stream;
  Time at;
};
struct SessionAttached {
  SessionId id;
  v1::Hello hello;
  StreamId stream;
  Time at;
};
struct SessionHeard {
  SessionId id;
  Time at;
};
struct SessionPlanned {
  SessionId id;
  SessionPlan plan;
};
struct SessionHeldUp {
  SessionId id;
  std::optional<Time> since;
};
struct SessionTold {
  SessionId id;
  std::string why;
};
struct SessionAdmitted {
  SessionId id;
  Time at;
};
struct SessionReported {
  SessionId id;
  v1::Report report;
  Time at;
};
struct SessionReportedEarly {
  SessionId id;
  v1::Report report;
};
/// The session needs so many members of its list.
struct ListNeeded {
  SessionId id;
  std::uint32_t members;
  std::uint32_t limit;  // beyond which members only take time from other consumers
  Time at;
};
struct ListDoubled {
  SessionId id;
  Time at;
};
struct ListSent {
  SessionId id;
  std::vector<WorkerId> members;
  std::uint64_t digest;
  Time at;
};
struct SessionEnded {
  SessionId id;
  v1::JobEnd end = {};
};
struct JobTurnedOut {
  std::string job;
  Number up_to;  // the last one that was issued, for anything
};

struct WorkerJoined {
  WorkerId id;
  std::string nonce;
};
struct WorkerReported {
  WorkerId id;
  v1::WorkRequest report;
  StreamId stream;
  Time at;
};
struct WorkerDiffers {
  WorkerId id;
  std::string dataset;
  Worker::Difference difference;
};
struct WorkerDrained {
  WorkerId id;
};
struct WorkerUndrained {
  WorkerId id;
};
struct WorkerLeft {
  WorkerId id;
};

struct RecordSent {
  std::string job;
};
struct RecordKept {
  v1::JobRecord record;
  std::size_t keep_ended;
};
struct RecordFailed {
  v1::JobRecord record;
  Status error;
  Time retry_at;
};

/// Nothing of the job is left to be written.
struct WriteForgotten {
  std::string job;
};

using Update =
    std::variant<TermBegun, NumberIssued, TimeGranted, DatasetOpened, StreamOpened, StreamForgotten,
                 PlanRequested, PlanReady, PlanPutOff, PlanForgotten, PlanLacks, PlanAsked,
                 ColumnsWanted, RangesGiven, RangesTakenBack, RangeMeasured, MeasurerPaced,
                 MeasurerFailed, ColumnsTold, ColumnsWhole, ColumnsForgotten, SessionOpened,
                 SessionAttached, SessionHeard, SessionPlanned, SessionHeldUp, SessionTold,
                 SessionAdmitted, SessionReported, SessionReportedEarly, ListNeeded, ListDoubled,
                 ListSent, SessionEnded, JobTurnedOut, WorkerJoined, WorkerReported, WorkerDiffers,
                 WorkerDrained, WorkerUndrained, WorkerLeft, RecordSent, RecordKept, RecordFailed,
                 WriteForgotten>;

}  // namespace millrace
