// Runs tasks at moments of virtual time, in the order of these moments. Tasks of one moment run in
// the order in which they were added.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "common/base/time.h"

namespace millrace::sim {

class Timeline {
 public:
  using Task = std::function<void()>;

  Time now() const { return now_; }
  /// A moment that has passed counts as now.
  void At(Time at, Task task);
  void In(Duration after, Task task) { At(now_ + after, std::move(task)); }
  /// Runs all that is due until `end`, which is now afterwards.
  void RunUntil(Time end);
  /// How many tasks have run.
  std::uint64_t tasks_run() const { return tasks_run_; }

 private:
  struct Due {
    Time at;
    std::uint64_t number;  // in the order of At
    std::uint32_t slot;    // of the task

    bool operator>(const Due& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  Time now_{std::chrono::seconds(1000)};
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<Task> tasks_;
  std::vector<std::uint32_t> free_slots_;
  std::uint64_t added_ = 0;
  std::uint64_t tasks_run_ = 0;
};

}  // namespace millrace::sim
