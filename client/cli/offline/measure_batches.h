// Builds a sample of a plan's batches as a worker does, on one thread, and measures what they cost.
#pragma once

#include <cstdint>
#include <functional>

#include "client/cli/size/sizing.h"
#include "common/base/result.h"
#include "common/epoch/position.h"
#include "server/plan/plan.h"

namespace millrace::cli {

struct MeasureOptions {
  std::uint32_t world_size = 1;
  /// The sample ends after this time, even if the mean is not steady yet. A few batches are built
  /// however long that takes.
  double seconds = 10;
  /// Called after each batch with the number of batches built so far; may be empty.
  std::function<void(std::uint64_t batches)> progress;
};

/// The examples of the batch with this number in the sample: of a random step of an epoch, and a
/// random rank. Always the same for equal arguments. Never empty, although `remainder: keep` may
/// leave ranks without examples in the last step. REQUIRES: an epoch has a step.
Result<ExampleRange> DrawBatch(const StepArithmetic& steps, std::uint64_t number);

/// Builds batches of random ranks and steps of epoch 0, always the same ones in the same order,
/// until the standard error of their mean CPU time is small, or the time is over. The first batch,
/// which makes the thread's memory, is not counted. Memory and CPU time are measured for the whole
/// process, so nothing else must run in it meanwhile. Errors of the step arithmetic and of
/// building.
Result<SampleFacts> MeasureBatches(const Plan& plan, const MeasureOptions& options);

}  // namespace millrace::cli
