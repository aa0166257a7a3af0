// What the tests of simulated fleets share: the best pinned settings, an autoscaler, and a check of
// what the dispatcher's status says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/fleet/fleet.h"

namespace millrace::sim {

/// The highest throughput that the setup reaches with pinned settings: of several numbers of
/// threads and of bytes ahead, each measured for `measured` after `before`.
Figures BestPinned(FleetSetup setup, const std::vector<int>& threads,
                   const std::vector<std::uint64_t>& batches_ahead, Duration before,
                   Duration measured);

struct AutoscalerPolicy {
  Duration every = std::chrono::seconds(10);
  /// A figure that differs by at most this part of what there is changes nothing.
  double tolerance = 0;
  /// From a decision to the workers.
  Duration takes = std::chrono::seconds(30);
  Duration varies = std::chrono::seconds(30);
};

/// Adds and removes workers as the dispatcher asks.
class Autoscaler {
 public:
  explicit Autoscaler(FleetWorld& fleet, const AutoscalerPolicy& policy = {})
      : fleet_(fleet), policy_(policy) {
    Look();
  }
  Autoscaler(const Autoscaler&) = delete;
  Autoscaler& operator=(const Autoscaler&) = delete;

  /// How often it has changed its mind about how many workers there shall be.
  std::uint32_t changes() const { return changes_; }
  /// How often it wanted fewer after more, or more after fewer.
  std::uint32_t turns() const { return turns_; }
  /// When it last changed its mind.
  Time changed() const { return changed_; }

 private:
  void Look();

  FleetWorld& fleet_;
  const AutoscalerPolicy policy_;
  Time changed_;
  std::uint32_t asked_ = 0;  // of the fleet; 0: it has not looked yet
  bool rises_ = false;
  std::uint32_t changes_ = 0;
  std::uint32_t turns_ = 0;
};

/// Compares the tuning of all processes in the dispatcher's status with what their machines do and
/// have logged. Lets two seconds pass, so that reports are there. Returns the first difference, or
/// an empty text, and adds the number of processes that were compared.
std::string CompareStatus(FleetWorld& fleet, std::size_t& compared);

}  // namespace millrace::sim
