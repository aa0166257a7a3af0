// How the threads of a worker build one batch together.

#include <algorithm>

#include "server/worker/machine/worker_machine.h"

namespace millrace {

bool WorkerMachine::IsByRow(const std::string& plan) const {
  const auto found = plans_.find(plan);
  return found != plans_.end() && found->second.by_row;
}

int WorkerMachine::MostThreads(const std::string& plan) const {
  int most = tuning_.threads();
  const auto found = plans_.find(plan);
  if (found == plans_.end()) return most;
  for (const std::uint64_t pool : found->second.pools) {
    most = std::min(most, tuning_.Processes(pool));
  }
  return std::max(1, most);
}

std::uint32_t WorkerMachine::SplitOf(const std::string& plan, const PlanBuilds& builds) const {
  if (!IsByRow(plan)) return 1;
  const std::size_t slices = BatchSlices::CountOf(builds.rows, builds.time.seconds());
  return static_cast<std::uint32_t>(
      std::min(slices, static_cast<std::size_t>(MostThreads(plan))));
}

bool WorkerMachine::OnRows(const BuildQueue::Task& task, std::size_t rows) {
  const double seconds = build_times_.Of(task.plan).time.seconds();
  if (plans_.contains(task.plan)) build_times_.SetRows(task.plan, rows);
  if (rows < 2 || (seconds > 0 && BatchSlices::CountOf(rows, seconds) < 2)) return false;
  shared_builds_.Begin(task, rows, seconds, MostThreads(task.plan));
  if (seconds > 0) actions_.push_back(WorkerAction::WakeBuilders{});
  return true;
}

std::optional<SliceTask> WorkerMachine::NextSlice(const BuildQueue::Task& own) {
  if (!queue_.IsAwaited(own) && shared_builds_.HasRowsLeft(own.build)) {
    auto help = shared_builds_.TakeToHelp(BatchSlices::kWorthSharing, [&](const auto& task) {
      return task.build != own.build && queue_.IsAwaited(task) && queue_.MayLeaveFor(own, task);
    });
    if (help) return help;
  }
  return shared_builds_.TakeOwn(own.build);
}

std::optional<SliceTask> WorkerMachine::NextHelp(bool before_builds, Time now) {
  if (shared_builds_.empty()) return std::nullopt;
  auto help = shared_builds_.TakeToHelp(BatchSlices::kWorthSharing, [&](const auto& task) {
    return queue_.IsAwaited(task) && !queue_.OwesOther(task, now);
  });
  if (!help && !before_builds) {
    help = shared_builds_.TakeToHelp(0, [](const auto&) { return true; });
  }
  if (!help) return std::nullopt;
  idle_threads_.OnBegan();
  tuning_.OnHelps(now);
  return help;
}

bool WorkerMachine::OnSliceEnded(const SliceTask& slice, double seconds, bool ok) {
  const SharedBuilds::Progress progress = shared_builds_.Ended(slice, seconds, ok);
  if (progress.helpers_may_come) actions_.push_back(WorkerAction::WakeBuilders{});
  return progress.ended;
}

void WorkerMachine::OnLeft(Time now) {
  idle_threads_.OnEnded();
  tuning_.OnLeft(now);
}

}  // namespace millrace
