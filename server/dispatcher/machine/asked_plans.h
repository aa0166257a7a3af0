// Plans that workers are asked for, because the dispatcher's host lacks plugins or its data are
// damaged: which workers can be asked, and messages about it. The first answer counts
// (plan_requests.h).
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
std::string WhyAsked(const RequestedPlan& plan, const std::map<WorkerId, Worker>& workers);

/// Not ok if every worker that has the plugins fails to compile the plan, with the reason of one of
/// them; NotFound if there are workers and no worker lists the plugins, but only if `all_are_back`:
/// no more workers are expected. If the dispatcher's data are damaged: DataLoss if the data of all
/// workers that list them are damaged too, once all are back. `of_jobs`: fingerprints of the jobs
/// that have begun with the plan. A worker that serves one of them is not given up, whatever its
/// datasets are by now.
Status CheckAsked(const RequestedPlan& plan, const std::map<WorkerId, Worker>& workers,
                  bool all_are_back, const std::set<std::string>& of_jobs = {});

}  // namespace millrace
