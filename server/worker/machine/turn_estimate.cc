#include "server/worker/machine/turn_estimate.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace millrace {

double SecondsToTurn(std::vector<JobTurn> jobs, std::vector<double> busy, int threads) {
  // Far turns need no better figure.
  constexpr int kMostBuilds = 256;
  if (busy.size() < static_cast<std::size_t>(threads)) busy.resize(threads, 0.0);
  std::make_heap(busy.begin(), busy.end(), std::greater<>());
  double now = 0;
  for (int builds = 0; builds < kMostBuilds; ++builds) {
    std::pop_heap(busy.begin(), busy.end(), std::greater<>());
    now = std::max(now, busy.back());
    JobTurn* first = &jobs.front();
    for (JobTurn& job : jobs) {
      if (job.pending > 0 && job.time < first->time) first = &job;
    }
    if (first == &jobs.front()) return now;
    --first->pending;
    first->time += first->batch_seconds / first->weight;
    busy.back() = now + first->batch_seconds;
    std::push_heap(busy.begin(), busy.end(), std::greater<>());
  }
  return now;
}

}  // namespace millrace
