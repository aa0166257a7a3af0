// How a worker's threads build one batch together, slice by slice. The machine decides who builds
// which slice (shared_builds.h).

#include <memory>
#include <optional>
#include <utility>

#include "server/worker/service/worker_service.h"

namespace millrace {

template <class F>
auto WorkerService::Timed(SliceBuilder& builder, BuilderScratch& scratch, F work) {
  BatchScratch& own = scratch.Use(builder.task().plan, builder.plan());
  const StageTimes before = own.stage_times();
  const Time began = clock_->Now();
  auto made = work(own);
  const Time ended = clock_->Now();
  scratch.Done();
  const StageTimes after = own.stage_times();
  builder.Add(ToSeconds(ended - began), StagesBetween(before, after));
  if (trace_.tracer().on()) {
    MutexLock lock(mutex_);
    RecordBuild(builder.task(), began, ended, before, after);
  }
  return std::pair(std::move(made), ToSeconds(ended - began));
}

void WorkerService::BuildInSlices(const Build& build, BuilderScratch& scratch) {
  const std::shared_ptr<SliceBuilder> builder = BeginSlices(build, scratch);
  if (builder == nullptr) return;
  while (const std::optional<Help> next = NextSlice(build.task, scratch)) {
    BuildSlice(*next, scratch);
  }
  Leave(scratch);
}

std::shared_ptr<SliceBuilder> WorkerService::BeginSlices(const Build& build,
                                                         BuilderScratch& scratch) {
  BatchScratch& own = scratch.Use(build.task.plan, build.plan);
  const StageTimes before = own.stage_times();
  const Time began = clock_->Now();
  auto batch = build.plan->BeginSlices(build.task.at.epoch, build.task.range, own);
  const Time ended = clock_->Now();
  scratch.Done();
  const StageTimes after = own.stage_times();
  if (!batch.ok()) {
    OnBuilt({build.task, MakeBuilt(build.task, batch.status(), false), began, ended, before, after},
            scratch);
    return nullptr;
  }
  const std::size_t rows = (*batch)->rows();
  auto builder = std::make_shared<SliceBuilder>(build.task, build.plan, *std::move(batch));
  builder->Add(ToSeconds(ended - began), StagesBetween(before, after));
  {
    MutexLock lock(mutex_);
    if (machine_.OnRows(build.task, rows)) {
      slices_.emplace(build.task.build, builder);
      if (!stopping_) Perform();
      return builder;
    }
  }
  OnBuilt(BuildOne(build, scratch), scratch);
  return nullptr;
}

std::optional<WorkerService::Help> WorkerService::NextSlice(const BuildQueue::Task& own,
                                                            const BuilderScratch& scratch) {
  MutexLock lock(mutex_);
  if (stopping_) return std::nullopt;
  const std::optional<SliceTask> slice = machine_.NextSlice(own);
  if (!slice) return std::nullopt;
  return BeginSlice(*slice, scratch);
}

std::optional<WorkerService::Help> WorkerService::TakeHelp(bool before_builds,
                                                           BuilderScratch& scratch) {
  const std::optional<SliceTask> slice = machine_.NextHelp(before_builds, clock_->Now());
  if (!slice) return std::nullopt;
  ForgetPlans(scratch);
  return BeginSlice(*slice, scratch);
}

WorkerService::Help WorkerService::BeginSlice(const SliceTask& slice,
                                              const BuilderScratch& scratch) {
  building_.insert_or_assign(&scratch, Building{slice.task, Tracer::ThreadLane()});
  return {slice, slices_.at(slice.task.build)};
}

void WorkerService::HelpWith(const Help& help, BuilderScratch& scratch) {
  BuildSlice(help, scratch);
  Leave(scratch);
}

void WorkerService::BuildSlice(const Help& help, BuilderScratch& scratch) {
  const auto [ok, seconds] = Timed(*help.builder, scratch, [&](BatchScratch& own) {
    return help.builder->Build(help.slice.slice, own);
  });
  {
    MutexLock lock(mutex_);
    const bool last = machine_.OnSliceEnded(help.slice, seconds, ok);
    if (stopping_) return;
    Perform();
    if (!last) return;
  }
  JoinSlices(*help.builder, scratch);
}

void WorkerService::JoinSlices(SliceBuilder& builder, BuilderScratch& scratch) {
  auto [built, seconds] =
      Timed(builder, scratch, [&](BatchScratch& own) { return builder.Join(own); });
  MutexLock lock(mutex_);
  slices_.erase(builder.task().build);
  TellBuilt(builder.task(), std::move(built), builder.took(), clock_->Now());
  if (!stopping_) Perform();
}

void WorkerService::Leave(const BuilderScratch& scratch) {
  MutexLock lock(mutex_);
  building_.erase(&scratch);
  machine_.OnLeft(clock_->Now());
}

}  // namespace millrace
