// The workers that may measure columns, and messages about them. Pure functions.
#pragma once

#include <map>
#include <string>

#include "common/base/result.h"
#include "server/dispatcher/machine/column_facts.h"
#include "server/dispatcher/machine/dispatcher_options.h"
#include "server/dispatcher/machine/facts.h"

namespace millrace {

/// Whether a worker may be given ranges now: it is heard, does not drain, has the dataset, knows
/// how to measure, and does not fail.
bool MayMeasure(const Worker& worker, const ColumnFacts& columns, Time now,
                const DispatcherOptions& options);

/// "measuring column nodes: 43 %, 2 workers", or which dataset no worker has, or who fails.
std::string DescribeMeasuring(const ColumnFacts& columns, const std::map<WorkerId, Worker>& workers,
                              Time now, const DispatcherOptions& options);

/// Not ok, with each worker's reason, if some have failed for good and no other worker may measure,
/// now or later.
Status CheckMeasurers(const ColumnFacts& columns, const std::map<WorkerId, Worker>& workers);

}  // namespace millrace
