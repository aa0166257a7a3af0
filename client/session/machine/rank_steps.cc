#include "client/session/machine/rank_steps.h"

#include <string>

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

Shard RankSteps::CutTo(const Shard& shard, std::uint64_t from, std::uint64_t end) const {
  const std::uint64_t skipped = from - Index(shard.at);
  Shard cut = shard;
  cut.at.example += skipped * shard.stride;
  cut.first_example += skipped * shard.stride;
  cut.batches = static_cast<std::uint32_t>(end - from);
  return cut;
}

Shard RankSteps::ShardAt(std::uint64_t first, std::uint32_t batches) const {
  const Position at = At(first);
  const ExampleRange examples = steps_.RankExamples(at, rank_);
  return {at, steps_.stride(), examples.first, examples.count, steps_.ShardSteps(at, batches)};
}

Status RankSteps::Check(const Shard& shard) const {
  if (!Contains(shard.at)) {
    return InvalidArgument("a shard at " + shard.at.ToString() +
                           ", where this session has no step");
  }
  const std::uint64_t steps_left = steps_.StepsFrom(shard.at.example);
  if (shard.batches == 0 || shard.batches > steps_left) {
    return InvalidArgument("a shard of " + std::to_string(shard.batches) + " batches at " +
                           shard.at.ToString() + ", where the epoch has " +
                           std::to_string(steps_left) + " more steps");
  }
  if (shard.batches > 1 && shard.stride != steps_.stride()) {
    return InvalidArgument("a shard with a stride of " + std::to_string(shard.stride) +
                           " examples, expected " + std::to_string(steps_.stride()));
  }
  const std::uint64_t first = Index(shard.at);
  for (const std::uint64_t k : {std::uint64_t{0}, std::uint64_t{shard.batches} - 1}) {
    const ExampleRange expected = Examples(first + k);
    const ExampleRange got{shard.first_example + k * shard.stride, shard.examples};
    if (got != expected) {
      return InvalidArgument("a shard whose batch at " + At(first + k).ToString() + " holds " +
                             std::to_string(got.count) + " examples from place " +
                             std::to_string(got.first) + ", expected " +
                             std::to_string(expected.count) + " from " +
                             std::to_string(expected.first));
    }
  }
  return OkStatus();
}

}  // namespace millrace::client
