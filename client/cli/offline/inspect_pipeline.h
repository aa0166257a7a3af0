// What `millrace inspect` says of pipelines: text for people, one function a part.
//
// Pure functions, but for DescribePlan, which builds a sample of examples.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "server/pipeline/graph/stage.h"
#include "server/pipeline/plan.h"
#include "server/pipeline/text/pipeline.h"

namespace millrace::cli {

/// Stages with place, fingerprint and parameters, digests, canonical text, unused keys, variants.
std::string DescribePipeline(const Pipeline& pipeline);

/// Every stage's parameters with defaults and help.
std::string DescribeStages(const StageTable& table);

struct SampleOptions {
  std::uint64_t examples = 1000;  // spread evenly over the first epoch's order; 0: all
  std::uint32_t world_size = 1;
};

/// Examples per split, steps, graph sizes and drops of a sample, bytes of the first batch. Errors
/// of building; those of the step arithmetic (a batch larger than the epoch) are part of the text.
Result<std::string> DescribePlan(const Plan& plan, const SampleOptions& options);

}  // namespace millrace::cli
