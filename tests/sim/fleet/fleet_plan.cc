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

class FleetPlan final : public PlanFacts {
 public:
  FleetPlan(std::uint64_t job, std::uint64_t batch_bytes, std::uint64_t window_units)
      : fingerprint_{kDatasetDigest, {job + 1, 4}},
        batch_bytes_(batch_bytes),
        window_units_(window_units) {}

  const Fingerprint& fingerprint() const override { return fingerprint_; }
  const Fingerprint& order_fingerprint() const override { return fingerprint_; }
  const std::vector<PlanDataset>& datasets() const override { return datasets_; }
  const std::string& canonical_text() const override { return canonical_; }
  const std::string& code() const override { return code_; }
  const std::string& static_digest() const override { return digest_; }
  std::uint64_t window_units() const override { return window_units_; }
  Result<StepArithmetic> Steps(std::uint32_t world_size) const override {
    return StepArithmetic::Create({.examples = kExamples, .size = 1, .world_size = world_size});
  }
  Result<v1::Spec> Spec(std::uint32_t world_size) const override {
    v1::Spec spec;
    spec.mutable_steps()->set_examples(kExamples);
    spec.mutable_steps()->set_size(1);
    spec.mutable_steps()->set_world_size(world_size);
    spec.set_max_batch_bytes(batch_bytes_);
    spec.set_window_units(window_units_);
    return spec;
  }

 private:
  const Fingerprint fingerprint_;
  const std::uint64_t batch_bytes_;
  const std::uint64_t window_units_;
  const std::vector<PlanDataset> datasets_{{kFleetDataset, kDatasetDigest}};
  const std::string canonical_ = "source=proof_states\n";
  const std::string code_;
  const std::string digest_ = Digest128{5, 6}.ToHex();
};

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
  return std::make_shared<FleetPlan>(job, bytes, window);
}

}  // namespace millrace::sim
