// Makes the facts of a plan from the objects that it is compiled from.
//
// Free functions; thread-safe.
#pragma once

#include <vector>

#include "common/base/ids.h"
#include "common/epoch/position.h"
#include "server/plan/facts/plan_facts.h"
#include "server/plan/order/make_order.h"
#include "server/source/source.h"

namespace millrace {

class Pipeline;
class TensorPlan;

/// `computed`: null if the source's tensors are delivered. `steps`: for a world size of 1.
PlanFacts MakePlanFacts(const Fingerprint& fingerprint, const Fingerprint& order_fingerprint,
                        const Source& source, const TensorPlan* computed, const StepOptions& steps,
                        const PlannedOrder& order);

/// The facts with the names and the text of the pipeline. InvalidArgument if it has another number
/// of datasets.
Result<PlanFacts> WithPipeline(const PlanFacts& facts, const Pipeline& pipeline);

}  // namespace millrace
