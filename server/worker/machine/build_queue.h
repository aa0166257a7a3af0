// What a worker builds next, what it sends next, and what it forgets when memory is short. Pure
// decisions over the want lists of its streams: no threads, no clock, no plans.
//
// Rules (docs/protocol.md): nothing is built without room. What a consumer needs next comes first
// and is refused neither for memory nor for credit. Among jobs, the one that has had the fewest
// build seconds for its weight goes first, what is being built counted at the job's mean; within a
// job the lowest position. A job whose consumers do not wait collects no claim. Short of memory,
// what is needed last by the stream that holds most is forgotten and built again later.
//
// Not thread-safe: the worker guards it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/epoch/position.h"
#include "millrace/v1/worker.pb.h"

namespace millrace {

struct BuiltBatch;  // server/worker/service/builder.h

class BuildQueue {
 public:
  using StreamId = std::uint64_t;

  /// One batch of one stream's lease.
  struct Task {
    StreamId stream = 0;
    std::string plan;  // fingerprint
    std::string job;
    Number lease;
    Position at;
    ExampleRange range;
    double charged = 0;  // build seconds that the job has been charged with already
  };

  /// A built batch on its way out.
  struct Outgoing {
    Task task;
    std::shared_ptr<const BuiltBatch> batch;
    std::uint64_t bytes = 0;
    std::uint64_t credit_used = 0;  // of the stream's credit, this batch included
  };

  /// `memory_budget`: bytes of batches that are built and not sent, over all streams.
  explicit BuildQueue(std::uint64_t memory_budget) : memory_budget_(memory_budget) {}

  /// Another budget. What is needed last is forgotten until the rest fits, but no consumer's next.
  void SetMemoryBudget(std::uint64_t bytes);
  std::uint64_t memory_budget() const { return memory_budget_; }

  /// A stream of a job, for batches of a plan.
  void AddStream(StreamId stream, const std::string& plan, const std::string& job);
  /// The job's share of build seconds, against those of others that wait. At first 1.
  /// REQUIRES: a stream of the job, weight > 0.
  void SetWeight(const std::string& job, double weight);
  /// Its batches go with it.
  void RemoveStream(StreamId stream);
  /// Replaces all that the stream wants. InvalidArgument (nothing changed) for a list that no
  /// honest consumer sends: overflowing shards, more than kMaxWantedBatches batches, credit that
  /// decreases.
  Status SetWants(StreamId stream, const v1::WantList& wants);

  /// The next batch to build, now marked as being built; none where nothing may be built.
  std::optional<Task> Next();
  /// Hands in what Next asked for. Ignored where it is not wanted any more.
  void Built(const Task& task, std::shared_ptr<const BuiltBatch> batch, std::uint64_t bytes,
             double seconds);
  /// The batch cannot be built: the whole lease is given up and not built again for this stream.
  void GiveUp(const Task& task);
  /// None of the stream's batches can be built any more: what is built is forgotten. The leases
  /// that were given up.
  std::vector<Number> GiveUpAll(StreamId stream);

  /// The next batch to send on a stream, now counted as sent; none where nothing is ready or credit
  /// does not allow it.
  std::optional<Outgoing> TakeToSend(StreamId stream);

  /// Whether the stream waits for anything that it wants built.
  bool Owes(StreamId stream) const;
  /// Whether a built batch waits for credit.
  bool BlockedByCredit(StreamId stream) const;
  /// What is being built for the stream, if anything.
  std::optional<Position> Building(StreamId stream) const;
  /// Batches that may be built and are not yet, over all streams.
  std::uint64_t pending() const { return pending_; }
  /// Jobs that have streams.
  std::size_t jobs() const { return jobs_.size(); }
  /// Leases that streams want from this worker.
  std::uint64_t leases() const;
  /// Bytes of batches built and not sent.
  std::uint64_t built_bytes() const { return built_bytes_; }
  /// What it knows, stream by stream, as text for people who look for a fault.
  std::string Dump() const;

  static constexpr std::uint64_t kMaxWantedBatches = 1 << 16;

 private:
  enum class State : std::uint8_t { kNoRoom, kPending, kBuilding, kBuilt, kSent };
  using Key = std::pair<Position, Number>;  // position first: lowest is needed first

  struct Entry {
    ExampleRange range;
    std::uint64_t list = 0;  // number of the want list that named it last
    State state = State::kNoRoom;
    bool room = false;  // as the last want list says
    std::shared_ptr<const BuiltBatch> batch;
    std::uint64_t bytes = 0;
  };

  struct StreamState {
    std::string plan;
    std::string job;
    Position next;
    std::uint64_t credit = 0;
    std::uint64_t credit_used = 0;
    std::uint64_t lists = 0;  // want lists so far
    std::map<Key, Entry> entries;
    std::set<Key> pending;
    std::set<Key> built;
    std::set<Number> given_up;
    std::set<Number> leases;
    std::uint64_t built_bytes = 0;
  };

  struct Job {
    double weight = 1;
    double time = 0;           // build seconds by weight; a newcomer starts where the others are
    double mean_seconds = 0;   // of a batch; 0 before the first
    std::uint64_t active = 0;  // batches pending or being built
    bool waits = false;        // at the last call of Next: a consumer had nothing else to take
  };

  void SetState(StreamState& stream, const Key& key, Entry& entry, State state);
  /// The stream that holds most, of those that hold more than their next; nullptr: none.
  StreamState* Richest();
  void ForgetLast(StreamState& stream);
  /// Makes room for `wanting` by forgetting what another stream that holds more needs last.
  bool ForgetFor(const StreamState& wanting);
  static bool IsUrgent(const StreamState& stream, const Key& key) {
    return key.first <= stream.next;
  }
  /// Whether the consumer's next batch is still to be built, or the one after it where its next has
  /// just gone out.
  static bool Waits(const StreamState& stream);
  bool MayBuild(const StreamState& stream) const;

  std::uint64_t memory_budget_;
  std::map<StreamId, StreamState> streams_;
  std::map<std::string, Job> jobs_;
  double served_time_ = 0;  // of the job served last
  std::uint64_t pending_ = 0;
  std::uint64_t built_bytes_ = 0;
};

}  // namespace millrace
