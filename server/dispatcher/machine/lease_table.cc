#include "server/dispatcher/machine/lease_table.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "common/transport/convert/places.h"

namespace millrace {

bool IsStep(const StepArithmetic& steps, Position start, Position at) {
  if (at < start) return false;
  const std::uint64_t first = at.epoch == start.epoch ? start.example : 0;
  if (at.example < first || (at.example - first) % steps.stride() != 0) return false;
  return at.example < steps.options().examples && steps.StepsFrom(at.example) > 0;
}

Status CheckHeld(const StepArithmetic& steps, Position start, const v1::Lease& lease) {
  const v1::Shard& shard = lease.shard();
  const Position at = PositionOf(shard);
  if (shard.stride() != steps.stride()) {
    return InvalidArgument(
        fmt::format("held lease {}.{} has a stride of {} examples: a step has {}",
                    lease.id().term(), lease.id().n(), shard.stride(), steps.stride()));
  }
  if (!IsStep(steps, start, at)) {
    return InvalidArgument(fmt::format("held lease {}.{} begins at {}, where no step lies",
                                       lease.id().term(), lease.id().n(), at.ToString()));
  }
  if (shard.batches() == 0 || shard.batches() > steps.StepsFrom(at.example)) {
    return InvalidArgument(fmt::format("held lease {}.{} has {} batches from {}: expected 1 to {}",
                                       lease.id().term(), lease.id().n(), shard.batches(),
                                       at.ToString(), steps.StepsFrom(at.example)));
  }
  return OkStatus();
}

void LeaseTable::Report(std::vector<LeaseFacts> held, Number last_lease, Time lapsed) {
  held_ = std::move(held);
  std::erase_if(sent_, [&](const LeaseFacts& lease) {
    return lease.id <= last_lease || lease.sent < lapsed;
  });
}

std::map<Number, std::uint32_t> LeaseTable::GivenUp(const std::vector<LeaseFacts>& held,
                                                    Number last_lease, Position next,
                                                    std::uint64_t stride) const {
  const auto end_of = [stride](const LeaseFacts& lease) {
    return Position{lease.run.at.epoch, lease.run.at.example + lease.run.batches * stride};
  };
  std::map<Number, Position> kept;  // ends, by lease
  for (const LeaseFacts& lease : held) kept.emplace(lease.id, end_of(lease));
  std::map<Number, std::uint32_t> given_up;
  const auto look_at = [&](const LeaseFacts& lease) {
    const Position end = end_of(lease);
    const auto still = kept.find(lease.id);
    if (lease.copy || end <= next || (still != kept.end() && still->second >= end)) return;
    ++given_up[lease.worker];
  };
  for (const LeaseFacts& lease : held_) look_at(lease);
  for (const LeaseFacts& lease : sent_) {
    if (lease.id <= last_lease) look_at(lease);
  }
  return given_up;
}

void LeaseTable::Clear() {
  held_.clear();
  sent_.clear();
}

std::vector<StepRun> LeaseTable::Gaps(const StepArithmetic& steps, Position next,
                                      std::uint32_t window, std::uint64_t end_epoch) const {
  std::vector<StepRun> covered;
  covered.reserve(size());
  for (const auto& lease : held_) covered.push_back(lease.run);
  for (const auto& lease : sent_) covered.push_back(lease.run);
  std::sort(covered.begin(), covered.end());

  std::vector<StepRun> gaps;
  const std::uint64_t stride = steps.stride();
  auto lease = covered.begin();
  Position at = next;
  while (window > 0 && at.epoch < end_epoch) {
    const std::uint64_t left = steps.StepsFrom(at.example);
    if (left == 0 && at.example == 0) break;  // an epoch without steps
    const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(window, left));
    const std::uint64_t end = at.example + n * stride;
    std::uint64_t uncovered = at.example;
    const auto add_gap = [&](std::uint64_t until) {
      if (until <= uncovered) return;
      gaps.push_back(
          {{at.epoch, uncovered}, static_cast<std::uint32_t>((until - uncovered) / stride)});
    };
    while (lease != covered.end() && lease->at.epoch < at.epoch) ++lease;
    for (; lease != covered.end() && lease->at.epoch == at.epoch; ++lease) {
      if (lease->at.example >= end) break;
      add_gap(lease->at.example);
      uncovered = std::max(uncovered, lease->at.example + lease->batches * stride);
    }
    add_gap(end);
    window -= n;
    at = n == left ? Position{at.epoch + 1, 0} : Position{at.epoch, end};
  }
  return gaps;
}

std::size_t LeaseTable::CountFor(Number worker) const {
  const auto is_its = [&](const LeaseFacts& lease) { return lease.worker == worker; };
  return static_cast<std::size_t>(std::count_if(held_.begin(), held_.end(), is_its) +
                                  std::count_if(sent_.begin(), sent_.end(), is_its));
}

bool LeaseTable::HasCopy() const {
  const auto is_copy = [](const LeaseFacts& lease) { return lease.copy; };
  return std::any_of(held_.begin(), held_.end(), is_copy) ||
         std::any_of(sent_.begin(), sent_.end(), is_copy);
}

const LeaseFacts* LeaseTable::FindHeld(Number id) const {
  const auto found = std::find_if(held_.begin(), held_.end(),
                                  [&](const LeaseFacts& lease) { return lease.id == id; });
  return found == held_.end() ? nullptr : &*found;
}

void LeaseTable::ShiftTimes(Duration by) {
  for (auto& lease : sent_) lease.sent = lease.sent + by;
}

v1::Shard CutShard(const StepArithmetic& steps, std::uint32_t rank, std::uint32_t batches,
                   StepRun& run) {
  const std::uint32_t n = steps.ShardSteps(run.at, std::min(batches, run.batches));
  const std::uint64_t stride = steps.stride();
  const ExampleRange examples = steps.RankExamples(run.at, rank);
  v1::Shard shard;
  shard.set_epoch(run.at.epoch);
  shard.set_position(run.at.example);
  shard.set_stride(stride);
  shard.set_first_example(examples.first);
  shard.set_examples(examples.count);
  shard.set_batches(n);

  run.at.example += n * stride;
  run.batches -= n;
  return shard;
}

}  // namespace millrace
