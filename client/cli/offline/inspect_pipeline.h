// The report of `millrace inspect` about pipelines: text for people, one function for each part.
//
// Pure functions, except DescribePlan, which builds a sample of examples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/plan/plan.h"
#include "server/plan/text/pipeline.h"
#include "server/source/stage.h"

namespace millrace::cli {

/// Stages with place, fingerprint and parameters; tensors that are defined; digests; the canonical
/// text; unused keys; variants.
std::string DescribePipeline(const Pipeline& pipeline);

/// The parameters of every stage, with defaults and help.
std::string DescribeStages(const StageTable& table);

struct SampleOptions {
  std::uint64_t examples = 1000;  // spread evenly over the first epoch's order; 0: all
  std::uint32_t world_size = 1;
};

/// Examples spread evenly over the first epoch's order, as SampleOptions has them.
std::vector<ExampleId> SampleOf(const Plan& plan, std::uint64_t wanted);

/// Examples for each split, steps, graph sizes, drops of a sample, bytes of the first batch. Fails
/// if building fails. Errors of the step arithmetic (for example a batch larger than the epoch)
/// become part of the text.
Result<std::string> DescribePlan(const Plan& plan, const SampleOptions& options);

}  // namespace millrace::cli
