// A worker's threads. Some build batches; others open datasets, compile plans and look at the files
// in use. Each takes its task under the mutex, works without the mutex, and brings the outcome back
// under it.

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include "server/plan/facts/plan_facts.h"
#include "server/worker/service/builder.h"
#include "server/worker/service/worker_service.h"

namespace millrace {
namespace {

/// The difference from the host of the dispatcher, whose lines about code of plugins are `theirs`.
std::string WhyCompilesElse(const Plan& plan, const std::string& theirs) {
  const std::string ours = plan.facts().code();
  std::istringstream here(ours);
  std::istringstream there(theirs);
  for (std::string a, b; ours != theirs;) {
    const bool more_here = static_cast<bool>(std::getline(here, a));
    const bool more_there = static_cast<bool>(std::getline(there, b));
    if (!more_here && !more_there) break;
    if (more_here && more_there && a == b) continue;
    return "this host's plugin differs: '" + (more_here ? a : "nothing") + "' here, '" +
           (more_there ? b : "nothing") + "' at the dispatcher";
  }
  return "this host's dataset or program differs";
}

/// Compiles a plan that the dispatcher wants kept, or asks for.
Result<WorkerMachine::ReadyPlan> Compile(PlanProvider& provider, const v1::PlanSpec& spec) {
  Result<std::shared_ptr<const Plan>> plan = provider.CompilePlan(spec.pipeline());
  WorkerMachine::ReadyPlan ready;
  if (!plan.ok()) {
    if (!spec.asked() || plan.status().code() != StatusCode::kUnavailable) return plan.status();
    auto lacks = provider.MissingColumns(spec.pipeline());
    if (!lacks) return plan.status();
    *ready.answer.emplace().mutable_lacks() = *std::move(lacks);
    return ready;
  }
  ready.plan = *plan;
  ready.by_row = (*plan)->by_row();
  ready.pools = (*plan)->pools();
  ready.static_digest = (*plan)->facts().static_digest();
  ready.fingerprint = (*plan)->facts().fingerprint().ToString();
  ready.difference = WhyCompilesElse(**plan, spec.code());
  if (spec.asked()) *ready.answer.emplace().mutable_outline() = (*plan)->facts().ToProto();
  return ready;
}

}  // namespace

void WorkerService::StartBuilders() {
  for (int i = static_cast<int>(scratch_.size()); i < machine_.threads(); ++i) {
    BuilderScratch& scratch = scratch_.emplace_back();
    builders_.emplace_back([this, i, &scratch] { BuildLoop(i, scratch); });
  }
}

void WorkerService::BuildLoop(int number, BuilderScratch& scratch) {
  ThreadMeasurer measurer;
  while (std::optional<Work> work = TakeWork(number, scratch, measurer)) {
    if (const auto* build = std::get_if<Build>(&*work)) {
      if (build->task.by_slices) {
        BuildInSlices(*build, scratch);
      } else {
        OnBuilt(BuildOne(*build, scratch), scratch);
      }
    } else if (const auto* help = std::get_if<Help>(&*work)) {
      HelpWith(*help, scratch);
    } else {
      Measure(std::get<MeasureJob>(*work), measurer);
    }
  }
}

std::optional<WorkerService::Work> WorkerService::TakeWork(int number, BuilderScratch& scratch,
                                                           ThreadMeasurer& measurer) {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (number >= machine_.threads()) {
      // A thread that rests gives its memory back.
      scratch.Forget([](const std::string&) { return true; });
      measurer = {};
      work_available_.Wait(mutex_);
      continue;
    }
    if (std::optional<Help> help = TakeHelp(true, scratch)) return Work(*std::move(help));
    if (std::optional<Build> build = TakeBuild(scratch)) return Work(*std::move(build));
    if (stopping_) break;
    if (std::optional<Help> help = TakeHelp(false, scratch)) return Work(*std::move(help));
    if (std::optional<MeasureJob> job = machine_.NextMeasure()) return Work(*std::move(job));
    if (machine_.measuring().pending() == 0) measurer = {};
    work_available_.Wait(mutex_);
  }
  return std::nullopt;
}

std::optional<WorkerService::Build> WorkerService::TakeBuild(BuilderScratch& scratch) {
  while (!stopping_) {
    std::optional<BuildQueue::Task> task = machine_.NextBuild(clock_->Now());
    Perform();
    if (!task) return std::nullopt;
    const WorkerMachine::KeptPlan* entry = machine_.FindReady(task->plan);
    if (entry == nullptr) {
      machine_.OnBuildFailed(*task, Unavailable("plan is gone"), clock_->Now());
      Perform();
      continue;
    }
    ForgetPlans(scratch);
    building_.insert_or_assign(&scratch, Building{*task, Tracer::ThreadLane()});
    return Build{*std::move(task), entry->plan};
  }
  return std::nullopt;
}

void WorkerService::ForgetPlans(BuilderScratch& scratch) {
  scratch.Forget([this](const std::string& plan)
                     MILLRACE_REQUIRES(mutex_) { return !machine_.plans().contains(plan); });
}

void WorkerService::Measure(const MeasureJob& job, ThreadMeasurer& measurer) {
  const std::string set = job.set.SerializeAsString();
  Status made;
  if (measurer.measurer == nullptr || measurer.set != set) {
    auto fresh = provider_->NewMeasurer(job.set, job.pipeline);
    made = fresh.status();
    measurer = {set, fresh.ok() ? *std::move(fresh) : nullptr};
  }
  Result<std::vector<v1::MeasuredColumn>> columns =
      made.ok() ? measurer.measurer->Measure(job.run) : made;
  MutexLock lock(mutex_);
  machine_.OnMeasured(job, std::move(columns), clock_->Now());
  if (!stopping_) Perform();
}

WorkerService::BuildOutcome WorkerService::BuildOne(const Build& build,
                                                    BuilderScratch& scratch) const {
  BatchScratch& own = scratch.Use(build.task.plan, build.plan);
  const StageTimes before = own.stage_times();
  const Time began = clock_->Now();
  Result<std::shared_ptr<const PackedBatch>> batch =
      build.plan->Batch(build.task.at.epoch, build.task.range, own);
  const StageTimes after = own.stage_times();
  Result<std::shared_ptr<const BuiltBatch>> built =
      MakeBuilt(build.task, std::move(batch), IsMostlyPython(StagesBetween(before, after)));
  const Time ended = clock_->Now();
  scratch.Done();
  return {build.task, std::move(built), began, ended, before, after};
}

void WorkerService::OnBuilt(BuildOutcome outcome, const BuilderScratch& scratch) {
  const auto& [task, built, began, ended, before, after] = outcome;
  const SliceBuilder::Took took{ToSeconds(ended - began), StagesBetween(before, after)};
  MutexLock lock(mutex_);
  building_.erase(&scratch);
  if (trace_.tracer().on()) RecordBuild(task, began, ended, before, after);
  TellBuilt(task, std::move(outcome.built), took, ended);
  if (!stopping_) Perform();
}

void WorkerService::TellBuilt(const BuildQueue::Task& task,
                              Result<std::shared_ptr<const BuiltBatch>> built,
                              const SliceBuilder::Took& took, Time now) {
  if (!built.ok()) return machine_.OnBuildFailed(task, built.status(), now);
  const std::uint64_t bytes = (*built)->batch->bytes().size();
  machine_.OnBuilt(task, std::move(built).value(), bytes, took.seconds, took.stages, now);
}

void WorkerService::OpenDatasets() {
  provider_->OpenDatasets([this] {
    MutexLock lock(mutex_);
    if (stopping_) return;
    machine_.ReportSoon(clock_->Now());
    Perform();
    prepare_available_.NotifyAll();
  });
}

void WorkerService::DatasetsChanged() {
  MutexLock lock(mutex_);
  if (stopping_) return;
  machine_.OnDatasetsChanged(clock_->Now());
  Perform();
  prepare_available_.NotifyAll();
}

void WorkerService::PrepareLoop() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    std::erase_if(to_compile_, [this](const v1::PlanSpec& spec) MILLRACE_REQUIRES(mutex_) {
      return !machine_.plans().contains(spec.fingerprint());
    });
    // Only plans of a dataset that is still being opened have to wait for it.
    const auto next =
        std::find_if(to_compile_.begin(), to_compile_.end(),
                     [this](const v1::PlanSpec& spec) { return provider_->CanCompile(spec); });
    if (next == to_compile_.end()) {
      prepare_available_.Wait(mutex_);
      continue;
    }
    const v1::PlanSpec spec = *next;
    to_compile_.erase(next);
    lock.Unlock();
    Result<WorkerMachine::ReadyPlan> compiled = Compile(*provider_, spec);
    lock.Lock();
    if (stopping_) return;
    machine_.OnPlan(spec.fingerprint(), std::move(compiled), clock_->Now());
    Perform();
  }
}

// This has a thread of its own: a file system may be slow, and PrepareLoop may be busy for a long
// time with the index of another dataset.
void WorkerService::WatchLoop() {
  while (WaitForCheck()) {
    if (provider_->CheckFiles(stop_looking_.get_token())) CheckPlans();
  }
}

bool WorkerService::WaitForCheck() {
  MutexLock lock(mutex_);
  while (!look_due_ && !stopping_) look_due_changed_.Wait(mutex_);
  look_due_ = false;
  return !stopping_;
}

std::map<std::string, std::shared_ptr<const Plan>> WorkerService::ReadyPlans() {
  MutexLock lock(mutex_);
  std::map<std::string, std::shared_ptr<const Plan>> ready;
  for (const auto& [fingerprint, entry] : machine_.plans()) {
    if (entry.phase == v1::READY && entry.plan != nullptr) ready[fingerprint] = entry.plan;
  }
  return ready;
}

void WorkerService::CheckPlans() {
  for (const auto& [fingerprint, plan] : ReadyPlans()) {
    const Status status = provider_->CheckPlan(*plan);
    MutexLock lock(mutex_);
    if (stopping_) return;
    const auto kept = machine_.plans().find(fingerprint);
    if (kept == machine_.plans().end() || kept->second.plan != plan) continue;
    if (status.code() == StatusCode::kDataLoss) {
      machine_.OnPlan(fingerprint, status, clock_->Now());
      Perform();
    }
  }
  MutexLock lock(mutex_);
  if (stopping_) return;
  machine_.ReportSoon(clock_->Now());
  Perform();
}

}  // namespace millrace
