// The queue decides which batch a worker builds next, which one it sends next, and which one it
// forgets when memory is short. It decides from the want lists of the worker's streams. It has no
// threads and no clock, and it sees no plans.
//
// The rules (docs/internals/protocol.md):
// - A batch is built only if a consumer asks for its step.
// - A consumer's next batch comes first. Neither memory nor credit can hold it back.
// - Among jobs, the one that has had the fewest build seconds for its weight goes first. A batch
//   that is being built counts with the mean time of the job's batches. Within a job, the lowest
//   position goes first.
// - A job whose consumers neither wait nor ask for more is owed nothing later for that time.
// - When memory is short, the stream that holds most forgets the batch that it needs last. The
//   batch is built again later.
// - A step that a consumer withdraws is dropped if it is not begun. Otherwise it is built, and kept
//   for streams that reach it later.
// - Streams that ask for one batch share it (shared_batches.h). It is built once while in memory.
//   The job whose turn comes first pays for it. The others pay nothing, and are owed nothing later.
//   A shared batch is forgotten for all its streams, unless it is the next one of any of them.
// - While the worker drains, it begins nothing but the next batch of a consumer.
//
// Not thread-safe. The caller guards it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/time.h"
#include "common/epoch/position.h"
#include "millrace/v1/worker.pb.h"
#include "server/worker/machine/build_task.h"
#include "server/worker/machine/shared_batches.h"
#include "server/worker/machine/turn_estimate.h"

namespace millrace {

class BuildQueue {
 public:
  using StreamId = BatchStreamId;

  using Task = BuildTask;
  using Outgoing = OutgoingBatch;

  /// `memory_budget`: the most bytes of batches built and not sent, over all streams.
  explicit BuildQueue(std::uint64_t memory_budget) : batches_(memory_budget) {}

  /// Changes the budget. If the built batches exceed it, the batches that are needed last are
  /// forgotten until the rest fits. The next batch of a consumer is never forgotten.
  void SetMemoryBudget(std::uint64_t bytes);
  std::uint64_t memory_budget() const { return batches_.budget(); }

  /// Adds a stream that belongs to `job` and needs the batches of `plan` at `place`.
  void AddStream(StreamId stream, const std::string& plan, const std::string& job,
                 RankPlace place = {});
  /// Sets the job's weight. Jobs that wait share build seconds in proportion to their weights. A
  /// new job has weight 1. REQUIRES: the job has a stream, weight > 0.
  void SetWeight(const std::string& job, double weight);
  /// Also forgets the stream's batches, and the job if this was its last stream.
  void RemoveStream(StreamId stream);
  /// Replaces the steps that the stream asks for, as its consumer needs them from `now` on. Returns
  /// InvalidArgument and changes nothing if no honest consumer sends such a list: its runs
  /// overflow, there are more than kMaxRuns runs or kMaxSteps steps, or its credit is lower than
  /// before.
  Status SetWants(StreamId stream, const v1::WantList& wants, Time now = {});
  /// While the worker drains, no batch is begun except the next one of a stream.
  void SetDraining(bool draining) { draining_ = draining; }

  /// Returns the next batch to build and marks it as being built, for all streams that want it;
  /// nullopt if nothing may be built.
  std::optional<Task> Next(Time now = {});
  /// Takes the batch that was built for a task of Next, for all streams that wait for it. Ignores
  /// it if nobody wants it any more, or if its plan was given up.
  void Built(const Task& task, std::shared_ptr<const BuiltBatch> batch, std::uint64_t bytes,
             double seconds);
  /// Notes that the batch cannot be built, and why. Returns the steps that wait for it. They are
  /// refused: a step is not built again for its stream until a list of the stream has not named it.
  std::map<StreamId, Position> GiveUp(const Task& task, const Status& why);
  /// The steps that were refused and that the last list of the stream names all the same, with the
  /// reasons: the refusal was lost, or has crossed the list.
  const std::map<Position, Status>& RefusedOf(StreamId stream) const {
    return streams_.at(stream).refused;
  }
  /// Notes that no batch of the plan can be built any more. Its batches in memory are forgotten,
  /// and its builds under way will be ignored. Returns the streams that asked for some.
  std::set<StreamId> GiveUpPlan(const std::string& plan);
  /// Returns the streams that got a built batch since the last call.
  std::set<StreamId> TakeReady() { return std::exchange(ready_, {}); }

  /// Returns the next batch to send on a stream and counts it as sent; nullopt if no batch is ready
  /// or if the credit does not allow it.
  std::optional<Outgoing> TakeToSend(StreamId stream);

  /// Number of batches sent on the stream so far.
  std::uint64_t BatchesSent(StreamId stream) const;
  /// The number of steps of the stream that are built or being built, its next batch included if it
  /// is to be built. A drain waits for this.
  std::uint64_t Owed(StreamId stream) const;
  bool Owes(StreamId stream) const { return Owed(stream) > 0; }
  /// Whether the next built batch to send waits for credit, or is beyond the steps that may be
  /// sent.
  bool BlockedByCredit(StreamId stream) const;
  /// The steps of the stream that are built and not sent, or on their way.
  std::vector<v1::Run> BuiltRuns(StreamId stream) const;
  /// The steps from the stream's next one on that its twins wait for or are to be sent, or that are
  /// kept, without steps that were sent on it.
  std::vector<v1::Run> TwinRuns(StreamId stream) const;
  /// The builds under way for the stream, by position.
  std::vector<BuildUnderWay> Building(StreamId stream) const;
  /// Rises when the answer of one of these three changes, unless the stream's own want list is why.
  std::uint64_t Changes(StreamId stream) const;
  /// Number of batches that are asked for and not begun yet. Shared ones count once.
  std::uint64_t pending() const { return pending_; }
  /// Whether such a batch is asked for on the stream, or is being built for it.
  bool HasPending(StreamId stream) const;
  /// Whether a consumer waits for the batch of a build that is under way.
  bool IsAwaited(const Task& task) const;
  /// Whether Next would begin a batch of another job that is owed threads.
  bool OwesOther(const Task& task, Time now);
  /// Whether a thread that builds `own` may leave it for `other`: the job of `own` is owed no more.
  bool MayLeaveFor(const Task& own, const Task& other) const;
  /// The job of the stream, and after it the other jobs with batches to build or being built. Empty
  /// if there is no such stream.
  std::vector<JobTurn> Turns(StreamId stream) const;
  /// Whether a consumer waited for a batch, or asked for more, at the last call of Next.
  bool anyone_waits() const;
  /// Number of jobs with streams.
  std::size_t jobs() const { return jobs_.size(); }
  /// Bytes of batches that are built and not sent. Shared ones count once.
  std::uint64_t built_bytes() const { return batches_.built_bytes(); }
  /// Bytes of batches that are kept for streams that reach them later.
  std::uint64_t kept_bytes() const { return batches_.kept_bytes(); }
  /// Number of batches that are asked for, built, kept or on their way.
  std::size_t remembered() const { return batches_.remembered(); }
  /// The state of the queue, stream by stream, as text for debugging.
  std::string Dump() const;

  static constexpr int kMaxRuns = 256;              // of a want list, and of an answer
  static constexpr std::uint64_t kMaxSteps = 4096;  // of a want list, over all runs

 private:
  enum class State : std::uint8_t { kNone, kPending, kBuilding, kBuilt, kSent };

  /// A step that the last want list names.
  struct Entry {
    ExampleRange range;
    Time needed;             // by the consumer's loop
    std::uint64_t list = 0;  // number of the last want list that named it
    State state = State::kNone;
    SharedBatch* batch = nullptr;  // while it waits for the batch or is to be sent it
  };

  struct StreamState {
    StreamId id = 0;
    std::string plan;
    std::string job;
    RankPlace place;
    PlanBatches* batches = nullptr;  // of the plan
    Twins* twins = nullptr;          // null: it has no twins
    Position next;
    std::optional<Position> until;
    bool asks = false;
    std::uint64_t stride = 0;  // of its steps
    std::uint64_t credit = 0;
    std::uint64_t credit_used = 0;
    std::uint64_t batches_sent = 0;
    std::uint64_t lists = 0;  // want lists so far
    std::map<Position, Entry> entries;
    std::set<Position> pending;
    std::set<Position> built;
    std::map<Position, Status> refused;
    std::uint64_t building = 0;          // entries
    std::uint64_t built_bytes = 0;       // shared batches count in full
    std::uint64_t changes = 0;           // of built batches and builds
    std::uint64_t own_twin_changes = 0;  // part of Twins::changes that this stream made
  };

  struct Job {
    double weight = 1;
    double time = 0;           // build seconds divided by weight; a new job starts at served_time_
    double mean_seconds = 0;   // of a batch; 0 before the first
    std::uint64_t active = 0;  // batches pending or being built
    std::uint64_t pending = 0;
    bool waits = false;  // whether a consumer waited or asked for more at the last call of Next
  };

  /// Puts an entry into `state`. From pending to built it is among the entries that want the batch.
  void SetState(StreamState& stream, Position at, Entry& entry, State state);
  /// A built batch is no longer to be sent as this step, which goes into `state`.
  void LeaveBuilt(StreamState& stream, Position at, SharedBatch& batch, State state);
  /// Counts one stream more, or one less, that waits for the step or is to be sent it.
  static void CountAsked(StreamState& stream, Position at, bool more);
  /// Takes over one step of a want list.
  void Ask(StreamState& stream, Position at, ExampleRange range, Entry& entry);
  /// Lets a pending entry take its batch over if it is in memory, or wait for it if it is being
  /// built.
  void TakeOver(StreamState& stream, Position at, Entry& entry);
  /// Gives a built batch to all entries that wait for it. `own` is the entry it was built for, if
  /// any.
  void HandOut(SharedBatch& batch, const SharedBatch::Wanting* own);
  void EraseEntries(StreamState& stream);
  Entry& EntryOf(const SharedBatch::Wanting& wanting) {
    return streams_.at(wanting.first).entries.at(wanting.second);
  }
  /// The built batch that the stream needs last and may forget; nullopt if there is none.
  std::optional<Position> LastToForget(const StreamState& stream) const;
  /// The stream with the most built bytes that may forget a batch; nullptr if there is none.
  StreamState* Richest();
  /// Forgets the built batch that the stream needs last. REQUIRES: it may forget a batch.
  void ForgetLast(StreamState& stream);
  /// Makes room for `wanting`: forgets the last built batch of the richest stream. Returns false if
  /// no stream may forget a batch, or if another stream is the richest and holds no more than
  /// `wanting`.
  bool ForgetFor(const StreamState& wanting);
  /// The entry that is built for next, if memory allows it; nullopt if nothing may be built.
  std::optional<SharedBatch::Wanting> Choose(Time now);
  /// Begins the build of a pending entry's batch.
  Task Begin(const StreamState& stream, Position at, SharedBatch& batch);
  /// Whether the batch is the one that the consumer needs next.
  static bool IsUrgent(const StreamState& stream, Position at) { return at <= stream.next; }
  /// Whether credit and the list's end allow sending the built batch.
  static bool MaySend(const StreamState& stream, Position at, std::uint64_t bytes);
  /// Whether the batch that the consumer needs next is pending or being built. If that batch was
  /// sent already, this is about the batch that the stream asks for after it.
  static bool Waits(const StreamState& stream);
  /// The step that Waits is about; the end if there is none.
  static std::map<Position, Entry>::const_iterator Needed(const StreamState& stream);
  /// Whether memory allows the stream another batch: the budget is not used up, or the stream holds
  /// less than its equal share.
  bool MayBuild(const StreamState& stream) const;
  bool IsFull() const { return built_bytes() >= memory_budget(); }

  SharedBatches batches_;
  std::map<StreamId, StreamState> streams_;
  std::map<std::string, Job> jobs_;
  /// Jobs whose last stream has gone, and which have had more time than the job that was served
  /// last. One that comes back goes on from there: a consumer closes a stream that it does not use
  /// for some seconds.
  std::map<std::string, Job> gone_;
  std::set<StreamId> ready_;  // that got a built batch since the last call of TakeReady
  /// Job::time of a job that had something to build all the time and had its share of it. It goes
  /// on with each build. So a job that has had more comes after others for a while, but not for as
  /// long as new jobs come (virtual time of A. Demers, S. Keshav, S. Shenker, "Analysis and
  /// simulation of a fair queueing algorithm", 1989).
  double served_time_ = 0;
  std::uint64_t pending_ = 0;
  bool draining_ = false;
};

}  // namespace millrace
