// Events from reports, and how events name workers and consumers.
//
// Free functions; thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/dispatcher/machine/event_log.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// "Worker w1 at 10.0.0.2:7701".
std::string WorkerSubject(const v1::WorkRequest& worker);
/// "Rank 3 of job x at host7:4121", with the replica if that is not 0.
std::string ConsumerSubject(const v1::Hello& hello);

/// The news in a worker's report: that it drains, or drains no more, that a dataset or a plan
/// failed, and the steps of its tuning. `worker` is as it was before. REQUIRES: the report is
/// Trimmed.
std::vector<NewEvent> EventsOf(const Worker& worker, const v1::WorkRequest& report);

/// Likewise for a session's report: that two copies of a batch differed, and its tuning.
std::vector<NewEvent> EventsOf(const SessionFacts& session, const v1::Report& report);

/// Events for the steps that a consumer has taken back from workers since its last report, with the
/// workers that have failed it since.
std::vector<NewEvent> MovedSteps(const SessionFacts& session, const v1::Report& report,
                                 const std::map<WorkerId, Worker>& workers);

}  // namespace millrace
