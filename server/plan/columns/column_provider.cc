#include "server/plan/columns/column_provider.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

#include "server/plan/columns/column_folders.h"

namespace millrace {
namespace {

/// How many examples a thread measures before it looks for more.
constexpr std::uint64_t kRange = 1024;

}  // namespace

Result<MeasuredColumns> LocalColumns::Get(const ColumnRequest& request) {
  const std::lock_guard lock(one_at_a_time_);
  MeasuredColumns values;
  std::vector<MeasurableColumn> absent;
  std::vector<std::string> names;
  for (const MeasurableColumn& column : request.columns) {
    if (std::optional<MeasuredValues> found = FindColumn(PlaceOf(request, column.name), *logger_)) {
      values[column.name] = std::make_shared<const MeasuredValues>(*std::move(found));
    } else {
      absent.push_back(column);
      names.push_back(column.name);
    }
  }
  if (absent.empty()) return values;
  MILLRACE_RETURN_IF_ERROR(CheckMeasurable(request, names));
  MILLRACE_RETURN_IF_ERROR(MeasureAll(request, absent, values));
  return values;
}

Status LocalColumns::MeasureAll(const ColumnRequest& request,
                                const std::vector<MeasurableColumn>& columns,
                                MeasuredColumns& values) const {
  const std::uint64_t examples = request.source->examples();
  std::vector<WideValues> measured;
  for (const MeasurableColumn& column : columns) {
    measured.push_back(WideValues::None(column.type, examples));
  }
  std::atomic<std::uint64_t> next = 0;
  std::mutex mutex;
  Status failed;  // guarded by mutex, as is done
  std::uint64_t done = 0;
  const auto measure = [&] {
    Result<Measurer> measurer = Measurer::Make(*request.source, columns, request.excluded_examples);
    std::vector<WideValues> some;
    while (true) {
      const std::uint64_t first = next.fetch_add(kRange);
      if (first >= examples) return;
      const std::uint64_t count = std::min(kRange, examples - first);
      Status status =
          measurer.ok() ? measurer->Measure(ExampleId(first), count, some) : measurer.status();
      if (options_.stop.stop_requested()) status = Cancelled("measuring columns was stopped");
      const std::lock_guard lock(mutex);
      if (!status.ok()) {
        if (failed.ok()) failed = status;
        next = examples;
        return;
      }
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const auto from = static_cast<std::ptrdiff_t>(first);
        std::copy(some[c].bits.begin(), some[c].bits.end(), measured[c].bits.begin() + from);
        std::copy(some[c].present.begin(), some[c].present.end(),
                  measured[c].present.begin() + from);
      }
      done += count;
      if (options_.progress) options_.progress(request.dataset_id, done, examples);
    }
  };
  {
    const unsigned threads =
        options_.threads > 0 ? options_.threads : std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < threads; ++i) workers.emplace_back(measure);
  }
  MILLRACE_RETURN_IF_ERROR(failed);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const auto column = std::make_shared<const MeasuredValues>(measured[c]);
    values[columns[c].name] = column;
    const Status written = KeepColumn(request.folders, KeyOf(request, columns[c].name), *column);
    if (written.ok()) continue;
    logger_->Warning(
        "a measured column cannot be kept; the next process measures it again",
        {{"dataset", request.dataset_id}, {"column", columns[c].name}, {"why", written}});
  }
  return OkStatus();
}

}  // namespace millrace
