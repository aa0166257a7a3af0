// The part of `millrace inspect` about the order of a plan: text for people.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "server/plan/plan.h"

namespace millrace::cli {

/// A table of the plan's buckets, with their padding and how full their batches are; empty without
/// `batch.bucket`. Its bounds can be written into a pipeline.
std::string DescribeBuckets(const PlannedOrder& planned);

/// A table of the plan's branches: their weights, and what an epoch has of each; empty without
/// `branches`.
std::string DescribeBranches(const Plan& plan);

/// How much more the largest rank of a step has than the mean of the ranks, by the values that
/// buckets or balance go by, over some full steps of the first epoch. Empty if nothing goes by
/// values, or if there is one rank or no full step.
std::string DescribeBalance(const PlannedOrder& planned, const StepArithmetic& steps);

}  // namespace millrace::cli
