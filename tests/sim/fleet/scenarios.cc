#include "tests/sim/fleet/scenarios.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "common/transport/convert/tuning.h"

namespace millrace::sim {
namespace {

using std::chrono::seconds;

/// The decisions of a machine, as it logged them: each in its last wording.
std::vector<std::string> DecisionsOf(const DecisionLog& log) {
  std::vector<std::string> decisions;
  for (const std::string& line : log.lines()) {
    const bool ends = !decisions.empty() && decisions.back().ends_with("; being tried");
    if (ends) {
      decisions.back() = line;
    } else {
      decisions.push_back(line);
    }
  }
  return decisions;
}

std::string Compare(const std::string& who, const v1::Tuning& tuning, const DecisionLog& log) {
  std::vector<std::string> told;
  for (const v1::TuneDecision& decision : tuning.decisions()) told.push_back(TuneLine(decision));
  if (const std::vector<std::string> logged = DecisionsOf(log); told != logged) {
    return fmt::format("{}: the status has {}, the log has {}", who, fmt::join(told, " | "),
                       fmt::join(logged, " | "));
  }
  const v1::TuneSetting& setting = tuning.settings(0);
  if (tuning.decisions().empty()) return "";
  const v1::TuneDecision& last = *tuning.decisions().rbegin();
  const double value = last.outcome() == "undone" ? last.from() : last.to();
  // A worker whose last consumer has left may use all threads again.
  const bool is_told = setting.value() == value || setting.value() == setting.most();
  if (!is_told || value < setting.least() || value > setting.most()) {
    return fmt::format("{}: {} is {}, and its last decision leaves it at {}", who, setting.name(),
                       setting.value(), value);
  }
  return "";
}

}  // namespace

Figures BestPinned(FleetSetup setup, const std::vector<int>& threads,
                   const std::vector<std::uint64_t>& batches_ahead, Duration before,
                   Duration measured) {
  Figures best;
  for (const int pinned : threads) {
    for (const std::uint64_t batches : batches_ahead) {
      setup.threads = pinned;
      setup.ahead_bytes = std::min(setup.prefetch_bytes, batches * setup.batch_bytes);
      FleetWorld fleet(setup);
      fleet.Run(before);
      fleet.Mark();
      fleet.Run(measured);
      const Figures figures = fleet.Measure();
      if (figures.batches_per_second > best.batches_per_second) best = figures;
    }
  }
  return best;
}

void Autoscaler::Look() {
  fleet_.timeline().In(policy_.every, [this] {
    const std::uint32_t wanted = fleet_.desired().workers;
    if (asked_ == 0) asked_ = fleet_.Measure().workers;
    const double differs = std::abs(static_cast<double>(wanted) / asked_ - 1);
    if (!fleet_.desired().settling && differs > policy_.tolerance) {
      changed_ = fleet_.timeline().now();
      ++changes_;
      if (std::exchange(rises_, wanted > asked_) != rises_) ++turns_;
      asked_ = wanted;
      fleet_.timeline().In(policy_.takes + policy_.varies / 3 * (wanted % 4), [this, wanted] {
        if (wanted != asked_) return;
        const std::uint32_t there = fleet_.Measure().workers;
        if (wanted > there) fleet_.AddWorkers(wanted - there);
        if (wanted < there) fleet_.RemoveWorkers(there - wanted);
      });
    }
    Look();
  });
}

std::string CompareStatus(FleetWorld& fleet, std::size_t& compared) {
  std::vector<std::size_t> of_workers;
  std::vector<std::size_t> of_consumers;
  for (const FleetWorker& worker : fleet.workers())
    of_workers.push_back(worker.log->lines().size());
  for (const FleetConsumer& consumer : fleet.consumers()) {
    of_consumers.push_back(consumer.log->lines().size());
  }
  fleet.Run(seconds(2));
  const v1::ServiceStatus status = fleet.Status();
  std::map<std::string, const v1::WorkerStatus*> workers;
  for (const v1::WorkerStatus& worker : status.workers()) workers[worker.name()] = &worker;
  for (std::size_t i = 0; i < of_workers.size(); ++i) {
    const FleetWorker& worker = fleet.workers()[i];
    // What was decided in the last second may not have been reported yet.
    if (!worker.up || worker.leaves || worker.log->lines().size() != of_workers[i]) continue;
    const std::string who = fmt::format("w{}", i);
    const auto found = workers.find(who);
    if (found == workers.end()) return who + " is not in the status";
    const v1::Tuning& tuning = found->second->tuning();
    if (tuning.settings_size() != 1) return who + " tells no setting";
    const double threads = tuning.settings(0).value();
    if (threads != worker.machine->threads()) {
      return fmt::format("{}: the status has {} threads, it may use {}", who, threads,
                         worker.machine->threads());
    }
    if (std::string why = Compare(who, tuning, *worker.log); !why.empty()) return why;
    ++compared;
  }
  std::map<std::string, const v1::ConsumerStatus*> consumers;
  for (const v1::ConsumerStatus& one : status.consumers()) consumers[one.where()] = &one;
  for (std::size_t i = 0; i < of_consumers.size(); ++i) {
    const FleetConsumer& consumer = fleet.consumers()[i];
    if (consumer.log->lines().size() != of_consumers[i]) continue;
    const std::string who = fmt::format("c{}:1", i);
    const auto found = consumers.find(who);
    if (found == consumers.end()) return who + " is not in the status";
    const v1::Tuning& tuning = found->second->tuning();
    if (tuning.settings_size() != 1) return who + " tells no setting";
    if (std::string why = Compare(who, tuning, *consumer.log); !why.empty()) return why;
    ++compared;
  }
  return "";
}

}  // namespace millrace::sim
