#include "tests/sim/fleet/timeline.h"

#include <algorithm>

namespace millrace::sim {

void Timeline::At(Time at, Task task) {
  std::uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(tasks_.size());
    tasks_.push_back(std::move(task));
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    tasks_[slot] = std::move(task);
  }
  due_.push({std::max(at, now_), added_++, slot});
}

void Timeline::RunUntil(Time end) {
  while (!due_.empty() && due_.top().at <= end) {
    const Due next = due_.top();
    due_.pop();
    now_ = next.at;
    const Task task = std::exchange(tasks_[next.slot], nullptr);
    free_slots_.push_back(next.slot);
    ++tasks_run_;
    task();
  }
  now_ = end;
}

}  // namespace millrace::sim
