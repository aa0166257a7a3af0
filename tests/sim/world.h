// Runs one history. Dispatchers, workers and trainers have their real state machines; the network
// and the store between them are simulated, and so are the faults. After every step the world
// checks the invariants of docs/protocol.md. When the faults are over, every job has to come to its
// end.
//
//   I1, E  trainers take exactly the steps of their rank, in order; their job gets each epoch once
//   I2     trainers take the batches of the plan; copies that differ raise an alarm
//   I3     live sessions of a job have the same plan, and each rank has one session
//   I4     of two rivals, the one with the higher number stays
//   I5     buffers keep within their bounds
//   I6     no batch is built without room
//   I7     nothing of a lower term is stored or obeyed
//   I8     a job's record is on disk before its Welcome
//   I9     a trainer that waits gets its batch in time if a worker could serve it; every epoch
//          ends; in a history without faults, a lease comes sooner than the next regular report
//          would ask for it
//   I10    a store that forgets does not change which batches are delivered (the store is wiped, or
//          restored from an old backup, as a fault)
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

/// If another dispatcher leads now, the old one finds that out within this time, when it looks at
/// its lease.
inline constexpr Duration kLooksAtLease = std::chrono::seconds(3);
/// A zombie that goes on is killed within this time.
inline constexpr Duration kZombieLives = std::chrono::seconds(10);

class World {
 public:
  explicit World(const History& history);
  /// Runs the history. Returns the first broken invariant with its time; empty if none was broken.
  std::string Run();

  /// Counts events of histories. They show that the histories are not idle.
  struct Counts {
    std::uint64_t events = 0;
    std::uint64_t batches = 0;
    std::uint64_t welcomes = 0;
    std::uint64_t taken_over = 0;
    std::uint64_t refused = 0;  // trainers for which another one held the job for too long
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
  /// `log` says what happened, line by line, if keep_log is set.
  bool keep_log = false;
  std::vector<std::string> log;

 private:
  using Moves = std::optional<int>;  // how many actions until a crash, if one is to come

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
    std::uint64_t attempt = 0;  // number of the attempt that opened `work`
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
    std::optional<Time> numbered;  // when it got its number
    bool numbered_by_leader = true;
    std::map<std::uint64_t, Kept> kept;  // by step
    std::map<std::uint64_t, Digest128> first_digest;
    std::uint64_t differing_copies = 0;
    std::optional<Position> expected;  // position of its next step
    std::uint64_t taken = 0;
    std::uint64_t largest_window = 0;
    std::uint64_t largest_bytes = 0;
    Time busy_until;
    std::optional<Time> waits_since;
    std::optional<Time> servable_since;   // since when it knows a worker that is ready
    std::optional<Time> leaseless_since;  // since when its loop waits for a possible lease
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
    std::uint64_t step = 0;  // examples in a step of all ranks
  };
  struct Job {
    JobSetup setup;
    std::string name;
    Places places;
    Position launched_at;
    std::vector<std::size_t> trainers;  // those of the present launch
    std::vector<Delivered> delivered;   // batches that the job's checkpoints count as taken
    std::uint64_t launches = 0;
    bool relaunching = false;
    bool done = false;
  };

  void Fail(const std::string& what);
  void Note(const std::string& what);
  bool Healed() const { return net_.now() >= faults_over_; }
  void Disturb(Duration lasts);

  // The process at one end of a link, by its index, and its own number of the link. The functions
  // return nullopt if the process is gone.
  struct AtLink {
    std::size_t index;
    std::uint64_t stream;
  };
  std::optional<AtLink> TrainerAt(LinkId link) const;
  std::optional<AtLink> WorkerAt(LinkId link) const;
  std::optional<std::size_t> DispatcherAt(LinkId link) const;

  // world.cc: runs the history and its faults
  void Strike(const Fault& fault);
  void CheckEnd();
  void CheckRecords();
  bool AllDone() const;
  /// Counts one action. Returns true if the process is dead or dies before the action.
  bool Crashes(Moves& crash, ProcessId process);

  // dispatcher_node.cc
  void StartDispatcher();
  void StopDispatcher(std::size_t index, Duration restart_after);
  void OnDispatcher(std::size_t index, Actions actions);
  void TickDispatcher(std::size_t index);
  void Commit(std::size_t index, const v1::JobRecord& record);
  bool StoreFails() const { return net_.now() < store_fails_until_; }
  /// Replaces the store by one with the contents of the backup.
  void RestoreStore(const StoredState& backup);
  void SendAttachDown(std::size_t index, const millrace::SendAttach& action);
  void CheckLease(const DispatcherNode& node, LinkId stream, const v1::Lease& lease);
  /// Whether the dispatcher is the newest leader. The messages of an older one are not checked in
  /// full: a real leader looks at its lease before every event (state/election.h), and the
  /// simulation does not.
  bool Leads(const DispatcherNode& node) const { return node.term >= highest_stored_term_; }
  void CheckWelcome(const DispatcherNode& node, const millrace::SendAttach& action);
  void CheckSessions(const DispatcherNode& node);
  /// A random dispatcher that is up; nullopt if none is.
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
  Time disturbed_until_;  // until then trainers may wait for longer than I9 says
  Time drains_until_;     // until then a worker drains, if this is the history's only fault
  std::int64_t clock_offset_ = 0;
  DispatcherOptions dispatcher_options_;
  std::shared_ptr<Logger> quiet_;
  std::unique_ptr<MemoryStore> store_;
  std::uint64_t highest_stored_term_ = 0;
  std::uint64_t seen_term_ = 0;  // a higher term, of which peers told a dispatcher
  StoredState backup_;           // the store's contents at a random time; empty until then
  Time store_fails_until_;
  bool store_loses_answers_ = false;  // when the store fails, it writes but gives no answer
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
