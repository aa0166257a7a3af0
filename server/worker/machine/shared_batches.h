// The batches that the streams of a worker want, by plan, epoch and examples. If several streams
// want one batch, it is built once while it is in memory, and it counts once there.
//
// A batch is in memory in one of three ways:
// - built: some stream is still to be sent it.
// - kept: no stream is to be sent it now, but a stream that was not sent it reaches it later: the
//   stream that has withdrawn it, or a twin of the stream that was sent it. Two streams are twins
//   if they have one plan, world size and rank: replicas, or two jobs of one fingerprint. Twins
//   rarely run in step, and the first one has its batches built before the other asks for them.
//   Streams do not wait for their twins. So batches are kept in the memory that built ones leave of
//   the budget, and for no longer than until the last twin has passed them. If memory is short,
//   kept batches go first, and among them the batches that are needed last.
// - alive: it was sent, and only a transport still has it. It can be taken from there, but it is
//   not kept alive, and does not count.
//
// build_queue.h decides what is built, and for whom. Not thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/epoch/position.h"

namespace millrace {

struct BuiltBatch;  // server/worker/service/builder.h

/// The number of a consumer's stream.
using BatchStreamId = std::uint64_t;

/// Says which batches of a plan a stream needs. Streams with equal places are twins.
struct RankPlace {
  std::uint32_t world_size = 0;  // 0: unknown; the stream has no twin, and nothing is kept for it
  std::uint32_t rank = 0;
  friend auto operator<=>(const RankPlace&, const RankPlace&) = default;
};

/// The identity of a batch of a plan.
struct BatchId {
  std::uint64_t epoch = 0;
  ExampleRange range;
  friend auto operator<=>(const BatchId&, const BatchId&) = default;
};

struct PlanBatches;
struct Twins;

/// One batch, as long as a stream asks for it, it is being built, or it is in memory.
struct SharedBatch {
  using Wanting = std::pair<BatchStreamId, Position>;  // a step that a stream asks for

  BatchId id;
  PlanBatches* plan = nullptr;
  std::uint64_t build = 0;          // number of the build under way; 0: no build
  BatchStreamId built_for = 0;      // the stream whose turn it was when the last build began
  std::set<Wanting> wanted;         // steps that wait for the batch or are to be sent it
  std::uint32_t pending = 0;        // of these, wait for a build that is not begun
  std::uint32_t to_send = 0;        // of these, are to be sent it. It is built if there are any
  std::set<BatchStreamId> sent_to;  // streams that were sent it
  std::uint64_t bytes = 0;          // once it is built
  std::shared_ptr<const BuiltBatch> batch;                  // set if it is built or kept
  std::weak_ptr<const BuiltBatch> sent;                     // the batch that was sent last
  std::optional<std::pair<RankPlace, Position>> withdrawn;  // the last one, while it was built
  Twins* kept_for = nullptr;                                // set if it is kept
  Position kept_at;
  bool swept = false;  // PlanBatches::sent has its id
};

/// Twins, and the batches that are kept for them.
struct Twins {
  std::map<BatchStreamId, Position> next;  // of each stream
  std::map<Position, std::uint32_t>
      asked;  // how many streams wait for the step or are to be sent it
  std::map<Position, SharedBatch*> kept;
  std::uint64_t kept_bytes = 0;
  std::uint64_t changes = 0;  // of `asked` and `kept`
};

struct PlanBatches {
  std::string name;
  std::map<BatchId, SharedBatch> batches;
  std::map<RankPlace, Twins> twins;
  std::deque<BatchId> sent;  // batches that may be alive, in the order in which they were sent
  std::uint64_t streams = 0;
  std::uint64_t builds = 0;  // under way
};

class SharedBatches {
 public:
  explicit SharedBatches(std::uint64_t budget) : budget_(budget) {}

  /// Adds a stream of the plan. The result, and its twins, stay valid until RemoveStream.
  PlanBatches& AddStream(BatchStreamId stream, const std::string& plan, RankPlace place);
  void RemoveStream(BatchStreamId stream, PlanBatches& plan, RankPlace place);
  /// Notes the place of the stream. Batches that no twin reaches any more are not kept.
  void Moved(BatchStreamId stream, PlanBatches& plan, RankPlace place, Position next);
  /// Forgets the kept and alive batches of a plan, and the results of builds under way. REQUIRES:
  /// no stream waits for a batch of the plan or is to be sent one.
  void ForgetPlan(const std::string& plan);

  /// The batch, which is new if it is unknown. The caller has to fill `wanted`, or call
  /// EraseIfIdle.
  SharedBatch& Get(PlanBatches& plan, const BatchId& id);
  /// Forgets the batch if it is unused. The reference is invalid then.
  void EraseIfIdle(SharedBatch& batch);

  /// Begins a build for a stream, whose turn it is, and returns its number.
  std::uint64_t Begin(SharedBatch& batch, BatchStreamId stream);
  /// The batch of a build under way; nullptr if nobody can want it.
  const SharedBatch* Find(std::uint64_t build) const {
    const auto found = building_.find(build);
    return found == building_.end() ? nullptr : found->second;
  }
  /// Ends a build. Returns nullptr if nobody can want the batch: the plan was forgotten, or has no
  /// stream. Otherwise the caller has to call EraseIfIdle if nobody wants it.
  SharedBatch* End(std::uint64_t build);

  /// Whether the batch is kept or alive: it need not be built again.
  static bool IsLeft(const SharedBatch& batch) {
    return batch.kept_for != nullptr || !batch.sent.expired();
  }
  /// Whether the budget has room for the batch besides the built ones.
  bool Fits(const SharedBatch& batch) const { return built_bytes_ + batch.bytes <= budget_; }
  /// Makes a batch count as built.
  void SetBuilt(SharedBatch& batch, std::shared_ptr<const BuiltBatch> built, std::uint64_t bytes);
  /// Makes a batch that is kept or alive count as built again. REQUIRES: IsLeft(batch).
  void TakeBack(SharedBatch& batch);
  /// Notes that the built batch goes out on a stream.
  void Sending(SharedBatch& batch, BatchStreamId stream);
  /// Notes that the batch is no longer built: it went out as the step at `at` of a stream with this
  /// place, or that stream has withdrawn it, and no other stream is to be sent it. The batch is
  /// gone afterwards if nobody wants it and it is not kept for a twin.
  void Leave(SharedBatch& batch, RankPlace place, Position at);
  /// Notes that the batch is no longer built: its memory is needed.
  void Drop(SharedBatch& batch);

  std::uint64_t budget() const { return budget_; }
  void set_budget(std::uint64_t bytes);
  /// Bytes of built batches.
  std::uint64_t built_bytes() const { return built_bytes_; }
  /// Bytes of kept batches. If there are any, they fit the budget together with the built ones.
  std::uint64_t kept_bytes() const { return kept_bytes_; }
  /// Number of known batches.
  std::size_t remembered() const;

 private:
  /// Whether some twin reaches the batch later and was not sent it.
  static bool IsAwaited(const SharedBatch& batch, const Twins& twins, Position at);
  void Keep(SharedBatch& batch, Twins& twins, Position at);
  void Unkeep(SharedBatch& batch);
  /// Forgets kept batches until they fit the budget.
  void FitKept();
  /// Forgets the first kept batches, which no twin reaches any more.
  void ForgetPassed(Twins& twins);
  /// Forgets some of the batches that are not alive any more.
  void Sweep(PlanBatches& plan);
  void EraseIfUnused(PlanBatches& plan);

  std::uint64_t budget_;
  std::uint64_t built_bytes_ = 0;
  std::uint64_t kept_bytes_ = 0;
  std::uint64_t begun_ = 0;                         // builds so far
  std::map<std::uint64_t, SharedBatch*> building_;  // by the number of the build
  std::map<std::string, PlanBatches> plans_;        // by fingerprint
};

}  // namespace millrace
