// The figures of `millrace top`: rates of workers and consumers between two statuses.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/top/top_frame.h"
#include "common/base/wait_cause.h"
#include "millrace/v1/dispatcher.pb.h"

namespace millrace::cli {

/// An amount per second; nothing if it is not known yet.
using Rate = std::optional<double>;

/// The rank, followed by the replica if it is not 0: "3", "3 (1)".
std::string RankText(const v1::ConsumerStatus& consumer);
/// The number of members of its list up to the last one in use, and of all members: "8/16".
std::string ListText(const v1::ConsumerStatus& consumer);
/// How far its oldest step that is not built is past due: "1.5 s", or "-".
std::string DueText(const v1::ConsumerStatus& consumer);
/// The cause for which a consumer waits now. kAttach for a consumer that is not let in yet: such a
/// consumer reports nothing itself.
WaitCause CauseOf(const v1::ConsumerStatus& consumer);

struct WorkerRow {
  const v1::WorkerStatus* status;
  Rate batches;
  Rate bytes;
  Rate shared;  // of the batches sent, the share that needed no build of its own
  Rate cached;  // of the examples that pipelines with a cache asked for, the share that it had
  Rate blocked;
  std::string build;        // for each stage: seconds spent in it per second
  std::size_t waiters = 0;  // consumers that wait for this worker now
};

/// An object of a plugin at a worker. Pools of one object with different arguments are added up.
struct PluginRow {
  const v1::WorkerStatus* worker;
  std::string object;
  std::size_t places = 0;   // for processes
  std::size_t running = 0;  // processes that run now
  Rate busy;                // share of the time of all places in which they had a request
  Rate examples;            // built
  std::uint64_t restarts = 0;
  std::uint64_t dropped = 0;
  std::uint64_t failed = 0;
  std::uint64_t memory_bytes = 0;
};

struct ConsumerRow {
  const v1::ConsumerStatus* status;
  WaitCause cause;
  Rate batches;
  Rate examples;
  Rate tokens;
  Rate bytes;
  Rate waited;
};

/// The rows of a status, in the order of `sort`. They refer to the messages of `now`, which must
/// outlive them. `before` may be null.
std::vector<WorkerRow> WorkerRows(const v1::ServiceStatus* before, const v1::ServiceStatus& now,
                                  TopSort sort);
std::vector<PluginRow> PluginRows(const v1::ServiceStatus* before, const v1::ServiceStatus& now,
                                  TopSort sort);
std::vector<ConsumerRow> ConsumerRows(const v1::ServiceStatus* before, const v1::ServiceStatus& now,
                                      TopSort sort);

}  // namespace millrace::cli
