// The actions that a dispatcher wants done. Its adapter (dispatcher_service, or a simulator) does
// them, and answers each CompilePlan, FinishColumns and CommitRecord with an event.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "millrace/v1/dispatcher.pb.h"
#include "millrace/v1/journal.pb.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// A message to a consumer. Messages that wait to be written may be merged: see MergeInto.
struct SendAttach {
  StreamId stream;
  v1::AttachResponse message;
};

/// A message to a worker. It replaces one that still waits to be written.
struct SendWork {
  StreamId stream;
  v1::WorkResponse message;
};

/// Closes a stream. Nothing more is sent on it, and later messages on it are ignored.
struct CloseStream {
  StreamId stream;
  Status status;
};

/// Compiles a plan, or reads a worker's facts of it. At most one compilation runs for a key. The
/// answer is OnPlanCompiled, OnColumnsMissing, OnPluginsMissing or OnDataDamaged.
struct CompilePlan {
  std::string key;
  v1::PipelineText pipeline;
  std::optional<v1::PlanAnswer> answer = {};
};

/// Writes a job's record. At most one write runs for a job. The answer is OnRecordCommitted.
struct CommitRecord {
  v1::JobRecord record;
};

/// Keeps a range that a worker has measured. Columns get each range once.
struct KeepMeasured {
  v1::Measured measured;
};
/// Keeps columns whose ranges are all measured. The answer is OnColumnsKept.
struct FinishColumns {
  std::string key;
  v1::ColumnSet set;
};
/// Ends measuring columns that no plan needs any more.
struct AbandonColumns {
  v1::ColumnSet set;
};

struct LogEvent {
  LogLevel level;
  std::string event;
  std::vector<std::pair<std::string, std::string>> fields;  // at most 4
};

using Action = std::variant<SendAttach, SendWork, CloseStream, CompilePlan, KeepMeasured,
                            FinishColumns, AbandonColumns, CommitRecord, LogEvent>;
using Actions = std::vector<Action>;

/// Adds `later` to a message of the same stream that still waits to be written.
void MergeInto(v1::AttachResponse& waiting, v1::AttachResponse&& later);

}  // namespace millrace
