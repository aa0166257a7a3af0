// Whether a session can still hope for its batches: the line between waiting and giving up.
//
// Free functions over facts; thread-safe.
#pragma once

#include <map>

#include "common/base/result.h"
#include "server/dispatcher/machine/dispatcher_options.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// Ok while some worker serves the session's plan or may come to: it is compiling, indexing, or
/// silent and not forgotten. Ok, too, where none ever could: the session then waits for one.
/// Else, where each worker that could serve the plan fails it for good, the reason, with the
/// workers: DataLoss where files are damaged, the code of the refusal otherwise.
Status CheckProspects(const std::map<Number, Worker>& workers, const SessionFacts& session,
                      Time now, const DispatcherOptions& options);

}  // namespace millrace
