// What a dispatcher wants done. Its adapter (dispatcher_service, or a simulator) does it and
// answers CompilePlan and CommitRecord with an event each.
#pragma once

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

/// Messages to a consumer. Several that wait may be made one: see MergeInto.
struct SendAttach {
  StreamId stream;
  v1::AttachResponse message;
};

/// The whole truth for a worker: replaces one that still waits.
struct SendWork {
  StreamId stream;
  v1::WorkResponse message;
};

/// Nothing more comes for the stream, and nothing of it is wanted.
struct CloseStream {
  StreamId stream;
  Status status;
};

/// One at a time for a key. Answered with OnPlanCompiled.
struct CompilePlan {
  std::string key;
  v1::PipelineText pipeline;
};

/// One at a time for a job. Answered with OnRecordCommitted.
struct CommitRecord {
  v1::JobRecord record;
};

struct LogEvent {
  LogLevel level;
  std::string event;
  std::vector<std::pair<std::string, std::string>> fields;  // at most 4
};

using Action = std::variant<SendAttach, SendWork, CloseStream, CompilePlan, CommitRecord, LogEvent>;
using Actions = std::vector<Action>;

/// Adds `later` to a message of the same stream that still waits to be written.
void MergeInto(v1::AttachResponse& waiting, v1::AttachResponse&& later);

}  // namespace millrace
