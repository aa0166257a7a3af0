// The scratch memory of one builder thread, for each plan, and the current stage of its batch.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/system/mutex.h"
#include "server/plan/plan.h"

namespace millrace {

/// Belongs to one thread. Only stage() may be called from others.
class BuilderScratch {
 public:
  /// The scratch for a batch of this plan. A plan that was dropped and compiled again is another
  /// object and gets a new scratch. The reference is valid until the next call of Use or Forget.
  BatchScratch& Use(const std::string& fingerprint, const std::shared_ptr<const Plan>& plan);
  /// The batch is built, or cannot be. REQUIRES: a call of Use before it.
  void Done();
  /// Forgets the scratch of the plans that `is_gone` names by fingerprint. REQUIRES: no batch is
  /// being built.
  void Forget(const std::function<bool(const std::string& fingerprint)>& is_gone);

  /// The current stage of this thread's batch: a stage of the plan, or `seal` while its digest is
  /// computed. Empty if no batch is being built. Thread-safe.
  std::string stage() const;

 private:
  struct OfPlan {
    std::weak_ptr<const Plan> plan;
    std::unique_ptr<BatchScratch> scratch;
  };

  std::map<std::string, OfPlan> plans_;  // by fingerprint
  mutable Mutex mutex_;
  const BatchScratch* in_use_ MILLRACE_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace millrace
