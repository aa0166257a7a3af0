// Plans that workers are asked for, because the dispatcher's host lacks plugins or its data are
// damaged: who can be asked, and what is said of it. The first answer counts (plan_requests.h).
//
// Free functions over facts; thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>

#include "common/base/result.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// Whether a worker can be asked for a plan: it has all plugins that the dispatcher lacks, or all
/// that the pipeline names.
bool CanBeAsked(const Worker& worker, const RequestedPlan& plan);

/// The reason why sessions wait that need the plan.
std::string WhyAsked(const RequestedPlan& plan, const std::map<Number, Worker>& workers);

/// Not ok if every worker that has the plugins fails to compile the plan, with the reason of one of
/// them; NotFound if there are workers and none of them lists the plugins. What another worker may
/// have is missed only if `all_are_back`: no more are expected. If the dispatcher's data are
/// damaged: DataLoss if those of all workers are that list them, once all are back. `of_jobs`:
/// fingerprints of the jobs that have begun with the plan. A worker that serves one of them is not
/// given up, whatever its datasets are by now.
Status CheckAsked(const RequestedPlan& plan, const std::map<Number, Worker>& workers,
                  bool all_are_back, const std::set<std::string>& of_jobs = {});

}  // namespace millrace
