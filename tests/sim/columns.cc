// The columns of a simulated history: workers measure their ranges, the dispatchers' host keeps
// them, and plans that read them are ready late. Checks I13.

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "common/base/protocol_limits.h"
#include "tests/sim/world.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::uint64_t RangesIn(const v1::ColumnSet& set) {
  return (set.examples() + kMeasuredRange - 1) / kMeasuredRange;
}

}  // namespace

bool World::IsMeasured(const v1::PipelineText& pipeline) const {
  const std::optional<v1::ColumnSet> set = ColumnOf(pipeline);
  if (!set) return true;
  const auto kept = columns_.find(ColumnSetKey(*set));
  return kept != columns_.end() && kept->second.whole;
}

std::optional<ColumnWant> World::MissingColumns(std::size_t index,
                                                const v1::PipelineText& pipeline) const {
  const std::vector<std::string> datasets = DatasetsOf(pipeline);
  const bool open = std::all_of(datasets.begin(), datasets.end(), [&](const std::string& id) {
    return dispatchers_[index]->open.contains(id);
  });
  if (IsMeasured(pipeline) || !open || !dispatcher_data_.Compile(pipeline).ok()) {
    return std::nullopt;
  }
  ColumnWant want;
  want.set = *ColumnOf(pipeline);
  const auto kept = columns_.find(ColumnSetKey(want.set));
  if (kept != columns_.end()) {
    want.measured.assign(kept->second.ranges.begin(), kept->second.ranges.end());
  }
  return want;
}

void World::KeepRange(std::size_t index, const v1::Measured& measured) {
  DispatcherNode& node = *dispatchers_[index];
  const std::string key = ColumnSetKey(measured.set());
  const std::uint64_t range = measured.run().first() / kMeasuredRange;
  if (!node.kept.emplace(key, range).second) {
    Fail(fmt::format("I13: range {} of a column is kept twice", range));
  }
  if (measured.columns(0).values() != MeasuredOf(measured.set().dataset_digest(), measured.run())) {
    Fail(fmt::format("I13: range {} of a column has the values of other data", range));
  }
  ++counts_.ranges;
  columns_[key].ranges.insert(range);
}

void World::FinishColumn(std::size_t index, const FinishColumns& action) {
  KeptColumn& kept = columns_[action.key];
  if (kept.ranges.size() != RangesIn(action.set)) {
    Fail(fmt::format("I13: a column with {} of {} ranges is taken for whole", kept.ranges.size(),
                     RangesIn(action.set)));
  }
  if (!kept.whole) ++counts_.columns;
  kept.whole = true;
  net_.In(
      dispatchers_[index]->process, net_.UpTo(milliseconds(200)), [this, index, key = action.key] {
        OnDispatcher(index, dispatchers_[index]->machine->OnColumnsKept(key, OkStatus(), Now()));
      });
}

/// Checks that only workers with the right data are told to measure.
void World::CheckTasks(const DispatcherNode& node, const millrace::SendWork& action) {
  const Worker* worker = node.machine->facts().FindWorker(WorkerId(FromProto(action.message.id())));
  if (worker == nullptr) return;
  for (const v1::MeasureTask& task : action.message.measure()) {
    const auto has = worker->report.datasets().find(task.set().dataset());
    if (has != worker->report.datasets().end() &&
        has->second.digest() == task.set().dataset_digest()) {
      continue;
    }
    Fail(fmt::format("I13: {} shall measure {}, which it does not have", worker->report.name(),
                     task.set().dataset()));
  }
}

void World::CheckColumns(const v1::PipelineText& pipeline) {
  if (!IsMeasured(pipeline)) Fail("I13: a session begins before its column is measured");
}

void World::StartMeasure(std::size_t index, const MeasureJob& job) {
  WorkerNode& node = *workers_[index];
  ++node.building;
  const Duration takes =
      node.slow_until > net_.now() ? net_.UpTo(seconds(3)) : net_.UpTo(milliseconds(150));
  net_.In(node.process, takes, [this, index, job] {
    WorkerNode& measurer = *workers_[index];
    --measurer.building;
    const std::string& dataset = job.set.dataset();
    const PlanData data = worker_data_[index].DataOf(job.pipeline);
    const Status intact = worker_data_[index].CheckIntact(data);
    Result<std::vector<v1::MeasuredColumn>> columns = std::vector<v1::MeasuredColumn>(1);
    if (!worker_data_[index].Of(dataset).configured ||
        data.digest.ToHex() != job.set.dataset_digest()) {
      columns = FailedPrecondition("this host's dataset differs");
    } else if (!intact.ok() && net_.Chance(0.5)) {  // not every example reads the file that is bad
      columns = intact;
    } else {
      columns->front().set_width(1);
      columns->front().set_values(MeasuredOf(data.digest.ToHex(), job.run));
    }
    measurer.machine->OnMeasured(job, std::move(columns), net_.now());
    AfterWorker(index);
  });
}

}  // namespace millrace::sim
