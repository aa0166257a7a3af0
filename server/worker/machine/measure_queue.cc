#include "server/worker/machine/measure_queue.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/mutant.h"
#include "common/base/protocol_limits.h"

namespace millrace {
namespace {

/// The same for equal sets.
std::string NameOf(const v1::ColumnSet& set) { return set.SerializeAsString(); }

}  // namespace

void MeasureQueue::Count(const Entry& entry, int sign) {
  if (!entry.result) return;
  done_ += static_cast<std::uint64_t>(sign);
  if (!entry.sent) unsent_ += static_cast<std::uint64_t>(sign);
}

void MeasureQueue::Want(const v1::WorkResponse& response) {
  std::map<std::string, v1::MeasureTask> tasks;
  std::set<Place> wanted;
  for (const v1::MeasureTask& task : response.measure()) {
    const std::string name = NameOf(task.set());
    for (const v1::ExampleRun& run : task.runs()) {
      const std::uint64_t end = std::min(run.first() + run.count(), task.set().examples());
      for (std::uint64_t first = run.first(); first < end; first += kMeasuredRange) {
        const Place place(name, first);
        wanted.insert(place);
        v1::ExampleRun& range = entries_[place].run;
        range.set_first(first);
        range.set_count(std::min(kMeasuredRange, end - first));
      }
    }
    tasks[name] = task;
    tasks[name].clear_runs();
  }
  tasks_ = std::move(tasks);
  std::erase_if(entries_, [&](const auto& entry) {
    if (wanted.contains(entry.first)) return false;
    Count(entry.second, -1);
    return true;
  });
}

std::optional<MeasureJob> MeasureQueue::Next() {
  for (auto& [place, entry] : entries_) {
    if (entry.begun) continue;
    entry.begun = true;
    const v1::MeasureTask& task = tasks_.at(std::get<0>(place));
    return MeasureJob{task.set(), task.pipeline(), entry.run};
  }
  return std::nullopt;
}

void MeasureQueue::OnMeasured(const MeasureJob& job,
                              Result<std::vector<v1::MeasuredColumn>> columns) {
  if (columns.ok()) measured_examples_ += job.run.count();
  const auto found = entries_.find(Place(NameOf(job.set), job.run.first()));
  if (found == entries_.end() || found->second.result) return;
  Entry& entry = found->second;
  v1::Measured& result = entry.result.emplace();
  *result.mutable_set() = job.set;
  *result.mutable_run() = job.run;
  if (columns.ok()) {
    for (v1::MeasuredColumn& column : *columns) *result.add_columns() = std::move(column);
  } else {
    result.set_error_code(static_cast<std::uint32_t>(columns.status().code()));
    result.set_error(columns.status().message());
  }
  Count(entry, 1);
}

void MeasureQueue::AddTo(v1::WorkRequest& report, Time now) {
  if (done_ == 0) return;
  std::size_t bytes = 0;
  for (auto& [place, entry] : entries_) {
    if (!entry.result) continue;
    if (entry.sent && (now - *entry.sent < kSendAgain || IsMutant(Mutant::kMeasuredForgotten))) {
      continue;
    }
    if (bytes > kMostBytes) return;
    bytes += entry.result->ByteSizeLong();
    *report.add_measured() = *entry.result;
    if (!entry.sent) --unsent_;
    entry.sent = now;
  }
}

void MeasureQueue::SendAgain() {
  if (IsMutant(Mutant::kMeasuredForgotten)) return;
  for (auto& [place, entry] : entries_) {
    if (!entry.result || !entry.sent) continue;
    entry.sent.reset();
    ++unsent_;
  }
}

}  // namespace millrace
