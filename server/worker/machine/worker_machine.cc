#include "server/worker/machine/worker_machine.h"

#include <algorithm>
#include <utility>

#include "common/base/addresses.h"
#include "common/base/mutant.h"
#include "common/base/wait_cause.h"

namespace millrace {

WorkerMachine::WorkerMachine(WorkerOptions options, std::string nonce,
                             std::function<double()> random, std::shared_ptr<Logger> log)
    : options_(std::move(options)),
      nonce_(std::move(nonce)),
      dispatchers_(SplitAddresses(options_.dispatcher)),
      random_(std::move(random)),
      log_(std::move(log)),
      queue_(options_.memory_bytes),
      tuning_({.threads = options_.threads,
               .tune = options_.tune,
               .threads_given = options_.threads_given}) {}

std::vector<WorkerAction::Any> WorkerMachine::TakeActions() { return std::exchange(actions_, {}); }

void WorkerMachine::Start(Time now) {
  last_look_ = last_tick_ = now;
  tuning_.Start(now);
  Connect(now);
}

const WorkerMachine::KeptPlan* WorkerMachine::FindReady(const std::string& fingerprint) const {
  const auto found = plans_.find(fingerprint);
  if (found == plans_.end() || found->second.phase != v1::READY) return nullptr;
  return found->second.spec.asked() ? nullptr : &found->second;
}

Status WorkerMachine::WhyNotReady(const std::string& fingerprint) const {
  const auto plan = plans_.find(fingerprint);
  if (plan == plans_.end() || plan->second.phase != v1::FAILED) {
    return Unavailable("plan " + fingerprint + " is " +
                       (plan == plans_.end() ? "not known" : "still being compiled") +
                       " at worker " + options_.name);
  }
  // Damaged files stay damaged, and the consumer has to know that. All other reasons lie in how
  // this host is set up.
  if (plan->second.error.code() == StatusCode::kDataLoss) return plan->second.error;
  return FailedPrecondition("plan failed here: " + plan->second.error.message());
}

bool WorkerMachine::SetMemoryBudget(std::uint64_t bytes) {
  const bool forgets = queue_.built_bytes() + queue_.kept_bytes() > bytes;
  queue_.SetMemoryBudget(bytes);
  if (!forgets) WakeBuilders();
  return forgets;
}

void WorkerMachine::OnPlan(const std::string& fingerprint, Result<ReadyPlan> plan, Time now) {
  const auto found = plans_.find(fingerprint);
  if (found == plans_.end()) return;
  KeptPlan& entry = found->second;
  // A step of a plan is of this plan alone: other bytes may never be sent for it.
  if (plan.ok() && !entry.spec.asked() && plan->fingerprint != fingerprint &&
      !IsMutant(Mutant::kOtherCodeServed)) {
    plan = FailedPrecondition("compiles to " + plan->fingerprint + " here, expected " +
                              fingerprint + ": " + plan->difference);
  }
  if (plan.ok()) {
    entry.plan = std::move(plan->plan);
    entry.static_digest = std::move(plan->static_digest);
    entry.answer = std::move(plan->answer);
    entry.by_row = plan->by_row;
    entry.pools = std::move(plan->pools);
    entry.phase = v1::READY;
    log_->Info("plan ready", {{"plan", fingerprint}});
  } else if (entry.phase == v1::READY) {
    // Only DataLoss ends a ready plan. Other errors answer requests from before it was ready.
    if (plan.status().code() == StatusCode::kDataLoss && !IsMutant(Mutant::kDamageIgnored)) {
      FailPlan(fingerprint, entry, plan.status(), now);
    }
  } else {
    // The same error may come every two seconds, for as long as a dispatcher is away.
    if (entry.error != plan.status()) {
      log_->Error("plan failed", {{"plan", fingerprint}, {"error", plan.status()}});
    }
    entry.phase = v1::FAILED;
    entry.error = plan.status();
    entry.retry_at = now + kCompileAgain;
  }
  SendReport(now);
}

void WorkerMachine::OnDatasetsChanged(Time now) {
  for (auto& [fingerprint, entry] : plans_) {
    if (entry.phase != v1::FAILED || IsMutant(Mutant::kFailedPlanKept)) continue;
    entry.phase = v1::COMPILING;
    entry.error = OkStatus();
    actions_.push_back(WorkerAction::CompilePlan{entry.spec});
  }
  SendReport(now);
}

void WorkerMachine::OnMeasured(const MeasureJob& job,
                               Result<std::vector<v1::MeasuredColumn>> columns, Time now) {
  measuring_.OnMeasured(job, std::move(columns));
  // Otherwise the next tick sends it, together with more.
  if (measuring_.pending() == 0 && measuring_.HasNews()) SendReport(now);
}

void WorkerMachine::FailPlan(const std::string& fingerprint, KeptPlan& entry, const Status& why,
                             Time now) {
  log_->Error("plan cannot be served any more", {{"plan", fingerprint}, {"error", why}});
  entry.phase = v1::FAILED;
  entry.error = why;
  entry.plan.reset();
  for (const StreamId id : queue_.GiveUpPlan(fingerprint)) Refuse(streams_.at(id), why);
  std::vector<StreamId> half_way;
  for (auto& [id, stream] : streams_) {
    if (stream.fingerprint != fingerprint) continue;
    if (stream.writing == Writing::kBatch) {
      half_way.push_back(id);  // the fragments that were sent may have been read from damaged bytes
    } else {
      Pump(id, stream, now);
    }
  }
  for (const StreamId id : half_way) Close(id, why);
}

WorkerMachine::StageTotal& WorkerMachine::TotalOf(std::string_view stage) {
  if (const auto known = build_seconds_.find(stage); known != build_seconds_.end()) {
    return known->second;
  }
  const bool room = build_seconds_.size() + 1 < kMaxStages;
  return build_seconds_[std::string(room ? stage : kOtherStages)];
}

std::optional<BuildQueue::Task> WorkerMachine::NextBuild(Time now) {
  std::optional<BuildQueue::Task> task = queue_.Next(now);
  tuning_.OnAsked(task.has_value(), queue_.anyone_waits(), now);
  if (task) {
    task->by_slices = BatchSlices::MayShare(build_times_.Of(task->plan).time.seconds()) &&
                      IsByRow(task->plan);
    idle_threads_.OnBegan();
    building_.emplace(task->build, UnderWay{now, task->charged});
  } else if (queue_.pending() == 0) {  // otherwise memory or a drain holds the threads back
    idle_threads_.OnNothing(tuning_.threads(), now);
  }
  PumpReady(now);
  return task;
}

void WorkerMachine::OnBuilt(const BuildQueue::Task& task, std::shared_ptr<const BuiltBatch> batch,
                            std::uint64_t bytes, double seconds,
                            const std::vector<StageTook>& stages, Time now) {
  for (const StageTook& stage : stages) {
    StageTotal& total = TotalOf(stage.stage);
    total.seconds += stage.seconds;
    total.batches.Observe(stage.seconds);
    ++total.count;
  }
  double python_seconds = 0;
  for (const StageTook& stage : stages) {
    if (IsPythonStage(stage.stage)) python_seconds += stage.seconds;
  }
  OnBuildEnded(task, 2 * python_seconds > seconds, now);
  if (plans_.contains(task.plan)) {
    build_times_.Add(task.plan, seconds, bytes);
    shares_.SetBatchSeconds(task.job, build_times_.Of(task.plan).time.seconds());
  }
  mean_build_seconds_ =
      mean_build_seconds_ == 0 ? seconds : 0.95 * mean_build_seconds_ + 0.05 * seconds;
  queue_.Built(task, std::move(batch), bytes, seconds);
  PumpReady(now);
}

void WorkerMachine::OnBuildFailed(const BuildQueue::Task& task, const Status& why, Time now) {
  log_->Error("batch cannot be built", {{"plan", task.plan}, {"error", why}});
  OnBuildEnded(task, false, now);
  // The files are looked at now, not at the next period: other batches would fail as well.
  if (why.code() == StatusCode::kDataLoss) actions_.push_back(WorkerAction::SnapshotFiles{});
  for (const auto& [id, at] : queue_.GiveUp(task, why)) {
    StreamEntry& stream = streams_.at(id);
    Refuse(stream, why, at);
    Pump(id, stream, now);
  }
}

void WorkerMachine::OnBuildEnded(const BuildQueue::Task& task, bool mostly_python, Time now) {
  building_.erase(task.build);
  tuning_.OnBuilt(mostly_python);
  if (!shared_builds_.End(task.build)) OnLeft(now);
}

}  // namespace millrace
