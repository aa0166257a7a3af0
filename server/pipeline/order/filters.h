// Filters: they decide which numbered examples are left out before anything is built.
//
// Pure functions; thread-safe.
#pragma once

#include "common/base/ids.h"
#include "server/dataset/source.h"
#include "server/pipeline/graph/plan_draft.h"

namespace millrace {

/// Adds the columns that PassesFilters reads to the wanted columns.
void AddColumnsOfFilters(const PlanDraft& draft, WantedColumns& wanted);

/// Whether an example with these columns passes the filters and every predicate of further stages.
/// restrict_to_spine and required_tactic_occurrence do not act here: they decide which examples a
/// source numbers at all.
bool PassesFilters(const Source& source, const PlanDraft& draft, ExampleId example,
                   const ExampleColumns& columns);

}  // namespace millrace
