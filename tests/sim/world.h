// Runs one history. Dispatchers, workers and trainers have their real state machines; the network
// and the store between them are simulated, and so are the faults. After every step the world
// checks the invariants of docs/internals/protocol.md. When the faults are over, every job has to
// come to its end.
//
//   I1, E  trainers take exactly the steps of their rank, in order; their job gets each epoch once
//   I2     trainers take the batches of the plan; copies that differ raise an alarm
//   I3     live sessions of a job have the same plan, and each rank has one session
//   I4     of two rivals, the one with the higher number stays
//   I5     buffers keep within their bounds
//   I6     no batch is built unasked
//   I7     nothing of a lower term is stored or obeyed
//   I8     a job's record is on disk before its Welcome
//   I9     a trainer that waits gets its batch in time if a worker could serve it; every epoch
//          ends
//   I10    a store that forgets does not change which batches are delivered (the store is wiped, or
//          restored from an old backup, as a fault)
//   I11    plans go to, and lists name, only workers that have all of the plan's datasets, each
//   with its
//          digest; none serves a plan over bad files; a job ends if no worker is left for it, and
//          otherwise waits and is told which datasets are missing
//   I12    a worker builds no batch that it is building or has in memory
//   I13    a column is made of each of its ranges once, with the values of the right data, and no
//          session begins before the columns that its plan reads are whole
//   I14    a worker with other code of a plugin is in no list. A batch that the code fails to build
//          is tried by two workers and no more, and then the job ends with an error that names the
//          example; otherwise it goes on
//   J1     a step is asked of at most two workers, and the next one of three
//   J2     while a loop waits and a usable member has spoken, the next step is asked for
//   J3     no worker is asked before it has spoken on its stream
//   J5     want lists keep their limits
//
// Jobs are over datasets of several kinds, of which not every worker has all. Some are mixes of
// two datasets, and some worker then has both when the faults are over. Some jobs have one
// fingerprint, and some have replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/counts.h"
#include "tests/sim/history.h"
#include "tests/sim/host_data.h"
#include "tests/sim/network.h"
#include "tests/sim/nodes.h"
#include "tests/support/memory_store.h"

namespace millrace::sim {

/// A dispatcher finds out within this time that another one leads, when it looks at its lease.
inline constexpr Duration kLooksAtLease = std::chrono::seconds(3);
/// A zombie that goes on is killed within this time.
inline constexpr Duration kZombieLives = std::chrono::seconds(10);

class World {
 public:
  explicit World(const History& history);
  /// Runs the history. Returns the first broken invariant with its time; empty if none was broken.
  std::string Run();

  const Counts& counts() const { return counts_; }
  /// `log` says what happened, line by line, if keep_log is set.
  bool keep_log = false;
  std::vector<std::string> log;

 private:
  void Fail(const std::string& what);
  void Note(const std::string& what);
  bool Healed() const { return net_.now() >= faults_over_; }
  void Disturb(Duration lasts);

  // The process at one end of a link; nullopt if it is gone.
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

  // data_faults.cc: faults of datasets, and what hosts do about them
  void StrikeData(const Fault& fault);
  void DamageWorkerData(std::size_t index, const std::string& dataset, Duration lasts);
  void DamageDispatcherData(const std::string& dataset, Duration lasts);
  void LackData(std::size_t index, const std::string& dataset, bool restart, Duration lasts);
  void ReplaceData(std::size_t index, const std::string& dataset, bool restart, Duration lasts);
  /// Does what a daemon does on SIGHUP: the dataset's copy changes, and is then opened.
  void ReloadData(std::size_t index, const std::string& dataset,
                  const std::function<void(DataCopy&)>& change);
  void OpenData(std::size_t index, const std::string& dataset);
  void OnDatasetsChanged(std::size_t index);
  void CompileAtWorker(std::size_t index, const v1::PlanSpec& spec);
  void SnapshotFiles(std::size_t index);
  void OpenAtDispatcher(std::size_t index, const std::string& dataset);
  /// Answers a CompilePlan of a dispatcher, as dispatcher_service does.
  Actions CompilePlanAt(std::size_t index, const CompilePlan& plan);
  /// The plan that a worker says it has compiled. Unavailable if no host has its data any more.
  Result<std::shared_ptr<const PlanFacts>> ReadAnswer(const v1::PipelineText& pipeline,
                                                      const v1::PlanAnswer& answer) const;
  Result<std::shared_ptr<const PlanFacts>> CompileAtDispatcher(
      std::size_t index, const v1::PipelineText& pipeline) const;

  // columns.cc: I13
  std::optional<ColumnWant> MissingColumns(std::size_t index,
                                           const v1::PipelineText& pipeline) const;
  void KeepRange(std::size_t index, const v1::Measured& measured);
  void FinishColumn(std::size_t index, const FinishColumns& action);
  void CheckTasks(const DispatcherNode& node, const millrace::SendWork& action);
  void CheckColumns(const v1::PipelineText& pipeline);
  bool IsMeasured(const v1::PipelineText& pipeline) const;
  void StartMeasure(std::size_t index, const MeasureJob& job);

  // data_checks.cc: I11
  void CheckPlansTold(const DispatcherNode& node, const millrace::SendWork& action);
  void CheckMemberData(const DispatcherNode& node, LinkId stream, const v1::WorkerRef& member);
  void CheckReason(const DispatcherNode& node, const millrace::SendAttach& action);
  void CheckEndedForData(const DispatcherNode& node, LinkId stream, const Status& status);
  void CheckDataWait(TrainerNode& trainer);
  /// Whether a trainer of the job may end so: with an error that names the dataset and the file.
  bool IsLossOfData(const Job& job, const Status& status) const;

  // plugins.cc: I14
  void StrikeCode(const Fault& fault);
  void OnRefusal(TrainerNode& trainer, std::size_t index, client::StreamId stream,
                 const v1::Refused& refused);
  bool FailsNext(const TrainerNode& trainer, const WorkerNode& worker) const;
  /// Whether a trainer may end so: with an error of the plugin that names the example.
  bool IsFailureOfCode(const TrainerNode& trainer, const Status& status) const;
  /// Ends the job if its plugin fails for good. Otherwise the job is launched again.
  void EndFailed(const TrainerNode& trainer);
  /// Whether the worker's host fails to build a batch that the job's trainers know to fail.
  bool FailsWhatWasTried(const Job& job, std::size_t index) const;

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
  void CheckMember(const DispatcherNode& node, LinkId stream, const v1::WorkerRef& member);
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
  void StartBuild(std::size_t index, const BuildQueue::Task& task);
  void CheckAsked(const WorkerNode& node, const BuildQueue::Task& task);
  void CheckMemory(const WorkerNode& node);

  // shared_checks.cc: I12
  void CheckBuiltOnce(WorkerNode& node, const BuildQueue::Task& task);
  void ForgetUnsharable(WorkerNode& node);
  void TickWorker(std::size_t index, ProcessId process);

  // trainer_node.cc
  void Launch(std::size_t job, Position start, std::uint32_t world_size);
  /// Seats are the ranks of the first replica, then those of the second.
  void StartTrainer(std::size_t job, std::uint32_t seat, Position start);
  void KillTrainers(std::size_t job, bool zombies, Duration still);
  void Relaunch(std::size_t job);
  void Supervise();
  void AfterTrainer(std::size_t index);
  void PerformTrainer(std::size_t index, client::Action action);
  void CheckWants(const TrainerNode& trainer, const client::SendWants& wants);
  void OpenAttach(std::size_t index, client::StreamId stream);
  void OpenBatches(std::size_t index, client::StreamId stream, const std::string& address);
  void Replay(std::size_t index);
  void TickTrainer(std::size_t index);
  void OnTrainerEnded(std::size_t index);
  const TrainerNode* FindTrainer(const std::string& where) const;

  // trainer_loop.cc
  void OnBatch(std::size_t index, client::StreamId stream, const v1::BatchFragment& fragment,
               const BuildQueue::Task& task, const Digest128& digest);
  void Loop(std::size_t index);
  void Take(std::size_t index);
  bool MayTake(const TrainerNode& trainer) const;
  void CheckTrainer(TrainerNode& trainer);
  void CheckWait(TrainerNode& trainer);
  void CheckAsked(const TrainerNode& trainer);
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
  std::vector<HostData> worker_data_;          // of the workers' hosts
  HostData dispatcher_data_;                   // of the host of all dispatchers
  std::map<std::string, KeptColumn> columns_;  // on the disk of the dispatchers' host, by key
  std::set<std::string> ever_bad_data_;        // datasets of which a file was bad somewhere
  std::vector<std::unique_ptr<TrainerNode>> trainers_;
  std::vector<Job> jobs_;
  std::uint64_t processes_ = 0;
  WorkerMachine::StreamId last_stream_ = 0;
  bool dispatcher_wanted_ = false;  // a start is under way
  std::string failure_;
  Counts counts_;
};

}  // namespace millrace::sim
