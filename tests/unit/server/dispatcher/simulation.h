// Seeded histories of one dispatcher after another with workers and trainers around it: links
// break, lose and delay messages, processes are killed, paused and replaced, the store fails.
// Invariants are looked at after every event; at the end all faults stop, and every trainer has to
// get to its end.
//
// Trainers are simple here: what a consumer really does is the client's to test.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "harness.h"

namespace millrace::test {

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed);
  /// Runs the history. The first broken invariant, or empty.
  std::string Run();

  /// How often things happened, to see that histories are not idle.
  struct Counts {
    int restarts = 0;
    int taken_over = 0;
    int refused = 0;  // held by others for too long
    int finished = 0;
    int leases = 0;
    int outages = 0;
    int welcomes = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Link {
    bool of_worker = false;
    int process = 0;     // index of its trainer or worker
    int generation = 0;  // of the dispatcher
    bool up = true;
    Time up_free;  // messages keep their order in each direction
    Time down_free;
  };
  struct Trainer {
    v1::Hello hello;
    std::optional<StepArithmetic> steps;
    std::string group;  // job, rank, plan, world size and start: rivals are equal in it
    Position next;
    Position end;
    StreamId link = 0;
    Time retry_at;
    Time reported;
    Time paused_until;
    bool dead = false;
    bool finished = false;
    Status ended;
    std::vector<v1::Lease> held;
    Number last_lease;
    std::map<Number, Time> failing;
    Time stuck_since;
  };
  struct WorkerProcess {
    v1::WorkRequest report;
    StreamId link = 0;
    Time retry_at;
    Time reported;
    Time paused_until;
    bool dead = false;
    Time starts_at;
    std::uint64_t highest_term = 0;
  };

  bool Chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }
  Duration UpTo(Duration d) { return Duration(static_cast<Duration::rep>(Below(d.count() + 1))); }
  bool Running(Time paused_until, bool dead) const { return !dead && now_.time >= paused_until; }
  void Fail(const std::string& what);
  void At(Time time, std::function<void()> event) { events_.emplace(time, std::move(event)); }

  // The network and the dispatcher's side.
  StreamId OpenLink(bool of_worker, int process);
  void BreakLink(StreamId id);
  void SendUp(StreamId id, std::function<Actions()> deliver);
  void SendDown(StreamId id, std::function<void()> deliver);
  void Perform(Actions actions);
  void Restart();
  void CheckWelcome(const SendAttach& action);
  void CheckState();

  // Trainers and workers.
  void StartJob(const std::string& job);
  void Connect(int index);
  void Act(int index);
  void Take(Trainer& trainer);
  void SendReport(int index);
  void OnMessage(int index, StreamId link, const v1::AttachResponse& message);
  void OnClosed(int index, StreamId link, const Status& status);
  void CheckLease(const Trainer& trainer, const v1::Lease& lease);
  void StartWorker(int index);
  void ActWorker(int index);
  void Misfortune();

  std::mt19937_64 random_;
  DispatcherOptions options_;
  Moment now_{Time{seconds(1000)}, 1'700'000'000};
  bool healed_ = false;
  std::string failure_;
  Counts counts_;

  std::unique_ptr<Dispatcher> dispatcher_;
  int generation_ = 0;
  std::uint64_t stored_term_ = 0;
  std::map<std::string, v1::JobRecord> disk_;
  Time store_works_at_;
  Time dispatcher_runs_at_;
  std::multimap<Time, std::function<void()>> events_;
  std::map<StreamId, Link> links_;
  StreamId last_link_ = 0;
  std::vector<Trainer> trainers_;
  std::vector<WorkerProcess> workers_;
  int processes_ = 0;
  int batches_taken_ = 0;
  std::map<std::string, Number> highest_of_group_;
  Number highest_issued_;  // of all sessions
};

}  // namespace millrace::test
