// How workers and consumers tune themselves, as text for people.
//
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "millrace/v1/dispatcher.pb.h"

namespace millrace::cli {

/// A decision of somebody's tuning.
struct TuneEvent {
  std::string who;  // "rank 3 of JOB", or a worker's name
  double age_seconds = 0;
  std::string decision;  // in one line
};

/// All decisions that a status knows, the newest first.
std::vector<TuneEvent> TuneEvents(const v1::ServiceStatus& status);

/// The story of a job: for each rank, and for each worker, the settings with their limits, what was
/// waited for, and the decisions, the oldest first. Of a job that nobody reads any more, the
/// decisions come from the dispatcher's last events. NotFound if the dispatcher does not know it.
Result<std::string> TuneStory(const v1::ServiceStatus& status, const std::string& job);

}  // namespace millrace::cli
