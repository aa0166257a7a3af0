// How workers and consumers tune themselves, as text for people.
//
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "millrace/v1/dispatcher.pb.h"

namespace millrace::cli {

/// A decision of one process's tuning.
struct TuneEvent {
  std::string who;  // "rank 3 of JOB", or a worker's name
  double age_seconds = 0;
  std::string decision;  // in one line
};

/// All decisions in a status, the newest first.
std::vector<TuneEvent> TuneEvents(const v1::ServiceStatus& status);

/// The story of a job: for each rank and each worker, the settings with their limits, the causes of
/// waits, and the decisions, the oldest first. For a job that nobody reads any more, the decisions
/// come from the dispatcher's last events. NotFound if the dispatcher does not know it.
Result<std::string> TuneStory(const v1::ServiceStatus& status, const std::string& job);

}  // namespace millrace::cli
