#include "tests/fuzz/plan_use.h"

#include <algorithm>
#include <string>

#include "common/batch/batch.h"
#include "common/expand/expand.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/coq/coq_kind.h"
#include "server/plan/pipeline_parts.h"
#include "server/plan/plan.h"
#include "server/plan/text/pipeline.h"
#include "server/source/plan_parts.h"
#include "tests/fuzz/fuzz.h"

namespace millrace::fuzz {
namespace {

// Together these reach every column, both orders of closures, and the spine.
constexpr const char* kPipelines[] = {
    "millrace: 1\ndataset: d\nsource: proof_states\nbatch: {size: 16, remainder: keep}\n"
    "closure: {max_subgraph_size: 64}\nfields: {text: true, global_context: full}\n",
    "millrace: 1\ndataset: d\nsource: proof_states\nbatch: {size: 16, remainder: keep}\n"
    "closure: {order: dfs, stop_at_definitions: false}\n"
    "filter: {restrict_to_spine: true, exclude_none_arguments: true}\n",
    "millrace: 1\ndataset: d\nsource: definitions\nbatch: {size: 16, remainder: keep}\n"
    "shuffle: {seed: 1}\nsplit: {method: hash, proportions: [1, 1], seed: 0, take: 0}\n",
};
constexpr std::uint64_t kMostBatches = 4;

Status UsePlan(const std::shared_ptr<const CoqDataset>& dataset, const char* text) {
  const Pipeline pipeline = Pipeline::Parse({.yaml = text}, ProductStages()).value();
  const PlanParts parts = PartsOfPipeline(pipeline).value();
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Source> source,
                            MakeCoqKind()->sources().Make(pipeline.source(), dataset, parts));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan,
                            Plan::Compile(pipeline, source));
  static_cast<void>(plan->static_bytes());
  const auto scratch = plan->NewScratch();
  const std::uint64_t examples = plan->counts().selected;
  for (std::uint64_t n = 0; n < kMostBatches && n * 16 < examples; ++n) {
    const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(16, examples - n * 16));
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const PackedBatch> batch,
                              plan->Batch(1, {n * 16, count}, *scratch));
    BufferPool pool(0);
    RequireOk(PackedBatch::Parse(batch->bytes(), batch).status(), "a batch that was built");
    RequireOk(Expand(*batch, DType::kInt64, pool).status(), "the expansion of what was built");
  }
  return OkStatus();
}

}  // namespace

Status UseDataset(const std::shared_ptr<const CoqDataset>& dataset) {
  Status first;
  for (const char* text : kPipelines) {
    const Status status = UsePlan(dataset, text);
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace millrace::fuzz
