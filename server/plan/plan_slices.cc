#include "server/plan/plan_slices.h"

#include <span>

#include "server/plan/plan_scratch.h"

namespace millrace {

PlanSlices::Part& PlanSlices::PartFor(std::size_t first) {
  MutexLock lock(mutex_);
  for (Part& part : parts_) {
    if (part.end != first || part.in_use) continue;
    part.in_use = true;
    return part;
  }
  const bool has_writer = first == 0 && first_writer_.has_value();
  Part& part =
      parts_.emplace_back(first, has_writer ? *std::move(first_writer_) : maker_.NewWriter());
  if (has_writer) first_writer_.reset();
  maker_.BeginRows(rows_.epoch, rows_.first_unit, rows(), part.writer);
  if (!rows_.passes.empty()) {
    part.writer.SetPasses({rows_.passes.begin() + static_cast<std::ptrdiff_t>(first),
                           rows_.passes.end()});
  }
  return part;
}

bool PlanSlices::Build(std::size_t first, std::size_t count, BatchScratch& scratch) {
  auto& own = static_cast<PlanScratch&>(scratch);
  Part& part = PartFor(first);
  own.clock().Begin(TimedStage::kReading);
  const Status read =
      maker_.ReadRows(own, std::span(rows_.examples).subspan(first, count), part.writer);
  own.clock().End();
  MutexLock lock(mutex_);
  part.end = first + count;
  part.in_use = false;
  if (!read.ok() && (!failed_ || first < failed_->first)) failed_ = {first, read};
  return read.ok();
}

Result<std::shared_ptr<const PackedBatch>> PlanSlices::Join(BatchScratch& scratch) {
  auto& own = static_cast<PlanScratch&>(scratch);
  own.clock().Begin(TimedStage::kReading);
  MutexLock lock(mutex_);
  if (!failed_ && !parts_.empty()) {
    parts_.sort([](const Part& a, const Part& b) { return a.first < b.first; });
    own.writer() = std::move(parts_.front().writer);
    parts_.pop_front();
    // Each part gives its memory back before the next one is copied.
    for (; !parts_.empty(); parts_.pop_front()) own.writer().AppendAll(parts_.front().writer);
  } else {
    maker_.BeginRows(rows_.epoch, rows_.first_unit, rows(), own.writer());
  }
  return maker_.FinishRows(own, rows_.examples, failed_ ? failed_->second : OkStatus());
}

}  // namespace millrace
