// Decides whether a session that lacks workers waits for them or gives up.
//
// Free functions over facts; thread-safe.
#pragma once

#include <map>

#include "common/base/result.h"
#include "server/dispatcher/machine/dispatcher_options.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// DataLoss if the code of a user has failed three times to build one batch that the session lacks:
/// twice at one worker, and once at another. The message has the workers and their reasons.
Status CheckTries(const std::map<WorkerId, Worker>& workers, const SessionFacts& session);

/// Ok if some worker serves the session's plan, or may serve it later: it is compiling, indexing,
/// or silent but not forgotten. Also ok if no worker can serve the plan at all: the session then
/// waits for one. Not ok if some workers could serve the plan, but each of them fails the session
/// for good, or has failed to build one batch with the code of a user. The message then has the
/// reasons with the workers. The code is DataLoss if files are damaged or a user's code fails,
/// otherwise the code of the refusal.
Status CheckProspects(const std::map<WorkerId, Worker>& workers, const SessionFacts& session,
                      Time now, const DispatcherOptions& options);

}  // namespace millrace
