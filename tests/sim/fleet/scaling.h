// Whether a worker that is added adds its rate, in virtual time: fleets of up to 256 workers, and the
// share of an ideal fleet's rate that they have to reach.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace millrace::sim {

struct ScalingBar {
  std::string name;
  double least = 0.9;             // of the rate of an ideal fleet
  std::function<double()> ratio;  // runs the fleet
};

/// Bars of fleets that take seconds to simulate.
std::vector<ScalingBar> QuickBars();
/// Those of fleets of 256 workers, which take minutes.
std::vector<ScalingBar> LargeBars();

}  // namespace millrace::sim
