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

/// A second; none where it is not known yet.
using Rate = std::optional<double>;

/// What a consumer waits for now; kAttach for one that is not let in yet, which reports nothing.
WaitCause CauseOf(const v1::ConsumerStatus& consumer);
/// Whether it is a worker that a consumer with this cause waits for.
bool ForWorker(WaitCause cause);

struct WorkerRow {
  const v1::WorkerStatus* status;
  Rate batches;
  Rate bytes;
  Rate blocked;
  std::string build;        // seconds a second, by stage
  std::size_t waiters = 0;  // consumers that wait for it now
};

struct ConsumerRow {
  const v1::ConsumerStatus* status;
  WaitCause cause;
  Rate batches;
  Rate examples;
  Rate bytes;
  Rate waited;
};

/// Rows of a status, whose messages have to outlive them, in the order of `sort`. `before` may be
/// null.
std::vector<WorkerRow> WorkerRows(const v1::ServiceStatus* before, const v1::ServiceStatus& now,
                                  TopSort sort);
std::vector<ConsumerRow> ConsumerRows(const v1::ServiceStatus* before, const v1::ServiceStatus& now,
                                      TopSort sort);

}  // namespace millrace::cli
