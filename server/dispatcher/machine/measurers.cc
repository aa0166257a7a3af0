#include "server/dispatcher/machine/measurers.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/protocol_version.h"
#include "common/batch/layout/semantics.h"
#include "server/dispatcher/machine/usable_workers.h"

namespace millrace {
namespace {

constexpr int kNamedMeasurers = 4;

std::string Names(const v1::ColumnSet& set) {
  return fmt::format("{} {}", set.columns_size() == 1 ? "column" : "columns",
                     fmt::join(set.columns(), ", "));
}

std::uint64_t Percent(const RangeTable& ranges) {
  return ranges.examples() == 0 ? 100 : 100 * ranges.measured() / ranges.examples();
}

bool Fails(const Worker& worker, const ColumnFacts& columns, Time now) {
  const auto failing = columns.failing.find(worker.id);
  return failing != columns.failing.end() &&
         (failing->second.for_good || now < failing->second.until);
}

}  // namespace

bool MayMeasure(const Worker& worker, const ColumnFacts& columns, Time now,
                const DispatcherOptions& options) {
  const auto& semantics = worker.report.semantics();
  const auto dataset = worker.report.datasets().find(columns.set.dataset());
  return IsHeard(worker, now, options) && !worker.draining() && !Fails(worker, columns, now) &&
         worker.report.measuring() == kMeasuringVersion &&
         (semantics.empty() ||
          std::find(semantics.begin(), semantics.end(), kSemantics) != semantics.end()) &&
         dataset != worker.report.datasets().end() &&
         dataset->second.digest() == columns.set.dataset_digest();
}

std::string DescribeMeasuring(const ColumnFacts& columns, const std::map<WorkerId, Worker>& workers,
                              Time now, const DispatcherOptions& options) {
  if (columns.whole) return fmt::format("{}: measured, being written", Names(columns.set));
  std::string text =
      fmt::format("measuring {}: {} %, ", Names(columns.set), Percent(columns.ranges));
  const std::size_t measuring = columns.ranges.given().size();
  if (measuring == 0) {
    text += fmt::format("waits for a worker with dataset '{}'", columns.set.dataset());
  } else {
    text += fmt::format("{} {}", measuring, measuring == 1 ? "worker" : "workers");
  }
  for (const auto& [id, failing] : columns.failing) {
    const auto worker = workers.find(id);
    if (worker == workers.end() || MayMeasure(worker->second, columns, now, options)) continue;
    return text + fmt::format("; worker {} cannot: {}", worker->second.report.name(),
                              failing.why.message());
  }
  return text;
}

Status CheckMeasurers(const ColumnFacts& columns, const std::map<WorkerId, Worker>& workers) {
  StatusCode code = StatusCode::kFailedPrecondition;
  std::string text;
  int failing = 0;
  for (const auto& [id, worker] : workers) {
    const auto dataset = worker.report.datasets().find(columns.set.dataset());
    if (worker.draining() || dataset == worker.report.datasets().end()) continue;
    const bool opening = dataset->second.digest().empty() && dataset->second.error().empty();
    if (!opening && dataset->second.digest() != columns.set.dataset_digest()) continue;
    const auto failed = columns.failing.find(id);
    if (failed == columns.failing.end() || !failed->second.for_good) return OkStatus();
    if (failed->second.why.code() == StatusCode::kDataLoss) code = StatusCode::kDataLoss;
    if (++failing > kNamedMeasurers) continue;
    text += fmt::format("{}worker {} at {}: {}", text.empty() ? "" : "; ", worker.report.name(),
                        worker.report.self().address(), failed->second.why.message());
  }
  if (failing == 0) return OkStatus();
  if (failing > kNamedMeasurers) {
    text += fmt::format(" (and {} others)", failing - kNamedMeasurers);
  }
  return Status(code,
                fmt::format("no worker is left that can measure {}: {}", Names(columns.set), text));
}

}  // namespace millrace
