#include "client/cli/offline/measure_batches.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/wait_cause.h"
#include "common/batch/batch.h"
#include "common/epoch/position.h"
#include "server/source/random.h"

namespace millrace::cli {
namespace {

/// A mean of fewer batches is not taken for steady.
constexpr std::size_t kSteadyBatches = 100;
/// The sample has so many batches, whatever the time.
constexpr std::size_t kFewestBatches = 4;
/// The standard error, as a share of the mean, at which the sample ends.
constexpr double kSteadyError = 0.02;
/// Any number: it decides which batches are drawn.
constexpr std::uint64_t kDrawKey = 20;

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// CPU seconds of all threads of this process.
double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Bytes of memory that the process has, without mapped files; 0 if the kernel does not tell.
double MemoryBytes() {
  std::ifstream in("/proc/self/statm");
  double size = 0;
  double resident = 0;
  double shared = 0;
  if (!(in >> size >> resident >> shared)) return 0;
  return (resident - shared) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// Bytes that this process had to read from storage, page faults included.
std::optional<double> StorageBytes() {
  std::ifstream in("/proc/self/io");
  std::string name;
  double bytes = 0;
  while (in >> name >> bytes) {
    if (name == "read_bytes:") return bytes;
  }
  return std::nullopt;
}

/// Sums and values over the batches of a sample.
struct Costs {
  std::vector<double> cpu;
  std::vector<double> bytes;
  double elapsed = 0;
  double examples = 0;

  std::size_t count() const { return cpu.size(); }
};

/// Builds one batch, digest included, and adds its cost.
Result<std::shared_ptr<const PackedBatch>> Build(const Plan& plan, ExampleRange range,
                                                 BatchScratch& scratch, Costs& costs) {
  const Clock::time_point began = Clock::now();
  const double cpu = CpuSeconds();
  MILLRACE_ASSIGN_OR_RETURN(auto batch, plan.Batch(0, range, scratch));
  batch->digest();
  costs.cpu.push_back(CpuSeconds() - cpu);
  costs.elapsed += SecondsSince(began);
  costs.bytes.push_back(static_cast<double>(batch->header().size() + batch->payload().size()));
  costs.examples += static_cast<double>(batch->examples());
  return batch;
}

std::vector<StageCost> StagesOf(const std::vector<BatchScratch::StageTime>& before,
                                const std::vector<BatchScratch::StageTime>& after, double count) {
  std::vector<StageCost> stages;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double seconds = Rounded((after[i].seconds - before[i].seconds) / count);
    stages.push_back({std::string(after[i].stage), seconds, IsPythonStage(after[i].stage)});
  }
  return stages;
}

/// Says when the sample is large enough.
class Enough {
 public:
  explicit Enough(double seconds) : seconds_(seconds) {}

  bool operator()(const Costs& costs, double elapsed) {
    if (costs.count() >= kFewestBatches && elapsed >= seconds_) return true;
    // The spread is computed anew only after a tenth more batches, since it sorts all of them.
    if (costs.count() < next_look_) return false;
    next_look_ = costs.count() + costs.count() / 10;
    return SpreadOf(costs.cpu).error <= kSteadyError;
  }

 private:
  const double seconds_;
  std::size_t next_look_ = kSteadyBatches;
};

}  // namespace

Result<ExampleRange> DrawBatch(const StepArithmetic& steps, std::uint64_t number) {
  generator::Random random(generator::Mix(kDrawKey, number));
  const std::uint64_t epoch_steps = steps.StepsFrom(0);
  while (true) {
    MILLRACE_ASSIGN_OR_RETURN(const Position at, steps.StepAt(0, random.Next() % epoch_steps));
    const ExampleRange range = steps.RankExamples(at, random.Below(steps.options().world_size));
    if (range.count > 0) return range;
  }
}

Result<SampleFacts> MeasureBatches(const Plan& plan, const MeasureOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan.facts().Steps(options.world_size));
  MILLRACE_RETURN_IF_ERROR(steps.Start({}).status());  // why an epoch has no step
  SampleFacts sample;
  const double base = MemoryBytes();
  const std::unique_ptr<BatchScratch> scratch = plan.NewScratch();
  Costs costs;
  MILLRACE_ASSIGN_OR_RETURN(ExampleRange range, DrawBatch(steps, 0));
  MILLRACE_ASSIGN_OR_RETURN(auto batch, Build(plan, range, *scratch, costs));
  costs = {};
  const std::vector<BatchScratch::StageTime> before = scratch->stage_times();
  const std::optional<double> stored = StorageBytes();
  const Clock::time_point began = Clock::now();
  for (Enough enough(options.seconds); !enough(costs, SecondsSince(began));) {
    MILLRACE_ASSIGN_OR_RETURN(range, DrawBatch(steps, 1 + costs.count()));
    batch.reset();  // its memory is used again
    MILLRACE_ASSIGN_OR_RETURN(batch, Build(plan, range, *scratch, costs));
    if (options.progress) options.progress(costs.count());
  }
  const auto count = static_cast<double>(costs.count());
  sample.seconds = Rounded(SecondsSince(began));
  sample.base_bytes = Rounded(base);
  sample.builder_bytes = Rounded(std::max(0.0, MemoryBytes() - base - costs.bytes.back()));
  if (const std::optional<double> now = StorageBytes(); now && stored) {
    sample.storage_bytes = Rounded((*now - *stored) / count);
  }
  sample.cpu = SpreadOf(std::move(costs.cpu));
  sample.elapsed_seconds = Rounded(costs.elapsed / count);
  sample.stages = StagesOf(before, scratch->stage_times(), count);
  sample.examples = Rounded(costs.examples / count);
  sample.bytes = SpreadOf(std::move(costs.bytes));
  return sample;
}

}  // namespace millrace::cli
