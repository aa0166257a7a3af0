#include "server/worker/machine/shared_builds.h"

namespace millrace {

void SharedBuilds::Begin(const BuildTask& task, std::size_t rows, double batch_seconds,
                         int most_threads) {
  builds_.insert_or_assign(task.build,
                           Shared{task, BatchSlices(rows, batch_seconds), most_threads});
}

std::optional<SliceTask> SharedBuilds::TakeOwn(std::uint64_t build) {
  const auto found = builds_.find(build);
  if (found == builds_.end()) return std::nullopt;
  const std::optional<RowSlice> slice = found->second.slices.TakeFirst();
  if (!slice) return std::nullopt;
  return SliceTask{found->second.task, *slice};
}

std::optional<SliceTask> SharedBuilds::TakeToHelp(double left, const Suits& suits) {
  for (auto& [build, shared] : builds_) {
    if (!shared.may_be_helped() || shared.slices.seconds_left() < left) continue;
    if (suits(shared.task)) return SliceTask{shared.task, shared.slices.TakeLast()};
  }
  return std::nullopt;
}

SharedBuilds::Progress SharedBuilds::Ended(const SliceTask& slice, double seconds, bool ok) {
  BatchSlices& slices = builds_.at(slice.task.build).slices;
  const bool might = slices.may_be_helped();
  slices.Ended(slice.slice, seconds, ok);
  return {slices.ended(), !might && slices.may_be_helped()};
}

}  // namespace millrace
