#include "server/plan/plan_slices.h"

#include <span>

#include "server/plan/plan_scratch.h"

namespace millrace {

PlanSlices::RowRun& PlanSlices::RunFor(std::size_t first) {
  MutexLock lock(mutex_);
  for (RowRun& run : runs_) {
    if (run.end != first || run.in_use) continue;
    run.in_use = true;
    return run;
  }
  const bool has_writer = first == 0 && first_writer_.has_value();
  RowRun& run =
      runs_.emplace_back(first, has_writer ? *std::move(first_writer_) : maker_.NewWriter());
  if (has_writer) first_writer_.reset();
  maker_.BeginRows(rows_.epoch, rows_.first_unit, rows(), run.writer);
  if (!rows_.passes.empty()) {
    run.writer.SetPasses(
        {rows_.passes.begin() + static_cast<std::ptrdiff_t>(first), rows_.passes.end()});
  }
  return run;
}

bool PlanSlices::Build(std::size_t first, std::size_t count, BatchScratch& scratch) {
  auto& own = static_cast<PlanScratch&>(scratch);
  RowRun& run = RunFor(first);
  own.clock().Begin(TimedStage::kReading);
  const Status read =
      maker_.ReadRows(own, std::span(rows_.examples).subspan(first, count), run.writer);
  own.clock().End();
  MutexLock lock(mutex_);
  run.end = first + count;
  run.in_use = false;
  if (!read.ok() && (!failed_ || first < failed_->first)) failed_ = {first, read};
  return read.ok();
}

Result<std::shared_ptr<const PackedBatch>> PlanSlices::Join(BatchScratch& scratch) {
  auto& own = static_cast<PlanScratch&>(scratch);
  own.clock().Begin(TimedStage::kReading);
  MutexLock lock(mutex_);
  if (!failed_ && !runs_.empty()) {
    runs_.sort([](const RowRun& a, const RowRun& b) { return a.first < b.first; });
    own.writer() = std::move(runs_.front().writer);
    runs_.pop_front();
    // Each run gives its memory back before the next one is copied.
    for (; !runs_.empty(); runs_.pop_front()) own.writer().AppendAll(runs_.front().writer);
  } else {
    maker_.BeginRows(rows_.epoch, rows_.first_unit, rows(), own.writer());
  }
  return maker_.FinishRows(own, rows_.examples, failed_ ? failed_->second : OkStatus());
}

}  // namespace millrace
