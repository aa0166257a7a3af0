// How many workers each job needs so that its loops do not wait, and how many all jobs need
// together: figures for an autoscaler. docs/guides/scale.md has the rule.
//
//   need = demand x (1 + reserve) / rate of one worker
//
// Demand is the rate of the loops if they never waited, and the rate of one worker is the mean over
// the present workers (measured_rates.h). A consumer needs no more workers than a list has members.
// A figure is the need rounded up, at most twice the present workers, and steady (steady_figure.h).
//
// This is a state machine without a clock, to be driven about once a second. A call takes time in
// proportion to the sessions and workers. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "server/dispatcher/machine/fleet_snapshot.h"
#include "server/dispatcher/machine/measured_rates.h"
#include "server/dispatcher/machine/steady_figure.h"

namespace millrace {

/// The number of workers that are wanted, and why.
struct DesiredFigure {
  std::uint32_t workers = 1;          // wanted, at least 1
  std::uint32_t present = 0;          // heard, and not draining
  std::optional<double> demand;       // batches per second; unset: not known yet
  std::optional<double> need;         // workers; unset: not known yet
  std::optional<double> worker_rate;  // batches per second that one worker makes, above 0
  double reserve = 0;                 // 0.2: a fifth more than the demand
  bool settling = false;              // workers of an earlier dispatcher may still come back
};

/// The arithmetic of a figure as a line that a person can check: "41.7 batches/s x 1.2 / 9.8 a
/// worker = 5.11: 6 workers; 4 are there". The line also says why a figure differs from the
/// arithmetic, and which number is not known yet.
std::string ArithmeticOf(const DesiredFigure& figure);

class DesiredWorkers {
 public:
  /// `reserve`: the part by which supply shall exceed demand, 0 or more.
  explicit DesiredWorkers(double reserve) : reserve_(reserve) {}

  /// REQUIRES: `now` is not before the last snapshot.
  void Update(Time now, const FleetSnapshot& snapshot);

  bool has_looked() const { return looks_ > 0; }
  /// Whether the first snapshot is less than SteadyFigure::kRiseAfter ago, or has not come: workers
  /// of an earlier dispatcher may still come back to this one. Figures are too low then, and must
  /// not be acted on.
  bool is_settling() const { return fleet_.figure.settling; }
  /// The figure of a job that had sessions in the last snapshot; otherwise null.
  const DesiredFigure* Find(const std::string& job) const;
  /// The figures of all these jobs, by name.
  std::map<std::string, DesiredFigure> Jobs() const;
  /// The figure for all jobs together: their fractional needs are added, and rounded up once. Jobs
  /// of unknown demand do not count, unless the demand of all jobs is unknown.
  const DesiredFigure& fleet() const { return fleet_.figure; }

 private:
  struct Watched {
    DesiredFigure figure;
    SteadyFigure steady;
    std::uint64_t seen = 0;  // number of the snapshot
  };
  struct Loop {
    LoopDemand demand;
    std::uint64_t seen = 0;
  };
  struct Supplier {
    WorkerRate rate;
    std::uint64_t seen = 0;
  };

  /// Returns how many workers are present.
  std::uint32_t LookAtSuppliers(const FleetSnapshot& look);
  void UpdateLoops(const FleetSnapshot& snapshot);
  void Reconcile(Watched& watched, Time now, std::uint32_t present) const;

  const double reserve_;
  std::uint64_t looks_ = 0;
  std::optional<Time> first_look_;
  std::optional<double> worker_rate_;  // the last one that was known
  std::map<std::string, Watched, std::less<>> jobs_;
  std::unordered_map<SessionId, Loop> loops_;
  std::unordered_map<WorkerId, Supplier> suppliers_;
  Watched fleet_{.figure = {.settling = true}, .steady = {}};
};

}  // namespace millrace
