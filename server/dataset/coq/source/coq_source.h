// The Coq dataset's two sources: proof_states (one example an outcome of a proof step) and
// definitions (one example a cluster). reference-semantics and docs/pipeline.md say what they hold.
//
// Immutable; thread-safe.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "server/dataset/source.h"
#include "server/pipeline/graph/plan_draft.h"

namespace millrace {

class Dataset;

/// `source: proof_states`. InvalidArgument for an excluded file that the dataset does not have.
Result<std::shared_ptr<const Source>> MakeProofStateSource(std::shared_ptr<const Dataset> dataset,
                                                           const PlanDraft& draft);

/// `source: definitions`. Errors as above.
Result<std::shared_ptr<const Source>> MakeDefinitionSource(std::shared_ptr<const Dataset> dataset,
                                                           const PlanDraft& draft);

}  // namespace millrace
