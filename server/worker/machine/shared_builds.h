// The batches that a worker builds in slices, and which thread takes which slice.
//
// A thread that began a batch takes its slices. Another thread helps if it can begin no batch, and
// before it begins one if a consumer waits for this batch and much of it is left.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "server/worker/machine/batch_slices.h"
#include "server/worker/machine/build_task.h"

namespace millrace {

/// A slice for a thread to build.
struct SliceTask {
  BuildTask task;
  RowSlice slice;
};

class SharedBuilds {
 public:
  /// Whether a batch may be helped now.
  using Suits = std::function<bool(const BuildTask&)>;

  /// `most_threads`: the most threads that may build it at once.
  void Begin(const BuildTask& task, std::size_t rows, double batch_seconds, int most_threads);
  /// Forgets a build. Returns whether it was known.
  bool End(std::uint64_t build) { return builds_.erase(build) > 0; }
  bool empty() const { return builds_.empty(); }

  /// Whether rows of the build are not begun yet.
  bool HasRowsLeft(std::uint64_t build) const {
    const auto found = builds_.find(build);
    return found != builds_.end() && found->second.slices.has_left();
  }
  /// The next slice for the thread that began the build; nullopt if there is none left.
  std::optional<SliceTask> TakeOwn(std::uint64_t build);
  /// A slice of the first build that suits a helper; nullopt if there is none. `left`: the least
  /// seconds of work that have to be left in it.
  std::optional<SliceTask> TakeToHelp(double left, const Suits& suits);
  struct Progress {
    bool ended = false;             // it was the last slice of its batch: the caller joins the rows
    bool helpers_may_come = false;  // now it is known how long rows take
  };
  /// A slice has ended.
  Progress Ended(const SliceTask& slice, double seconds, bool ok);

 private:
  struct Shared {
    BuildTask task;
    BatchSlices slices;
    int most_threads = 1;

    bool may_be_helped() const {
      return slices.may_be_helped() && slices.running() < most_threads;
    }
  };

  std::map<std::uint64_t, Shared> builds_;  // by BuildTask::build
};

}  // namespace millrace
