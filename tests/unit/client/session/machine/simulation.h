// A seeded world around one session's state machine. It has a dispatcher, workers, a network of
// ordered streams with delays, and a loop. All of them have faults. Time is the world's own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/client/session/machine/machine.h"

namespace millrace::client {

struct SimulationOptions {
  std::uint64_t seed = 0;
  StepOptions steps{.examples = 230, .size = 3, .keep = true, .world_size = 2};
  std::uint32_t rank = 1;
  std::uint32_t epochs = 2;
  Position start;
  std::uint64_t prefetch_bytes = 20'000;
  int workers = 3;
  double faults_per_second = 1;  // of workers and of the dispatcher
  Duration faults_until = 20 * kSecond;
  double copies = 0.1;   // share of leases that get a copy
  double repeats = 0.1;  // share of lease messages that come twice
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);

  /// Runs until the session is at its end, or until `limit` has passed. Returns false in the second
  /// case.
  bool Run(Duration limit);

  // The results of a run.
  std::vector<std::string> broken;   // broken invariants, in the order found
  std::vector<std::uint64_t> taken;  // steps, in the order in which the loop took them
  std::uint64_t steps_leased = 0;    // not counting copies
  SessionMachine& state() { return *state_; }
  const RankSteps& steps() const { return *steps_; }
  Time now() const { return now_; }
  Time faults_over() const { return faults_over_; }
  std::string Describe() const;

 private:
  struct WorkerModel {
    WorkerAddress where;
    bool alive = true;
    bool hung = false;  // says nothing now, and hears everything later
    bool building = false;
    StreamId stream = 0;  // the session's stream to it; 0: none
    Position next;
    /// Whether there is room for each wanted batch.
    std::map<std::pair<Position, Number>, bool> wants;
    std::set<std::pair<Position, Number>> built;
    std::set<std::pair<Position, Number>> sent;
    std::uint64_t credit = 0;
    std::uint64_t used = 0;
    std::uint64_t told_room = 0;
    Time last_word;
  };

  void At(Time time, std::function<void()> what) { events_.emplace(time, std::move(what)); }
  void After(Duration d, std::function<void()> what) { At(now_ + d, std::move(what)); }
  /// When a message that is sent now on a stream arrives: after all that were sent before it.
  Time Arrives(StreamId stream, bool up);
  Duration Milliseconds(int from, int to);
  bool Chance(double p) { return std::uniform_real_distribution<double>()(random_) < p; }

  void Perform();
  void PerformOne(const Action& action);
  void AddWorker();
  WorkerModel* WorkerOf(StreamId stream);
  void OnWants(StreamId stream, const v1::WantList& wants);
  void Work(WorkerModel& worker);
  void Send(WorkerModel& worker);
  void SayAlive();
  void BreakWorker(WorkerModel& worker, bool silently);
  void OnAttach(StreamId stream, const v1::AttachRequest& message);
  void Fill(const v1::Report& report);
  void SendAttachResponse(const v1::AttachResponse& message);
  void RestartDispatcher();
  void Fault();
  void Loop();
  void CheckBounds();
  static std::uint64_t BytesOf(std::uint64_t step) { return 400 + (step * 7919) % 2600; }

  SimulationOptions options_;
  std::mt19937_64 random_;
  std::multimap<Time, std::function<void()>> events_;
  Time now_{kSecond};
  Time faults_over_;
  std::shared_ptr<RecordingLogger> logger_ = std::make_shared<RecordingLogger>();
  std::optional<SessionMachine> state_;
  std::optional<RankSteps> steps_;
  std::map<std::pair<StreamId, bool>, Time> last_arrival_;
  std::set<StreamId> open_;

  std::vector<std::unique_ptr<WorkerModel>> workers_;
  std::uint64_t next_number_ = 0;

  StreamId attach_ = 0;
  bool dispatcher_up_ = true;
  std::uint64_t term_ = 10;
  /// The steps [first, end) of each lease.
  std::map<Number, std::pair<std::uint64_t, std::uint64_t>> granted_;

  bool loop_waits_ = false;
  std::uint64_t largest_window_ = 0;
};

}  // namespace millrace::client
