// The pipelines that sessions ask for: which are being compiled, are ready, or are tried again, and
// for how long the ready ones are kept.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "server/dispatcher/machine/sessions.h"
#include "server/dispatcher/machine/transition.h"

namespace millrace {

class PlanRequests {
 public:
  /// Both have to outlive it. `sessions` ends those whose plan cannot be compiled.
  PlanRequests(Transition& transition, Sessions& sessions)
      : transition_(transition),
        facts_(transition.facts()),
        options_(transition.options()),
        sessions_(sessions) {}

  /// Asks for a plan if nobody has; `key` is the pipeline's PlanKey. False where there are too many
  /// plans, all of them in use or being compiled.
  bool Request(const std::string& key, const v1::PipelineText& pipeline);
  /// A CompilePlan is answered.
  void OnCompiled(const std::string& key, const Result<std::shared_ptr<const PlanFacts>>& plan);
  /// A dataset of this host has this digest now.
  void OnDataset(const std::string& dataset, const std::string& digest);
  /// Forgets plans that nobody has needed for a while, and tries again those that are due.
  void Tend();

 private:
  void RequestAgain(const std::string& key);
  /// Plans that no session needs, over another state of the dataset: who asks for them again means
  /// the new one.
  void ForgetOlder(const std::string& dataset, const std::string& digest);
  /// Keys of the plans that sessions have asked for.
  std::set<std::string> Used() const;

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
  Sessions& sessions_;
};

}  // namespace millrace
