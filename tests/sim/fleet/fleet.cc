#include "tests/sim/fleet/fleet.h"

#include <algorithm>

#include "server/worker/service/builder.h"

namespace millrace::sim {

FleetWorld::FleetWorld(const FleetSetup& setup)
    : setup_(setup),
      random_(setup.seed),
      step_(setup.step),
      batch_(std::make_shared<const BuiltBatch>()) {
  marked_ = timeline_.now();
  StartDispatcher();
  for (std::uint32_t i = 0; i < setup_.workers; ++i) AddWorker();
  for (std::size_t job = 0; job < setup_.jobs; ++job) {
    jobs_.emplace_back();
    for (std::uint32_t rank = 0; rank < setup_.ranks; ++rank) AddConsumer(job, rank);
  }
  timeline_.In(std::chrono::seconds(1), [this] { CheckLimits(); });
}

void FleetWorld::Run(Duration duration) { timeline_.RunUntil(timeline_.now() + duration); }

Duration FleetWorld::About(Duration mean, double spread) {
  const double factor = 1 + spread * (2 * Unit() - 1);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(mean) * factor);
}

void FleetWorld::SetCpuShare(std::size_t count, double share) {
  for (std::size_t i = 0; i < std::min(count, workers_.size()); ++i) workers_[i].cpu_share = share;
}

void FleetWorld::SetSlower(std::size_t count, double factor) {
  for (std::size_t i = 0; i < std::min(count, workers_.size()); ++i) workers_[i].slower = factor;
}

double FleetWorld::NatureOf(Position at) const {
  if (setup_.sigma == 0) return 1;
  std::mt19937_64 random((at.epoch << 32) ^ (at.example * 7919 + 13));
  // The mean of this distribution is 1.
  return std::lognormal_distribution<double>(-setup_.sigma * setup_.sigma / 2, setup_.sigma)(random);
}

void FleetWorld::AddWorkers(std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) AddWorker();
}

void FleetWorld::RemoveWorkers(std::uint32_t count) {
  for (std::size_t i = workers_.size(); i-- > 0 && count > 0;) {
    FleetWorker& worker = workers_[i];
    if (!worker.up || worker.leaves) continue;
    worker.leaves = true;
    worker.machine->Drain(timeline_.now());
    AfterWorker(i);
    --count;
  }
}

}  // namespace millrace::sim
