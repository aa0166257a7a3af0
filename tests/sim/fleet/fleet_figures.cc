// What a simulated fleet is seen to do, and the limits to which its processes keep.

#include <algorithm>

#include <fmt/core.h>

#include "server/dispatcher/machine/status.h"
#include "tests/sim/fleet/fleet.h"

namespace millrace::sim {

std::string ToText(const Figures& f) {
  return fmt::format(
      "{:.1f} batches/s, {:.2f} % waiting (at most {:.2f} %); {} workers with {} threads, {:.1f} "
      "MB "
      "ahead; changes of workers {} (at most {}), of consumers {} (at most {}); desired {}: {}",
      f.batches_per_second, 100 * f.waiting, 100 * f.most_waiting, f.workers, f.threads,
      f.ahead_bytes / 1e6, f.worker_changes, f.most_worker_changes, f.consumer_changes,
      f.most_consumer_changes, f.desired, f.arithmetic);
}

void FleetWorld::Fail(const std::string& what) {
  if (!failure_.empty()) return;
  failure_ = fmt::format("{:.3f} s: {}", ToSeconds(timeline_.now().since_boot) - 1000, what);
}

void FleetWorld::Mark() {
  windows_.clear();
  fetches_.clear();
  marked_ = timeline_.now();
  for (FleetWorker& worker : workers_) worker.log->Mark();
  for (FleetConsumer& consumer : consumers_) {
    consumer.log->Mark();
    consumer.longest_gap = Duration{0};
    consumer.taken_before = consumer.taken;
    consumer.waited_before = consumer.waited_seconds;
    if (consumer.waits_since) {
      consumer.waited_before += ToSeconds(marked_ - *consumer.waits_since);
    }
  }
}

Figures FleetWorld::Measure() {
  Figures f;
  const Time now = timeline_.now();
  const double seconds = ToSeconds(now - marked_);
  for (const FleetConsumer& consumer : consumers_) {
    double waited = consumer.waited_seconds - consumer.waited_before;
    if (consumer.waits_since) waited += ToSeconds(now - *consumer.waits_since);
    f.batches_per_second += static_cast<double>(consumer.taken - consumer.taken_before) / seconds;
    f.waiting += waited / seconds / static_cast<double>(consumers_.size());
    f.most_waiting = std::max(f.most_waiting, waited / seconds);
    f.consumer_changes += consumer.log->changes();
    f.most_consumer_changes = std::max(f.most_consumer_changes, consumer.log->changes());
  }
  for (const FleetWorker& worker : workers_) {
    f.worker_changes += worker.log->changes();
    f.most_worker_changes = std::max(f.most_worker_changes, worker.log->changes());
    if (!worker.up || worker.leaves) continue;
    ++f.workers;
    f.threads += static_cast<std::uint32_t>(worker.machine->threads());
  }
  const v1::ServiceStatus status = Status();
  for (const v1::ConsumerStatus& consumer : status.consumers()) {
    if (consumer.tuning().settings_size() == 0) continue;
    f.ahead_bytes += consumer.tuning().settings(0).value() / static_cast<double>(consumers_.size());
  }
  f.desired = desired().workers;
  f.arithmetic = ArithmeticOf(desired());
  return f;
}

v1::ServiceStatus FleetWorld::Status() const {
  return BuildStatus(*dispatcher_, dispatcher_options_, timeline_.now());
}

void FleetWorld::CheckLimits() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const FleetWorker& worker = workers_[i];
    const int most = setup_.threads.value_or(setup_.cpus);
    if (worker.machine->threads() < 1 || worker.machine->threads() > most ||
        worker.building > most) {
      Fail(fmt::format("worker {} may build with {} threads and builds with {}, of {}", i,
                       worker.machine->threads(), worker.building, most));
    }
  }
  // The batch that the loop needs next has a place beyond the limit, and so has one that a worker
  // sends for it.
  const std::uint64_t limit =
      setup_.ahead_bytes.value_or(setup_.prefetch_bytes) + 2 * setup_.batch_bytes;
  for (std::size_t i = 0; i < consumers_.size(); ++i) {
    if (consumers_[i].largest_held <= limit) continue;
    Fail(fmt::format("consumer {} held {} bytes, of {}", i, consumers_[i].largest_held, limit));
  }
  timeline_.In(std::chrono::seconds(1), [this] { CheckLimits(); });
}

}  // namespace millrace::sim
