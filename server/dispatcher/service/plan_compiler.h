// Where a dispatcher gets the facts of plans from.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "millrace/v1/common.pb.h"
#include "server/dispatcher/machine/plan_facts.h"
#include "server/pipeline/plan_outline.h"
#include "server/pipeline/text/pipeline.h"

namespace millrace {

/// Makes plans of pipelines. Thread-safe.
class PlanCompiler {
 public:
  virtual ~PlanCompiler() = default;
  /// Blocks for as long as compiling takes: called off the event loop. Unavailable where it can be
  /// tried again later (an index is being built); any other error ends the sessions that ask.
  virtual Result<std::shared_ptr<const PlanFacts>> Compile(const v1::PipelineText& pipeline) = 0;
};

/// The facts of a plan and the pipeline that it was compiled from. The plan itself is not needed
/// any more.
std::shared_ptr<const PlanFacts> MakePlanFacts(const Pipeline& pipeline, const PlanOutline& plan);

}  // namespace millrace
