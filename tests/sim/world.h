// One history: dispatchers, workers and trainers around their real state machines, a network and a
// store between them, and the faults that befall them. After every step the invariants of
// docs/protocol.md are looked at; when the faults are over, every job has to come to its end.
//
//   I1, E  trainers take exactly the steps of their rank, in order; a job's epochs are covered once
//   I2     what they take is the plan's, and copies that differ raise the alarm
//   I3     live sessions of a job agree, one a rank
//   I4     of two rivals the one whose number is higher stays
//   I5     buffers keep their bounds
//   I6     nothing is built without room
//   I7     nothing of a lower term is stored or obeyed
//   I8     a job's record is on disk before its Welcome
//   I9     who waits while a worker could serve gets its batch in time; every epoch ends; where
//          nothing befalls a history, a lease comes before a report in turn would ask for it
//   I10    a store that forgets changes nothing of what is delivered (it is wiped,
//          or restored from an old backup, as a fault)
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/session/machine/session_machine.h"
#include "server/dispatcher/machine/dispatcher_machine.h"
#include "server/state/memory_store.h"
#include "server/worker/machine/worker_machine.h"
#include "tests/sim/history.h"
#include "tests/sim/network.h"
#include "tests/sim/places.h"

namespace millrace::sim {

/// A dispatcher that another has followed looks at its lease within this time.
inline constexpr Duration kLooksAtLease = std::chrono::seconds(3);

class World {
 public:
  explicit World(const History& history);
  /// Runs it. The first broken invariant, with the time; empty where none was.
  std::string Run();

  /// What histories were made of, to see that they are not idle.
  struct Counts {
    std::uint64_t events = 0;
    std::uint64_t batches = 0;
    std::uint64_t welcomes = 0;
    std::uint64_t taken_over = 0;
    std::uint64_t refused = 0;  // another trainer held the job for too long
    std::uint64_t relaunches = 0;
    std::uint64_t self_leases = 0;
    std::uint64_t copies = 0;
    std::uint64_t duplicates = 0;
    std::uint64_t mismatches = 0;
    std::uint64_t terms = 0;
    std::uint64_t crashes_between = 0;
    double longest_wait = 0;  // for a batch, seconds

    void Add(const Counts& more);
    std::string ToString() const;
  };
  const Counts& counts() const { return counts_; }
  /// What happened last, line by line; kept where asked for.
  bool keep_log = false;
  std::vector<std::string> log;

 private:
  using Moves = std::optional<int>;  // actions left until a crash between two of them

  struct DispatcherNode {
    ProcessId process = 0;
    std::unique_ptr<DispatcherMachine> machine;
    std::uint64_t term = 0;
    Moves crash;
  };
  struct WorkerStream {
    LinkId link = 0;
    v1::WantList wants;
  };
  struct WorkerNode {
    ProcessId process = 0;
    std::unique_ptr<WorkerMachine> machine;
    std::map<WorkerMachine::StreamId, WorkerStream> streams;
    LinkId work = 0;
    std::uint64_t attempt = 0;  // that `work` is of
    std::uint64_t highest_term = 0;
    std::uint32_t building = 0;
    Time slow_until;
    Time wrong_until;
    Moves crash;
  };
  struct Kept {
    ExampleRange range;
    Digest128 digest;
  };
  struct TrainerNode {
    ProcessId process = 0;
    std::size_t job = 0;
    std::uint32_t rank = 0;
    Places places;
    Position start;
    Position end;
    std::unique_ptr<client::SessionMachine> state;
    v1::AttachRequest first_message;
    LinkId attach = 0;
    std::map<client::StreamId, LinkId> links;
    std::uint64_t highest_term = 0;
    Time started;
    std::optional<Time> numbered;  // when it had its number first
    bool numbered_by_leader = true;
    std::map<std::uint64_t, Kept> kept;  // by step
    std::map<std::uint64_t, Digest128> first_digest;
    std::uint64_t differing_copies = 0;
    std::optional<Position> expected;  // of its next step
    std::uint64_t taken = 0;
    std::uint64_t largest_window = 0;
    std::uint64_t largest_bytes = 0;
    Time busy_until;
    std::optional<Time> waits_since;
    std::optional<Time> servable_since;   // it knows a worker that is ready
    std::optional<Time> leaseless_since;  // its loop waits for a lease that could be given
    Time slow_until;
    Time next_tick;
    bool finished = false;
    bool gone = false;  // killed, or ended with an error
    std::string where;
    Moves crash;
  };
  struct Delivered {
    Position at;
    ExampleRange range;
    std::uint64_t step = 0;  // examples
  };
  struct Job {
    JobSetup setup;
    std::string name;
    Places places;
    Position launched_at;
    std::vector<std::size_t> trainers;  // of the present launch
    std::vector<Delivered> delivered;   // what the job's checkpoints count
    std::uint64_t launches = 0;
    bool relaunching = false;
    bool done = false;
  };

  void Fail(const std::string& what);
  void Note(const std::string& what);
  bool Healed() const { return net_.now() >= faults_over_; }
  void Disturb(Duration lasts);

  // Who has a link, and what it calls it; none where that is gone.
  struct AtLink {
    std::size_t index;
    std::uint64_t stream;
  };
  std::optional<AtLink> TrainerAt(LinkId link) const;
  std::optional<AtLink> WorkerAt(LinkId link) const;
  std::optional<std::size_t> DispatcherAt(LinkId link) const;

  // world.cc: the frame, faults
  void Strike(const Fault& fault);
  void CheckEnd();
  void CheckRecords();
  bool AllDone() const;
  /// Counts an action down; true where the process dies before it.
  bool Crashes(Moves& crash, ProcessId process);

  // dispatcher_node.cc
  void StartDispatcher();
  void StopDispatcher(std::size_t index, Duration restart_after);
  void OnDispatcher(std::size_t index, Actions actions);
  void TickDispatcher(std::size_t index);
  void Commit(std::size_t index, const v1::JobRecord& record);
  bool StoreFails() const { return net_.now() < store_fails_until_; }
  /// Of a backup, however old it be.
  void RestoreStore(const StoredState& backup);
  void SendAttachDown(std::size_t index, const millrace::SendAttach& action);
  void CheckLease(const DispatcherNode& node, LinkId stream, const v1::Lease& lease);
  /// What one whose time is over says counts for less: a leader asks its lease before every event
  /// (state/election.h), which is not simulated.
  bool Leads(const DispatcherNode& node) const { return node.term >= highest_stored_term_; }
  void CheckWelcome(const DispatcherNode& node, const millrace::SendAttach& action);
  void CheckSessions(const DispatcherNode& node);
  /// One that is up, or none.
  std::optional<std::size_t> AnyDispatcher();
  Moment Now() const;

  // worker_node.cc
  void StartWorker(std::size_t index);
  void StopWorker(std::size_t index, Duration restart_after);
  void AfterWorker(std::size_t index);
  void PerformWorker(std::size_t index, WorkerAction::Any action);
  void OpenWork(std::size_t index, std::uint64_t attempt);
  void SendBatch(std::size_t index, const WorkerAction::SendBatch& action);
  void Build(std::size_t index);
  void CheckRoom(const WorkerNode& node, const BuildQueue::Task& task);
  void TickWorker(std::size_t index, ProcessId process);

  // trainer_node.cc
  void Launch(std::size_t job, Position start, std::uint32_t world_size);
  void StartTrainer(std::size_t job, std::uint32_t rank, Position start);
  void KillTrainers(std::size_t job, bool zombies, Duration still);
  void Relaunch(std::size_t job);
  void Supervise();
  void AfterTrainer(std::size_t index);
  void PerformTrainer(std::size_t index, client::Action action);
  void OpenAttach(std::size_t index, client::StreamId stream);
  void OpenBatches(std::size_t index, client::StreamId stream, const std::string& address);
  void Replay(std::size_t index);
  void TickTrainer(std::size_t index);
  void OnTrainerEnded(std::size_t index);
  const TrainerNode* FindTrainer(const std::string& where) const;

  // trainer_loop.cc
  void OnBatch(std::size_t index, client::StreamId stream, const v1::BatchPart& part,
               const BuildQueue::Task& task, const Digest128& digest);
  void Loop(std::size_t index);
  void Take(std::size_t index);
  bool MayTake(const TrainerNode& trainer) const;
  void CheckTrainer(TrainerNode& trainer);
  void CheckWait(TrainerNode& trainer);
  void CheckLeaseWait(TrainerNode& trainer);
  bool IsWrongCopy(const Digest128& digest, const Digest128& plan) const;
  bool Reaches(ProcessId a, ProcessId b) const;
  void CheckCovered(const Job& job);
  bool CouldBeServed(const TrainerNode& trainer) const;

  static Digest128 DigestOf(const std::string& fingerprint, std::uint64_t epoch,
                            const ExampleRange& range);
  static std::uint64_t BytesOf(const Digest128& digest) { return 200 + digest.low % 1800; }

  const History history_;
  Network net_;
  Time began_;
  Time faults_over_;      // from then on everything works
  Time disturbed_until_;  // by anything but a dispatcher that is away
  Time drains_until_;     // a worker, and nothing else befalls this history
  std::int64_t clock_offset_ = 0;
  DispatcherOptions dispatcher_options_;
  std::shared_ptr<Logger> quiet_;
  std::unique_ptr<MemoryStore> store_;
  std::uint64_t highest_stored_term_ = 0;
  std::uint64_t seen_term_ = 0;  // of another dispatcher, as peers told one that stepped down
  StoredState backup_;           // of some time before; empty until then
  Time store_fails_until_;
  bool store_loses_answers_ = false;  // it writes then, and nobody is told
  std::vector<std::unique_ptr<DispatcherNode>> dispatchers_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  std::vector<std::unique_ptr<TrainerNode>> trainers_;
  std::vector<Job> jobs_;
  std::uint64_t processes_ = 0;
  WorkerMachine::StreamId last_stream_ = 0;
  bool dispatcher_wanted_ = false;  // a start is under way
  std::string failure_;
  Counts counts_;
};

}  // namespace millrace::sim
