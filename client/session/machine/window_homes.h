// The homes of windows. If the order of an epoch mixes the examples of a few blocks at a time (a
// window of them), and no host maps the data, then a worker fetches most blocks of a window to
// build any batch of it. So each window has a home among the members: the one with the highest
// XXH3-64 (seed 0) of the text `EPOCH/window/NUMBER/TERM.N`, with the worker's number (rendezvous
// hashing). All ranks choose the same one.
//
// Not thread-safe: part of the session's state machine.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "common/base/ids.h"
#include "common/epoch/position.h"

namespace millrace::client {

/// A window of an epoch's order.
struct EpochWindow {
  std::uint64_t epoch = 0;
  std::uint64_t number = 0;
  friend constexpr auto operator<=>(const EpochWindow&, const EpochWindow&) = default;
};

class WindowHomes {
 public:
  /// The number of units of the epoch's order per window; 0: the plan has no windows.
  void SetUnits(std::uint64_t units) { units_ = units; }
  /// Whether windows have homes.
  bool any() const { return units_ > 0; }
  /// The window of a step that begins with this unit. A step may end in the next window.
  /// REQUIRES: any().
  EpochWindow Of(std::uint64_t epoch, std::uint64_t unit) const { return {epoch, unit / units_}; }

  /// Takes the members among which homes are chosen.
  void SetMembers(std::vector<WorkerId> members);
  /// REQUIRES: there is a member.
  WorkerId HomeOf(const EpochWindow& window);

 private:
  std::uint64_t units_ = 0;
  std::vector<WorkerId> members_;
  std::map<EpochWindow, WorkerId> homes_;  // that were asked for, among these members
};

}  // namespace millrace::client
