#include "server/worker/machine/step_runs.h"

namespace millrace {

bool StepRuns::Add(Position at) {
  const bool goes_on = !runs_.empty() && stride_ > 0 && at == expected_;
  if (goes_on) {
    runs_.back().set_steps(runs_.back().steps() + 1);
  } else {
    if (runs_.size() >= static_cast<std::size_t>(max_runs_)) return false;
    v1::Run& run = runs_.emplace_back();
    run.set_epoch(at.epoch);
    run.set_position(at.example);
    run.set_stride(stride_);
    run.set_steps(1);
  }
  expected_ = {at.epoch, at.example + stride_};
  return true;
}

}  // namespace millrace
