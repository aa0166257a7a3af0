// The two sources of a Coq dataset: proof_states (one example for each outcome of a proof step
// whose tactic is known) and definitions (one example for each cluster of mutually recursive
// definitions). Both visit the files in topological order, and each file's definitions in the order
// of its list. With restrict_to_spine, proof_states follows each file's spine instead.
// docs/reference/pipeline.md describes the options.
//
// Immutable; thread-safe.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace {

class CoqDataset;

/// `source: proof_states`. InvalidArgument if an excluded file is not in the dataset.
Result<std::shared_ptr<const Source>> MakeProofStateSource(
    std::shared_ptr<const CoqDataset> dataset, const PlanParts& parts);

/// `source: definitions`. Errors as for MakeProofStateSource.
Result<std::shared_ptr<const Source>> MakeDefinitionSource(
    std::shared_ptr<const CoqDataset> dataset, const PlanParts& parts);

}  // namespace millrace
