// Plans that workers are asked for, because the dispatcher's host lacks plugins: who can be asked,
// and what is said of it. The first answer counts (plan_requests.h).
//
// Free functions over facts; thread-safe.
#pragma once

#include <map>
#include <string>

#include "common/base/result.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// Whether a worker can be asked for a plan: it has all plugins that the dispatcher lacks.
bool CanBeAsked(const Worker& worker, const RequestedPlan& plan);

/// The reason why sessions wait that need the plan.
std::string WhyAsked(const RequestedPlan& plan, const std::map<Number, Worker>& workers);

/// Not ok if every worker that has the plugins fails to compile the plan, with the reason of one of
/// them; NotFound if there are workers and none of them lists the plugins. What another worker may
/// have is missed only if `all_are_back`: no more are expected.
Status CheckAsked(const RequestedPlan& plan, const std::map<Number, Worker>& workers,
                  bool all_are_back);

}  // namespace millrace
