#include "tests/sim/fleet/fleet_plan.h"

#include <cstdio>
#include <string>
#include <vector>

#include <fmt/core.h>

namespace millrace::sim {
namespace {

constexpr Digest128 kDatasetDigest{0x1234567890abcdef, 0xfedcba0987654321};
constexpr std::uint64_t kExamples = 1'000'000'000'000;
constexpr const char* kPipeline = "job={} bytes={} window={}";

}  // namespace

v1::DatasetState FleetDataset() {
  v1::DatasetState state;
  state.set_digest(kDatasetDigest.ToHex());
  state.set_examples(kExamples);
  return state;
}

std::uint64_t JobOfPlan(const std::string& fingerprint) {
  return Fingerprint::FromString(fingerprint)->pipeline.high - 1;
}

v1::PipelineText FleetPipeline(const FleetSetup& setup, std::size_t job) {
  v1::PipelineText text;
  text.set_yaml(
      fmt::format(kPipeline, setup.twins ? 0 : job, setup.batch_bytes, setup.window_units));
  return text;
}

std::shared_ptr<const PlanFacts> CompileFleetPlan(const v1::PipelineText& pipeline) {
  unsigned long long job = 0;
  unsigned long long bytes = 0;
  unsigned long long window = 0;
  std::sscanf(pipeline.yaml().c_str(), "job=%llu bytes=%llu window=%llu", &job, &bytes, &window);
  const Fingerprint fingerprint{kDatasetDigest, {job + 1, 4}};
  PlanFields fields{.fingerprint = fingerprint,
                    .order_fingerprint = fingerprint,
                    .datasets = {{kFleetDataset, kDatasetDigest}},
                    .canonical_text = "source=proof_states\n",
                    .static_digest = Digest128{5, 6}.ToHex(),
                    .steps = {.examples = kExamples, .size = 1}};
  fields.spec.mutable_steps()->set_examples(kExamples);
  fields.spec.mutable_steps()->set_size(1);
  fields.spec.set_max_batch_bytes(bytes);
  fields.spec.set_window_units(window);
  return std::make_shared<const PlanFacts>(std::move(fields));
}

}  // namespace millrace::sim
