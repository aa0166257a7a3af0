// What a worker says of itself on the stream of a consumer (Alive in worker.proto), and when.

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/mutant.h"
#include "common/transport/convert/places.h"
#include "server/worker/machine/worker_machine.h"

namespace millrace {
namespace {

/// If two ticks are further apart than this, the process stood still between them.
constexpr Duration kStoodStill = std::chrono::seconds(1);
/// A stream takes part in the worker's threads for so long after the last step that waited there.
constexpr Duration kSharesLast = std::chrono::milliseconds(250);
/// A change of the time of a batch by less than this part of it is not worth a message.
constexpr double kWorthSaying = 0.1;
constexpr double kWorthSayingMs = 0.2;

/// A turn that comes sooner or later than was said by less than this part of a batch is not worth a
/// message.
constexpr double kTurnWorthSaying = 0.5;

/// Milliseconds since `then`. A build's end is timed before others know of it, so `then` may be
/// later.
std::uint32_t AgeMs(Time then, Time now) {
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - then).count();
  if (IsMutant(Mutant::kNegativeAge)) return static_cast<std::uint32_t>(age);
  return static_cast<std::uint32_t>(std::max<std::int64_t>(0, age));
}

}  // namespace

WorkerCapacity WorkerMachine::CapacityFor(const PlanBuilds& builds) const {
  const std::uint64_t budget = queue_.memory_budget();
  return {.threads = tuning_.threads(),
          .batch_seconds = builds.time.seconds(),
          .batch_bytes = builds.bytes,
          .memory_bytes = budget - std::min(budget, queue_.built_bytes())};
}

WorkerMachine::Figures WorkerMachine::FiguresOf(StreamId id, const StreamEntry& stream,
                                                Time now) const {
  const PlanBuilds builds = build_times_.Of(stream.fingerprint);
  const WorkerCapacity capacity = CapacityFor(builds);
  const StreamShare share = shares_.Of(id);
  return {.slots = draining() ? 0 : SlotsOfStream(capacity, share),
          .threads_milli = ThreadsMilli(capacity.threads, share.of_worker),
          .batch_ms = builds.time.seconds() * 1e3,
          .split = SplitOf(stream.fingerprint, builds),
          .turn_seconds = TurnOf(id, now)};
}

std::optional<double> WorkerMachine::TurnOf(StreamId id, Time now) const {
  std::vector<JobTurn> turns = queue_.Turns(id);
  if (turns.size() < 2) return std::nullopt;
  std::vector<double> busy;
  for (const auto& [build, under_way] : building_) {
    busy.push_back(std::max(0.0, under_way.usual_seconds - ToSeconds(now - under_way.since)));
  }
  return SecondsToTurn(std::move(turns), std::move(busy), tuning_.threads());
}

bool WorkerMachine::TurnChanged(const Figures& figures, const Figures& said, double seconds_ago) {
  if (figures.turn_seconds.has_value() != said.turn_seconds.has_value()) return true;
  if (!figures.turn_seconds) return false;
  const double expected = std::max(0.0, *said.turn_seconds - seconds_ago);
  return std::abs(*figures.turn_seconds - expected) > kTurnWorthSaying * figures.batch_ms / 1e3;
}

Duration WorkerMachine::AliveSpacing() const {
  return std::clamp<Duration>(kAliveSpacingOfStream * streams_.size(), kAliveSpacing, kAlivePeriod);
}

void WorkerMachine::NoteChanges(StreamId id, StreamEntry& stream, Time now) {
  if (queue_.Changes(id) == stream.changes_said) return;
  if (queue_.Owed(id) == 0 && queue_.TwinRuns(id).empty()) {
    stream.changes_said = queue_.Changes(id);  // the batches have gone out, and said so themselves
  } else if (now - stream.alive_said >= AliveSpacing()) {
    stream.alive_due = true;
  }
}

bool WorkerMachine::AliveIsDue(StreamId id, const StreamEntry& stream, Time now) const {
  if (stream.alive_due || now - stream.last_write >= kAlivePeriod) return true;
  if (now - stream.wants_heard >= kWantsSilence && !stream.deaf_said) return true;
  if (now - stream.alive_said < AliveSpacing()) return false;
  const Figures figures = FiguresOf(id, stream, now);
  const Figures& said = stream.figures;
  const double least = said.batch_ms == 0 ? 0 : std::max(kWorthSayingMs, kWorthSaying * said.batch_ms);
  if (std::abs(figures.batch_ms - said.batch_ms) > least) return true;
  // With each stream that begins or ends to ask, all others have other shares. Of a thousand, only
  // those that lack slots need to know at once; the others hear of it within a second.
  if (!stream.asks) return false;
  return figures.slots != said.slots || figures.threads_milli != said.threads_milli ||
         figures.split != said.split ||
         TurnChanged(figures, said, ToSeconds(now - stream.alive_said));
}

void WorkerMachine::SendAlive(StreamId id, StreamEntry& stream, Time now) {
  stream.alive_due = false;
  stream.alive_said = now;
  stream.figures = FiguresOf(id, stream, now);
  stream.changes_said = queue_.Changes(id);
  stream.deaf_said = now - stream.wants_heard >= kWantsSilence;

  v1::BatchFragment message;
  message.set_batches_sent(queue_.BatchesSent(id));
  v1::Alive& alive = *message.mutable_alive();
  alive.set_batches_before(static_cast<std::uint32_t>(queue_.pending()));
  alive.set_wants_age_ms(AgeMs(stream.wants_heard, now));
  alive.set_slots(stream.figures.slots);
  alive.set_batch_ms(stream.figures.batch_ms);
  alive.set_threads_milli(stream.figures.threads_milli);
  alive.set_split(stream.figures.split);
  if (stream.figures.turn_seconds) {
    alive.set_turn_ms(static_cast<std::uint32_t>(std::min(1e9, *stream.figures.turn_seconds * 1e3)));
  }
  for (v1::Run& run : queue_.BuiltRuns(id)) *alive.add_built() = std::move(run);
  for (v1::Run& run : queue_.TwinRuns(id)) *alive.add_twins() = std::move(run);
  std::vector<std::uint64_t> builds;
  for (const BuildUnderWay& under_way : queue_.Building(id)) {
    const auto known = building_.find(under_way.build);
    if (known == building_.end()) continue;  // it has ended without this stream: see kBuiltForOneOnly
    v1::Building& building = *alive.add_building();
    ToProto(under_way.at, building.mutable_at());
    building.set_since_ms(AgeMs(known->second.since, now));
    builds.push_back(under_way.build);
  }
  Write(id, stream, std::move(message), std::move(builds));
}

void WorkerMachine::ShareWith(StreamId id, StreamEntry& stream, Time now) {
  if (stream.fingerprint.empty()) return;  // it has asked for nothing yet
  if (queue_.HasPending(id)) stream.pending_seen = now;
  const bool had = stream.pending_seen != Time{} && now - stream.pending_seen < kSharesLast;
  shares_.SetAsks(id, had);
}

void WorkerMachine::TickStreams(Time now) {
  // Want lists that came while the process stood still are read only after this tick. So that time
  // does not count as silence.
  const Duration missed = now - std::exchange(last_tick_, now);
  for (auto& [id, stream] : streams_) {
    if (missed > kStoodStill) stream.wants_heard = now;
    ShareWith(id, stream, now);
    NoteChanges(id, stream, now);
    Pump(id, stream, now);
  }
}

}  // namespace millrace
