#include "server/dispatcher/service/plan_compiler.h"

#include <cstddef>
#include <string>
#include <vector>

namespace millrace {
namespace {

class FactsOfPlan final : public PlanFacts {
 public:
  FactsOfPlan(const Pipeline& pipeline, const PlanOutline& plan)
      : canonical_text_(pipeline.canonical_text()), plan_(plan) {
    for (std::size_t i = 0; i < pipeline.datasets().size(); ++i) {
      datasets_.push_back({pipeline.datasets()[i], plan.dataset_digests()[i]});
    }
  }

  const Fingerprint& fingerprint() const override { return plan_.fingerprint(); }
  const Fingerprint& order_fingerprint() const override { return plan_.order_fingerprint(); }
  const std::vector<PlanDataset>& datasets() const override { return datasets_; }
  const std::string& canonical_text() const override { return canonical_text_; }
  const std::string& code() const override { return plan_.code(); }
  const std::string& static_digest() const override { return plan_.static_digest(); }
  Result<StepArithmetic> Steps(std::uint32_t world_size) const override {
    return plan_.Steps(world_size);
  }
  Result<v1::Spec> Spec(std::uint32_t world_size) const override { return plan_.Spec(world_size); }

 private:
  std::vector<PlanDataset> datasets_;
  std::string canonical_text_;
  PlanOutline plan_;
};

}  // namespace

std::shared_ptr<const PlanFacts> MakePlanFacts(const Pipeline& pipeline, const PlanOutline& plan) {
  return std::make_shared<FactsOfPlan>(pipeline, plan);
}

}  // namespace millrace
