#include "server/plan/pipeline_parts.h"

#include <utility>

#include "server/source/mix_parts.h"
#include "server/source/order_parts.h"
#include "server/source/tensors_part.h"

namespace millrace {

Result<PlanParts> PartsOfPipeline(const Pipeline& pipeline) {
  PlanParts parts;
  for (const PipelineBranch& branch : pipeline.branches()) {
    MILLRACE_ASSIGN_OR_RETURN(PlanParts own, PartsOfPipeline(*branch.pipeline));
    parts.Edit<BranchesPart>().branches.push_back(
        {branch.name, branch.pipeline->dataset(), std::move(own)});
  }
  if (!pipeline.branches().empty()) parts.Edit<MixPart>() = pipeline.mix();
  for (const StageConfig& stage : pipeline.stages()) {
    if (!stage.type->compile) continue;
    if (Status status = stage.type->compile(stage.params, parts); !status.ok()) {
      return status.WithContext(stage.type->name);
    }
  }
  if (!pipeline.tensors().empty()) parts.Edit<TensorsPart>() = pipeline.tensors();
  parts.Edit<OriginsPart>().keys = pipeline.origins();
  parts.Edit<MeasurePart>().operations = pipeline.build_digest();
  return parts;
}

}  // namespace millrace
