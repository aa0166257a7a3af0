// The parts of a pipeline's plan.
//
// Free function; thread-safe.
#pragma once

#include "common/base/result.h"
#include "server/plan/text/pipeline.h"
#include "server/source/plan_parts.h"

namespace millrace {

/// Runs `compile` of every stage of the pipeline, in order; first those of its branches.
Result<PlanParts> PartsOfPipeline(const Pipeline& pipeline);

}  // namespace millrace
