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
  double slow = 0.02;    // share of builds that take long
  double repeats = 0.1;  // share of lists that come twice
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
  std::uint64_t builds = 0;          // of all workers
  SessionMachine& state() { return *state_; }
  const RankSteps& steps() const { return *steps_; }
  Time now() const { return now_; }
  Time faults_over() const { return faults_over_; }
  std::string Describe() const;

 private:
  struct WorkerModel {
    WorkerAddress where;
    bool alive = true;
    bool hung = false;    // says nothing now, and hears everything later
    StreamId stream = 0;  // the session's stream to it; 0: none
    Position next;
    Position until;
    std::set<Position> wants;
    std::optional<Position> building;
    std::set<Position> built;
    std::set<Position> sent;
    std::uint64_t credit = 0;
    std::uint64_t used = 0;
    Time told;  // when the last want list came
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
  void SayAlive(const WorkerModel& worker);
  void SayAll();
  void BreakWorker(WorkerModel& worker, bool silently);
  void OnAttach(const v1::AttachRequest& message);
  /// Sends a list of the workers that the dispatcher knows, after a while.
  void SendList();
  void SendAttachResponse(const v1::AttachResponse& message);
  void RestartDispatcher();
  void Fault();
  void Loop();
  void CheckBounds();
  void CheckAsks();
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
  Time dispatcher_knows_;  // when workers have come back to a new dispatcher
  std::uint64_t list_number_ = 0;

  bool loop_waits_ = false;
};

}  // namespace millrace::client
