#include "client/session/machine/rank_steps.h"

namespace millrace::client {

RankSteps::RankSteps(const StepArithmetic& steps, std::uint32_t rank, Position start,
                     std::uint64_t end_epoch)
    : steps_(steps),
      rank_(rank),
      start_(start),
      first_epoch_steps_(steps.StepsFrom(start.example)),
      epoch_steps_(steps.StepsFrom(0)) {
  if (end_epoch != kNoEnd) end_ = end_epoch <= start.epoch ? 0 : Index({end_epoch, 0});
}

bool RankSteps::Contains(Position at) const {
  if (at.epoch < start_.epoch) return false;
  const std::uint64_t first = at.epoch == start_.epoch ? start_.example : 0;
  return at.example >= first && (at.example - first) % steps_.stride() == 0 &&
         at.example < steps_.options().examples && steps_.StepsFrom(at.example) > 0;
}

std::uint64_t RankSteps::Index(Position at) const {
  if (at.epoch == start_.epoch) return (at.example - start_.example) / steps_.stride();
  return first_epoch_steps_ + (at.epoch - start_.epoch - 1) * epoch_steps_ +
         at.example / steps_.stride();
}

Position RankSteps::At(std::uint64_t index) const {
  if (index < first_epoch_steps_) {
    return {start_.epoch, start_.example + index * steps_.stride()};
  }
  const std::uint64_t rest = index - first_epoch_steps_;
  return {start_.epoch + 1 + rest / epoch_steps_, rest % epoch_steps_ * steps_.stride()};
}

v1::Run RankSteps::RunAt(std::uint64_t first, std::uint32_t steps) const {
  const Position at = At(first);
  const ExampleRange examples = steps_.RankExamples(at, rank_);
  v1::Run run;
  run.set_epoch(at.epoch);
  run.set_position(at.example);
  run.set_stride(steps_.stride());
  run.set_first_example(examples.first);
  run.set_examples(examples.count);
  run.set_steps(steps_.RunSteps(at, steps));
  return run;
}

bool RankSteps::BreaksRuns(std::uint64_t step) const {
  const Position at = At(step);
  return at.example == 0 || steps_.IsTail(at);
}

}  // namespace millrace::client
