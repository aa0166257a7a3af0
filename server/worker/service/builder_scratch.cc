#include "server/worker/service/builder_scratch.h"

namespace millrace {

BatchScratch& BuilderScratch::Use(const std::string& fingerprint,
                                  const std::shared_ptr<const Plan>& plan) {
  OfPlan& own = plans_[fingerprint];
  if (own.plan.lock() != plan) own = {plan, plan->NewScratch()};
  MutexLock lock(mutex_);
  in_use_ = own.scratch.get();
  return *own.scratch;
}

void BuilderScratch::Done() {
  MutexLock lock(mutex_);
  in_use_ = nullptr;
}

void BuilderScratch::Forget(const std::function<bool(const std::string&)>& is_gone) {
  std::erase_if(plans_, [&](const auto& entry) { return is_gone(entry.first); });
}

std::string BuilderScratch::stage() const {
  MutexLock lock(mutex_);
  if (in_use_ == nullptr) return {};
  const std::string_view stage = in_use_->stage();
  // The plan's stages take all of a build but the digest, which comes last.
  return stage.empty() ? "seal" : std::string(stage);
}

}  // namespace millrace
