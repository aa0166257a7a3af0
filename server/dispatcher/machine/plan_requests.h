// Manages the plans that sessions ask for. It has them compiled, here or by workers, tries again if
// that failed only for the moment, and decides how long plans are kept.
//
// Not thread-safe: it belongs to the event loop.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/dispatcher/machine/column_work.h"
#include "server/dispatcher/machine/sessions.h"
#include "server/dispatcher/machine/transition.h"

namespace millrace {

class PlanRequests {
 public:
  /// All have to outlive it. `sessions` ends the sessions whose plan cannot be compiled, and
  /// `columns` has missing columns measured.
  PlanRequests(Transition& transition, Sessions& sessions, ColumnWork& columns)
      : transition_(transition),
        facts_(transition.facts()),
        options_(transition.options()),
        sessions_(sessions),
        columns_(columns) {}

  /// Asks for a plan, unless somebody has done so before. `key` is the pipeline's PlanKey. False if
  /// there are too many plans, and all of them are in use or being compiled.
  bool Request(const std::string& key, const v1::PipelineText& pipeline);
  /// Takes the answer to a CompilePlan.
  void OnCompiled(const std::string& key, const Result<std::shared_ptr<const PlanFacts>>& plan);
  /// Takes the answer to a CompilePlan that columns have to be measured first.
  void OnColumnsMissing(const std::string& key, const ColumnWant& want);
  /// Takes the answer to a CompilePlan that this host lacks plugins: workers are asked.
  void OnPluginsMissing(const std::string& key, const std::vector<std::string>& plugins);
  /// Takes the answer to a CompilePlan that data of this host are damaged. Workers are asked for
  /// the plan of a job that an earlier dispatcher began: had the damage come later, the job would
  /// go on with the workers. Other plans are refused.
  void OnDataDamaged(const std::string& key, const Status& why,
                     const std::vector<std::string>& named);
  /// Takes a worker's answers to such questions.
  void OnAnswers(const v1::WorkRequest& request);
  /// Compiles plans again that lacked these columns. Call it before the columns are forgotten.
  void OnColumnsKept(const std::string& columns);
  /// Takes the digest that a dataset of this host has now.
  void OnDataset(const std::string& dataset, const std::string& digest);
  /// Forgets plans that nobody has needed for a while, and compiles plans again if their retry is
  /// due.
  void Tend();

 private:
  void RequestAgain(const std::string& key);
  /// Asks the workers that have `named`. `damage`: OK if this host lacks them.
  void Ask(const std::string& key, const std::vector<std::string>& named, const Status& damage);
  /// Whether a job that an earlier dispatcher began has this plan.
  bool BeganBefore(const std::string& key) const;
  /// Fingerprints in the records of jobs that have begun with a plan and have not ended.
  std::set<std::string> FingerprintsOf(const std::string& key) const;
  /// Whether a worker's answer is the plan of the jobs that have begun with it. If no such answer
  /// comes while workers come back, any answer will do.
  bool IsOfItsJobs(const RequestedPlan& plan, const v1::PlanAnswer& answer) const;
  /// Forgets a plan that a worker has compiled, if no session uses it and no worker has its data
  /// any more.
  void ForgetIfStale(const std::string& key);
  /// Forgets a plan that cannot be compiled, and ends the sessions that ask for it.
  void Refuse(const std::string& key, const Status& why);
  /// Marks the jobs of the sessions that ask for a plan. Returns these sessions.
  std::vector<SessionId> MarkAsking(const std::string& key);
  /// Forgets plans that no session needs, if they belong to another state of the dataset. A session
  /// that asks for one of them later gets a plan of the new state.
  void ForgetOlder(const std::string& dataset, const std::string& digest);
  /// The keys of the plans that the present sessions have asked for.
  std::set<std::string> Used() const;

  Transition& transition_;
  const DispatcherFacts& facts_;
  const DispatcherOptions& options_;
  Sessions& sessions_;
  ColumnWork& columns_;
};

}  // namespace millrace
