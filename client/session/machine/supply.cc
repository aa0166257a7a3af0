#include "client/session/machine/supply.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/mutant.h"
#include "common/base/refusal.h"

namespace millrace::client {
namespace {

// Copies of batches are still read, to be compared, if they are at most this many steps away from
// the window.
constexpr std::uint64_t kCompared = 64;

/// A worker's word says how long ago it was told. The rest of the time since then was spent on the
/// way, there and back.
void MeasureRoundTrip(WorkerLink::StreamFacts& stream, const v1::Alive& alive, Time now) {
  if (stream.told == Time{}) return;
  const double seconds = ToSeconds(now - stream.told) - alive.wants_age_ms() / 1e3;
  // Otherwise the worker speaks of an earlier list, or has stood still.
  constexpr double kLongest = 1;
  if (seconds < 0 || seconds > kLongest) return;
  stream.round_trip =
      stream.round_trip == 0 ? seconds : std::min(seconds, 0.8 * stream.round_trip + 0.2 * seconds);
}

/// Whether a batch that says to hold `got` may be that of the planned units.
bool HasUnits(const RankSteps& steps, ExampleRange planned, ExampleRange got) {
  const std::uint32_t unit_rows = steps.arithmetic().options().unit_rows;
  if (unit_rows == 0) return got == planned;
  // The header counts examples, which the unit alone knows.
  return got.first == planned.first && got.count <= std::uint64_t{planned.count} * unit_rows;
}

}  // namespace

void Supply::MarkMoved() {
  context_.stale.MarkReport();
  context_.stale.MarkGrantsDue();
}

void Supply::Fail(WorkerLink& link, const Status& why, Time now) {
  context_.logger->Warning("worker failed", {{"worker", link.where.address},
                                             {"id", link.where.id.ToString()},
                                             {"code", StatusCodeName(why.code())},
                                             {"why", why}});
  if (link.stream.id != 0) context_.actions.Put(CloseStream{link.stream.id, why});
  workers_.Closed(link);
  workers_.Failed(link, why.message(), now);
  if (IsMutant(Mutant::kFailedAsksKept)) return;
  moved_failed_ += asks_.TakeBackAll(link.where.id).size();
  MarkMoved();
}

void Supply::FailSilent(WorkerLink& link, const std::string& why, Time now) {
  link.credit_limit.OnSilence(link.credit_left());
  Fail(link, Unavailable(why), now);
}

bool Supply::OnFragment(WorkerLink& link, const v1::BatchFragment& fragment,
                        std::uint64_t data_bytes, Time now) {
  link.stream.heard = now;
  if (const std::uint64_t lost = CountLost(link, fragment, data_bytes); lost > 0) {
    // The worker counts these batches as sent. It would not send them again on this stream.
    Fail(link,
         Unavailable(fmt::format("of {} batches that it has sent, {} were lost on the way",
                                 fragment.batches_sent(), lost)),
         now);
    return false;
  }
  const bool wanted = data_bytes == 0 || OnData(link, fragment, data_bytes);
  if (fragment.has_alive()) {
    OnAlive(link, fragment.alive(), now);
    if (DoesNotHear(link, fragment.alive(), now)) {
      FailSilent(link,
                 fmt::format("it sends and does not hear: no want list came to it for {:.1f} s",
                             fragment.alive().wants_age_ms() / 1e3),
                 now);
      return false;
    }
  }
  if (fragment.has_refused()) OnRefused(link, fragment.refused(), now);
  if (fragment.going_away() && !link.stream.going_away) OnGoingAway(link);
  return wanted;
}

void Supply::OnAlive(WorkerLink& link, const v1::Alive& alive, Time now) {
  WorkerLink::StreamFacts& stream = link.stream;
  const bool is_first = !stream.spoke();
  const RankSteps& steps = attach_.steps();
  WorkerWord word;
  word.slots = alive.slots();
  word.batch_seconds = std::isfinite(alive.batch_ms()) ? std::max(0.0, alive.batch_ms() / 1e3) : 0;
  word.threads = std::max(1u, alive.threads_milli()) / 1e3;
  word.split = std::max(1u, alive.split());
  if (alive.has_turn_ms()) word.turn = now + std::chrono::milliseconds(alive.turn_ms());
  word.batches_before = alive.batches_before();
  for (const v1::Building& build : alive.building()) {
    const Position at = FromProto(build.at());
    if (!steps.Contains(at)) continue;
    word.building.push_back(
        {steps.Index(at), now + -std::chrono::milliseconds(build.since_ms()), build.stage()});
  }
  word.twins = StepsOf(alive.twins());
  asks_.Tell(link.where.id, StepsOf(alive.built()), word.twins);
  stream.word = std::move(word);
  MeasureRoundTrip(stream, alive, now);
  // A drain that an operator has taken back ends with slots.
  if (stream.word->slots > 0) link.drains = stream.going_away = false;
  if (stream.word->slots == 0 && !link.drains) OnGoingAway(link);
  dealing_.MoveToTwins(link, now);
  // The worker's figures may allow more. The first word is what others wait for, too.
  if (is_first) context_.stale.MarkGrantsDue();
  context_.stale.MarkGrants();
}

std::set<std::uint64_t> Supply::StepsOf(
    const google::protobuf::RepeatedPtrField<v1::Run>& runs) const {
  const RankSteps& steps = attach_.steps();
  const std::uint64_t next = stock_.next();
  std::set<std::uint64_t> found;
  std::uint64_t named = 0;
  for (const v1::Run& run : runs) {
    steps.ForEach(run, next, std::min(steps.end(), next + Dealing::kReach),
                  [&](std::uint64_t step) {
                    ++named;
                    found.insert(step);
                  });
    // An honest worker names no step twice.
    if (named > Dealing::kReach) break;
  }
  return found;
}

bool Supply::DoesNotHear(const WorkerLink& link, const v1::Alive& alive, Time now) {
  return link.stream.owes && now - link.stream.telling_since >= kSilence &&
         std::chrono::milliseconds(alive.wants_age_ms()) >= kSilence;
}

std::uint64_t Supply::CountLost(const WorkerLink& link, const v1::BatchFragment& fragment,
                                std::uint64_t data_bytes) {
  if (IsMutant(Mutant::kLostBatchAwaited)) return 0;
  const std::uint64_t received = link.stream.received + (data_bytes > 0 ? 1 : 0);
  return fragment.batches_sent() - std::min(fragment.batches_sent(), received);
}

bool Supply::OnData(WorkerLink& link, const v1::BatchFragment& fragment, std::uint64_t data_bytes) {
  WorkerLink::StreamFacts& stream = link.stream;
  const Position at = FromProto(fragment.at());
  stream.receiving = at;
  stream.receiving_bytes = std::min(fragment.total_bytes(), stock_.batch_limit_bytes());
  stream.used = std::max(stream.used, fragment.credit_used());
  stream.mostly_python = fragment.mostly_python();
  // This is decided once for each batch, even if the window changes while its fragments come.
  if (fragment.offset() == 0) {
    stream.receiving_wanted = Wants(at);
    if (attach_.steps().Contains(at)) asks_.Comes(attach_.steps().Index(at), link.where.id);
  }
  const bool wanted = stream.receiving_wanted;
  const bool is_last = fragment.offset() + data_bytes == fragment.total_bytes();
  if (is_last) stream.received = std::max(stream.received, fragment.batches_sent());
  if (!wanted && is_last) {
    stream.receiving.reset();
    stream.receiving_bytes = 0;
    stream.stale = true;
    context_.stale.MarkGrants();
  }
  return wanted;
}

bool Supply::Wants(Position at) const {
  if (!attach_.steps().Contains(at)) return false;
  const std::uint64_t step = attach_.steps().Index(at);
  if (step + kCompared < stock_.next()) return false;
  // The bytes of a batch that was asked for have used credit. So it is wanted even if the window is
  // smaller by now.
  return step < stock_.next() + stock_.window() + kCompared || asks_.Find(step) != nullptr;
}

void Supply::RefuseAll(WorkerLink& link, const Status& why, Time now) {
  const std::set<std::uint64_t>& asked = asks_.Of(link.where.id).steps;
  if (IsRefusedForGood(why.code()) && !asked.empty()) {
    // Nobody knows which of the steps are meant. So the refusal holds up to the last one.
    workers_.Refused(link, why, *asked.rbegin() + 1);
  }
  moved_refused_ += asks_.TakeBackAll(link.where.id).size();
  workers_.Failed(link, why.message(), now);
}

void Supply::OnRefused(WorkerLink& link, const v1::Refused& refused, Time now) {
  const Status why(static_cast<StatusCode>(refused.code()), refused.message());
  const Position at = FromProto(refused.at());
  std::optional<std::uint64_t> step;
  if (refused.has_at() && attach_.steps().Contains(at)) step = attach_.steps().Index(at);
  if (refused.has_at() && (!step || !asks_.Of(link.where.id).steps.contains(*step))) return;
  context_.logger->Warning("worker refuses", {{"worker", link.where.address},
                                              {"at", step ? at.ToString() : "all that is asked"},
                                              {"why", refused.message()}});
  link.stream.stale = link.stream.urgent = true;
  MarkMoved();
  if (!step) return RefuseAll(link, why, now);
  moved_refused_ += asks_.TakeBack(*step, link.where.id) ? 1 : 0;
  if (why.code() == StatusCode::kAborted) {
    workers_.Tried(link, *step, refused.message());
    // No more of those that were asked go on than may try.
    while (const StepAsks* asks = asks_.Find(*step)) {
      if (workers_.TriedBy(*step) + asks->all().size() <= kWorkersTryCode) break;
      WorkerLink& last = *workers_.Find(asks->all().back().worker);
      asks_.TakeBack(*step, last.where.id);
      last.stream.stale = last.stream.urgent = true;
    }
  } else if (IsRefusedForGood(why.code())) {
    workers_.Refused(link, why, *step + 1);
  } else {
    workers_.Failed(link, refused.message(), now);
  }
}

void Supply::OnGoingAway(WorkerLink& link) {
  if (!link.drains) context_.logger->Info("worker drains", {{"worker", link.where.address}});
  link.drains = link.stream.going_away = true;
  link.reason = "draining";
  // The worker still sends what it builds or has built. Other workers get the rest.
  std::vector<std::uint64_t> begun;
  if (link.stream.spoke()) {
    for (const auto& build : link.stream.word->building) begun.push_back(build.step);
  }
  const std::set<std::uint64_t> asked = asks_.Of(link.where.id).steps;
  for (const std::uint64_t step : asked) {
    const bool stays =
        asks_.Find(step)->Of(link.where.id)->built ||
        std::find(begun.begin(), begun.end(), step) != begun.end() ||
        (link.stream.receiving && attach_.steps().At(step) == *link.stream.receiving);
    if (!stays && asks_.TakeBack(step, link.where.id)) ++moved_drained_;
  }
  link.stream.stale = link.stream.urgent = true;
  MarkMoved();
}

Verdict Supply::OnArrival(WorkerLink& link, const Arrival& arrival, Time now) {
  link.stream.heard = link.stream.unused_since = now;
  link.stream.receiving.reset();
  link.stream.receiving_bytes = 0;
  link.stream.stale = true;
  context_.stale.MarkGrants();

  const bool known = attach_.steps().Contains(arrival.at);
  const ExampleRange planned =
      known ? attach_.steps().Examples(attach_.steps().Index(arrival.at)) : ExampleRange{};
  const ExampleRange got{arrival.first_example, arrival.planned_examples};
  if (!known || arrival.fingerprint != attach_.admission()->fingerprint ||
      arrival.epoch != arrival.at.epoch || !HasUnits(attach_.steps(), planned, got)) {
    Fail(link,
         DataLoss(fmt::format(
             "a batch said to be that at {} is of plan {}, epoch {} and {} examples from place "
             "{}; expected plan {} and {} examples from place {}",
             arrival.at.ToString(), arrival.fingerprint.ToString(), arrival.epoch, got.count,
             got.first, attach_.admission()->fingerprint.ToString(), planned.count, planned.first)),
         now);
    return Verdict::kWrong;
  }

  link.credit_limit.OnBatch(arrival.bytes, context_.ahead_bytes);
  const std::uint64_t step = attach_.steps().Index(arrival.at);
  Verdict verdict = Verdict::kTaken;
  if (step < stock_.next() && !IsMutant(Mutant::kCopyDeliveredTwice)) {
    verdict = Verdict::kDuplicate;
    for (const Stock::Past& past : stock_.past()) {
      if (past.step == step) {
        Compare(step, past.digest, past.worker, arrival.digest, link.where.id);
      }
    }
  } else if (const Stock::Held* held = stock_.Find(step); held != nullptr) {
    verdict = Verdict::kDuplicate;
    Compare(step, held->digest, held->worker, arrival.digest, link.where.id);
  } else if (step >= stock_.next() + stock_.window() && asks_.Find(step) == nullptr) {
    verdict = Verdict::kUnwanted;
  } else {
    stock_.Keep(step, arrival, link.where.id);
    workers_.Proved(link);
    OnKept(step, link);
  }
  if (verdict == Verdict::kDuplicate) ++duplicates_;
  return verdict;
}

void Supply::OnKept(std::uint64_t step, const WorkerLink& from) {
  const StepAsks ended = asks_.Arrived(step);
  answered_.reset();
  for (const Ask& ask : ended.all()) {
    if (ask.worker == from.where.id) {
      answered_ = ask;
    } else if (WorkerLink* const other = workers_.Find(ask.worker)) {
      // It need not build the step any more, or send it.
      other->stream.stale = other->stream.urgent = true;
    }
  }
  dealing_.OnArrived(ended, from.where.id);
  context_.stale.MarkReport();
}

void Supply::Compare(std::uint64_t step, const Digest128& first, WorkerId first_worker,
                     const Digest128& second, WorkerId second_worker) {
  if (first == second || IsMutant(Mutant::kCopiesNotCompared)) return;
  ++duplicate_mismatches_;
  const auto name = [this](WorkerId id) {
    const WorkerLink* link = workers_.Find(id);
    return fmt::format("{} ({})", link != nullptr ? link->where.address : "?", id.ToString());
  };
  context_.logger->Error("copies of a batch differ", {{"at", attach_.steps().At(step).ToString()},
                                                      {"worker", name(first_worker)},
                                                      {"digest", first.ToHex()},
                                                      {"other_worker", name(second_worker)},
                                                      {"other_digest", second.ToHex()}});
}

void Supply::OnBad(WorkerLink& link, const Status& status, Time now) {
  // A batch that is over the limit once is always over it, so the worker can never deliver it. Any
  // other error may be the fault of the connection.
  const std::optional<Position> at = link.stream.receiving;
  if (status.code() == StatusCode::kOutOfRange && at && attach_.steps().Contains(*at)) {
    workers_.Refused(link, status, attach_.steps().Index(*at) + 1);
  }
  Fail(link, status, now);
}

void Supply::OnClosed(WorkerLink& link, const Status& status, Time now) {
  const bool drained = link.drains && asks_.Of(link.where.id).steps.empty();
  if (drained) {
    workers_.Closed(link);
  } else {
    Fail(link, status.ok() ? Unavailable("closed the stream") : status, now);
  }
}

void Supply::CheckTimes(Time now) {
  if (now >= forgot_ + kForgetEvery && !IsMutant(Mutant::kFailedAsksKept)) {
    workers_.ForgetDead(now);
    forgot_ = now;
  }
  const std::vector<WorkerLink*> open = workers_.open();  // a failure closes a stream
  for (WorkerLink* const worker : open) {
    WorkerLink& link = *worker;
    if (link.stream.waits_for_it() && now - link.stream.heard >= kSilence &&
        !IsMutant(Mutant::kSilentWorkerTrusted)) {
      FailSilent(link,
                 fmt::format("silent for {:.0f} s while batches were due", ToSeconds(kSilence)),
                 now);
    } else if (link.stream.owes && now - link.stream.told >= kWantsEvery) {
      link.stream.stale = true;
    }
  }
}

void Supply::AddTimes(NextDue& next) const {
  for (const WorkerLink* const link : workers_.open()) {
    if (link->stream.waits_for_it()) next.At(link->stream.heard + kSilence);
    if (link->stream.owes) next.At(link->stream.told + kWantsEvery);
  }
}

void Supply::StoodStill(Duration more, Time now) {
  asks_.StoodStill(more);
  for (auto& [id, link] : workers_.all()) {
    link.stream.heard = link.stream.heard + more;
    link.stream.unused_since = link.stream.unused_since + more;
    link.stream.telling_since = now;
  }
}

void Supply::CloseStreams(const Status& why) {
  for (auto& [id, link] : workers_.all()) {
    if (link.stream.id != 0) context_.actions.Put(CloseStream{link.stream.id, why});
    workers_.Closed(link);
  }
}

}  // namespace millrace::client
