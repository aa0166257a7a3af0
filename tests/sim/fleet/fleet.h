// A fleet in virtual time: a dispatcher, its workers, and the sessions of training loops, each with
// its real state machine. Modelled are only the cost of a build, of sending, and of a training
// step. There are no threads, sockets, clocks and sleeps, so a minute of a thousand workers takes
// seconds. The world of world.h looks for broken promises after faults; this fleet shows how the
// processes tune themselves, and how many workers the dispatcher asks for.
//
//   build   takes longer if more of them run than the CPUs allow that neighbours leave
//   link    carries one batch after the other, out of each worker and into each consumer
//   loop    the ranks of a job begin each step together
//
// The same setup gives the same history. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/v1/dispatcher.pb.h"
#include "server/dispatcher/machine/dispatcher_machine.h"
#include "tests/sim/fleet/fleet_nodes.h"
#include "tests/sim/fleet/fleet_setup.h"
#include "tests/sim/fleet/timeline.h"

namespace millrace::sim {

/// What a fleet did since the last Mark, and its settings now.
struct Figures {
  double batches_per_second = 0;  // that all loops took
  double waiting = 0;             // share of the time, mean over the loops
  double most_waiting = 0;        // of one loop
  std::uint32_t workers = 0;      // that are up and stay
  std::uint32_t threads = 0;      // that may build, over these workers
  double ahead_bytes = 0;         // mean over the consumers
  // Changes of one setting of a process: the most, and the sum over all processes.
  std::uint32_t most_worker_changes = 0;
  std::uint32_t most_consumer_changes = 0;
  std::uint32_t worker_changes = 0;
  std::uint32_t consumer_changes = 0;
  std::uint32_t desired = 0;  // workers that the dispatcher asks for
  std::string arithmetic;     // of this figure
};
/// In one line, for people.
std::string ToText(const Figures& figures);

class FleetWorld {
 public:
  explicit FleetWorld(const FleetSetup& setup);
  FleetWorld(const FleetWorld&) = delete;
  FleetWorld& operator=(const FleetWorld&) = delete;

  void Run(Duration duration);
  Timeline& timeline() { return timeline_; }

  // --- What happens to it ---
  /// Steps that begin from now on take so long.
  void SetStep(Duration step) { step_ = step; }
  /// Neighbours leave so much of their CPUs to the first `count` workers.
  void SetCpuShare(std::size_t count, double share);
  /// Builds that begin from now on take `factor` times as long at the first `count` workers.
  void SetSlower(std::size_t count, double factor);
  /// The dispatcher hears and says nothing any more.
  void StopDispatcher();
  void AddWorkers(std::uint32_t count);
  /// Drains the newest workers; they stop when nobody waits for them.
  void RemoveWorkers(std::uint32_t count);

  // --- What it does ---
  void Mark();
  Figures Measure();
  /// The first limit of a process that was crossed; empty if all have kept to theirs.
  const std::string& failure() const { return failure_; }
  v1::ServiceStatus Status() const;
  /// The whole fleet's figure.
  const DesiredFigure& desired() const { return dispatcher_->desired_workers().fleet(); }
  /// How many builds have begun.
  std::uint64_t builds() const { return builds_; }
  /// Since the last Mark: of how many windows a build has begun, and at how many workers, over all
  /// these windows.
  std::size_t windows() const { return windows_.size(); }
  std::size_t fetches() const { return fetches_.size(); }
  const std::deque<FleetWorker>& workers() const { return workers_; }
  const std::deque<FleetConsumer>& consumers() const { return consumers_; }

 private:
  static constexpr Duration kTick = std::chrono::milliseconds(50);
  static constexpr Duration kLearnsOfBreak = std::chrono::milliseconds(100);

  Duration About(Duration mean, double spread);
  /// How long a batch takes, of one that takes the mean.
  double NatureOf(Position at) const;
  double Unit() { return std::uniform_real_distribution<double>()(random_); }
  void Fail(const std::string& what);

  // fleet_dispatcher.cc
  void StartDispatcher();
  void TickDispatcher();
  void OnDispatcher(Actions actions);
  Moment Now() const { return {timeline_.now(), kUnixSeconds}; }
  std::size_t OpenAtDispatcher(bool of_worker, std::size_t index, std::uint64_t own);
  void CloseAtDispatcher(std::size_t link);

  // fleet_workers.cc
  void AddWorker();
  void TickWorker(std::size_t index);
  void StopWorker(std::size_t index);
  void AfterWorker(std::size_t index);
  void PerformWorker(std::size_t index, WorkerAction::Any action);
  void Build(std::size_t index);
  void StartBuild(std::size_t index, const BuildQueue::Task& task);
  void SendBatch(const WorkerAction::SendBatch& action);
  /// Brings a fragment to the consumer, and tells the worker's machine when it has left.
  void SendFragment(std::size_t link, const v1::BatchFragment& fragment, std::uint64_t bytes,
                    const BuildQueue::Task* task);

  // fleet_consumers.cc
  void AddConsumer(std::size_t job, std::uint32_t rank);
  void AfterConsumer(std::size_t index);
  void PerformConsumer(std::size_t index, client::Action action);
  void OpenBatches(std::size_t index, const client::OpenBatches& action);
  void PlanTick(std::size_t index);
  void OnFragment(std::size_t link, const v1::BatchFragment& fragment, std::uint64_t bytes,
                  const BuildQueue::Task* task);
  /// The loop takes its next batch if it is there.
  void TryTake(std::size_t index);
  void EndStep(std::size_t index);

  // fleet_figures.cc
  void CheckLimits();

  static constexpr std::int64_t kUnixSeconds = 1'700'000'000;

  const FleetSetup setup_;
  Timeline timeline_;
  std::mt19937_64 random_;
  Duration step_;
  DispatcherOptions dispatcher_options_;
  std::unique_ptr<DispatcherMachine> dispatcher_;
  bool dispatcher_away_ = false;
  std::deque<DispatcherLink> dispatcher_links_;  // by StreamId - 1
  std::deque<FleetWorker> workers_;
  std::deque<FleetConsumer> consumers_;
  std::deque<FleetJob> jobs_;
  std::deque<BatchLink> links_;              // by the workers' stream numbers - 1
  std::shared_ptr<const BuiltBatch> batch_;  // stands for all
  Time marked_;
  std::string failure_;
  std::uint64_t builds_ = 0;
  std::set<std::uint64_t> windows_;
  std::set<std::pair<std::uint64_t, std::size_t>> fetches_;  // the window, and the worker
};

}  // namespace millrace::sim
