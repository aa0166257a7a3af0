#include "server/dispatcher/machine/column_work.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/mutant.h"
#include "common/base/protocol_limits.h"
#include "common/base/refusal.h"
#include "server/dispatcher/machine/event_texts.h"
#include "server/dispatcher/machine/measurers.h"

namespace millrace {
namespace {

constexpr std::uint64_t kMostRanges = 1024;  // that a worker may have at once
constexpr std::uint64_t kRangesOfThread = 2;
constexpr Duration kTellPeriod = std::chrono::seconds(10);

bool Overlap(const v1::ColumnSet& a, const v1::ColumnSet& b) {
  return a.dataset_digest() == b.dataset_digest() && a.operations() == b.operations() &&
         a.examples() == b.examples() &&
         std::any_of(a.columns().begin(), a.columns().end(), [&](const std::string& column) {
           return std::find(b.columns().begin(), b.columns().end(), column) != b.columns().end();
         });
}

std::uint64_t LeastShare(const Worker& worker) {
  return kRangesOfThread * std::max<std::uint64_t>(worker.report.threads(), 1);
}

/// Whether the worker never can. One whose dataset or program differs may be given the right one.
bool IsForGood(StatusCode code) {
  return IsRefusedForGood(code) || code == StatusCode::kInvalidArgument;
}

}  // namespace

std::string ColumnWork::Want(const v1::PipelineText& pipeline, const ColumnWant& want) {
  for (const auto& [key, columns] : facts_.columns()) {
    if (Overlap(columns.set, want.set)) return key;
  }
  const std::string key = ColumnSetKey(want.set);
  transition_.Apply(ColumnsWanted{key, want.set, pipeline, want.measured, transition_.now()});
  const ColumnFacts& columns = *facts_.FindColumns(key);
  transition_.Log(LogLevel::kInfo, "measuring columns",
                  {{"dataset", want.set.dataset()},
                   {"columns", fmt::format("{}", fmt::join(want.set.columns(), ","))},
                   {"examples", std::to_string(want.set.examples())},
                   {"measured_before", std::to_string(columns.ranges.measured())}});
  FinishIfWhole(columns);
  bool given = false;
  for (const auto& [id, worker] : facts_.workers()) given = Give(worker) || given;
  if (given) transition_.TellWorkers();
  return key;
}

bool ColumnWork::OnReport(WorkerId worker, const v1::WorkRequest& request) {
  std::map<std::string, std::uint64_t> measured;  // ranges, by key
  for (const v1::Measured& some : request.measured()) {
    const ColumnFacts* columns = facts_.FindColumns(ColumnSetKey(some.set()));
    if (columns == nullptr || columns->whole) continue;
    ++measured[columns->key];
    Take(worker, *columns, some);
  }
  const Worker& from = *facts_.FindWorker(worker);
  for (const auto& [key, ranges] : measured) {
    const std::uint64_t share =
        std::clamp(2 * ranges, LeastShare(from), std::max(kMostRanges, LeastShare(from)));
    transition_.Apply(MeasurerPaced{key, worker, share});
    FinishIfWhole(*facts_.FindColumns(key));
  }
  return Give(from) || !request.measured().empty();
}

void ColumnWork::Take(WorkerId worker, const ColumnFacts& columns, const v1::Measured& measured) {
  if (measured.error_code() != 0) {
    return Fail(worker, columns,
                Status(static_cast<StatusCode>(measured.error_code()), measured.error()));
  }
  if (const Status fits = CheckMeasured(columns, measured); !fits.ok()) {
    return Fail(worker, columns, fits);
  }
  const std::uint64_t range = measured.run().first() / kMeasuredRange;
  if (columns.ranges.IsDone(range) && !IsMutant(Mutant::kRangeCountedTwice)) return;
  transition_.Apply(RangeMeasured{columns.key, range});
  transition_.Do(KeepMeasured{measured});
}

void ColumnWork::Fail(WorkerId worker, const ColumnFacts& columns, const Status& why) {
  const bool for_good = IsForGood(why.code());
  transition_.Log(LogLevel::kWarning, "a worker cannot measure columns",
                  {{"worker", facts_.FindWorker(worker)->report.name()},
                   {"dataset", columns.set.dataset()},
                   {"why", why.message()}});
  transition_.Note({.kind = EventKind::kMeasuringFailed,
                    .text = fmt::format("{} cannot measure columns of dataset {}: {}",
                                        WorkerSubject(facts_.FindWorker(worker)->report),
                                        columns.set.dataset(), why.message()),
                    .peer = facts_.FindWorker(worker)->report.name()});
  transition_.Apply(
      MeasurerFailed{columns.key, worker, {why, for_good, transition_.now() + options_.retry}});
  transition_.Apply(RangesTakenBack{columns.key, worker});
}

bool ColumnWork::Give(const Worker& worker) {
  std::vector<const ColumnFacts*> all;
  std::uint64_t has = 0;
  for (const auto& [key, columns] : facts_.columns()) {
    const auto given = columns.ranges.given().find(worker.id);
    if (given != columns.ranges.given().end()) has += given->second.size();
    if (!columns.whole && MayMeasure(worker, columns, transition_.now(), options_))
      all.push_back(&columns);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const ColumnFacts* a, const ColumnFacts* b) { return a->began < b->began; });
  bool gave = false;
  for (const ColumnFacts* columns : all) {
    const auto paced = columns->share.find(worker.id);
    const std::uint64_t share = paced == columns->share.end() ? LeastShare(worker) : paced->second;
    if (share <= has) continue;
    std::vector<std::uint64_t> open = columns->ranges.Open(share - has);
    if (open.empty()) continue;
    has += open.size();
    gave = true;
    transition_.Apply(RangesGiven{columns->key, worker.id, std::move(open)});
  }
  return gave;
}

void ColumnWork::FinishIfWhole(const ColumnFacts& columns) {
  if (columns.whole || !columns.ranges.complete()) return;
  transition_.Apply(ColumnsWhole{columns.key});
  transition_.Do(FinishColumns{columns.key, columns.set});
}

void ColumnWork::OnKept(const std::string& key, const Status& status) {
  const ColumnFacts* columns = facts_.FindColumns(key);
  if (columns == nullptr) return;
  const std::string names = fmt::format("{}", fmt::join(columns->set.columns(), ","));
  if (status.ok()) {
    transition_.Log(
        LogLevel::kInfo, "columns are measured",
        {{"dataset", columns->set.dataset()},
         {"columns", names},
         {"examples", std::to_string(columns->set.examples())},
         {"seconds", fmt::format("{:.1f}", ToSeconds(transition_.now() - columns->began))}});
  } else {
    transition_.Log(
        LogLevel::kError, "measured columns cannot be kept",
        {{"dataset", columns->set.dataset()}, {"columns", names}, {"why", status.message()}});
  }
  transition_.Apply(ColumnsForgotten{key});
}

void ColumnWork::Tick() {
  std::set<std::string> lacked;
  for (const auto& [key, plan] : facts_.plans()) lacked.insert(plan.lacks);
  std::vector<std::string> over;
  for (const auto& [key, columns] : facts_.columns()) {
    if (columns.whole) continue;
    TakeBackLost(columns);
    TellProgress(columns);
    if (!lacked.contains(key)) over.push_back(key);
  }
  for (const std::string& key : over) {
    transition_.Do(AbandonColumns{facts_.FindColumns(key)->set});
    transition_.Apply(ColumnsForgotten{key});
  }
  if (facts_.columns().empty() && over.empty()) return;
  bool given = !over.empty();
  for (const auto& [id, worker] : facts_.workers()) given = Give(worker) || given;
  if (given) transition_.TellWorkers();
}

void ColumnWork::TakeBackLost(const ColumnFacts& columns) {
  if (IsMutant(Mutant::kLostRangesKept)) return;
  std::vector<WorkerId> lost;
  for (const auto& [id, ranges] : columns.ranges.given()) {
    const Worker* worker = facts_.FindWorker(id);
    if (worker == nullptr || !MayMeasure(*worker, columns, transition_.now(), options_))
      lost.push_back(id);
  }
  for (const WorkerId id : lost) transition_.Apply(RangesTakenBack{columns.key, id});
}

void ColumnWork::TellProgress(const ColumnFacts& columns) {
  if (transition_.now() - columns.told < kTellPeriod) return;
  transition_.Apply(ColumnsTold{columns.key, transition_.now()});
  transition_.Log(LogLevel::kInfo, "measuring columns",
                  {{"dataset", columns.set.dataset()}, {"progress", Why(columns.key)}});
}

std::string ColumnWork::Why(const std::string& key) const {
  const ColumnFacts* columns = facts_.FindColumns(key);
  if (columns == nullptr) return "columns were measured";
  return DescribeMeasuring(*columns, facts_.workers(), transition_.now(), options_);
}

Status ColumnWork::CheckViability(const std::string& key) const {
  const ColumnFacts* columns = facts_.FindColumns(key);
  // Workers come back one by one after a restart.
  if (columns == nullptr || transition_.now() - columns->began < options_.session_timeout) {
    return OkStatus();
  }
  return CheckMeasurers(*columns, facts_.workers());
}

void ColumnWork::AddTasks(const Worker& worker, v1::WorkResponse& response) const {
  for (const auto& [key, columns] : facts_.columns()) {
    const auto given = columns.ranges.given().find(worker.id);
    if (given == columns.ranges.given().end() ||
        !MayMeasure(worker, columns, transition_.now(), options_))
      continue;
    v1::MeasureTask& task = *response.add_measure();
    *task.mutable_set() = columns.set;
    *task.mutable_pipeline() = columns.pipeline;
    v1::ExampleRun* run = nullptr;
    for (const std::uint64_t range : given->second) {
      const std::uint64_t first = range * kMeasuredRange;
      if (run == nullptr || run->first() + run->count() != first) {
        run = task.add_runs();
        run->set_first(first);
      }
      run->set_count(run->count() + columns.ranges.SizeOf(range));
    }
  }
}

}  // namespace millrace
