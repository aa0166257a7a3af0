// The workers' streams of a session: what comes on them, and what is wanted of each.

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "client/session/machine/session_machine.h"
#include "common/base/mutant.h"
#include "common/base/refusal.h"

namespace millrace::client {
namespace {

// The first batches say how large a batch is; the window opens as they come.
constexpr std::uint64_t kFirstWindow = 8;
constexpr std::uint64_t kWindowGrowth = 16;  // batches for each that came
constexpr std::uint64_t kLeastLeased = 8;
// What a training loop may hold for nothing: the batch it works on and the one before.
constexpr std::uint64_t kFreeLoopHolds = 2;
// As many batches in hand let a loop wait for nothing while a want list is on its way.
constexpr std::uint64_t kPlenty = 16;
// Steps around the window whose copies are still read, to be compared.
constexpr std::uint64_t kCompared = 64;
constexpr std::uint64_t kGuessedBatchBytes = 1 << 20;
constexpr std::uint64_t kLeastBatchLimit = 64u << 20;
constexpr std::uint64_t kUnknownBatchLimit = std::uint64_t{2} << 30;

}  // namespace

std::uint64_t SessionMachine::batch_limit_bytes() const {
  const std::uint64_t estimate = admission_ ? admission_->spec.max_batch_bytes() : 0;
  if (estimate == 0 || estimate > kUnknownBatchLimit) return kUnknownBatchLimit;
  return std::max(kLeastBatchLimit, 2 * estimate);
}

double SessionMachine::MeanBytes() const {
  if (arrived_ > 0) return std::max(1.0, mean_bytes_);
  const std::uint64_t estimate = admission_->spec.max_batch_bytes();
  return static_cast<double>(
      std::min(estimate != 0 ? estimate : kGuessedBatchBytes, kUnknownBatchLimit));
}

std::uint64_t SessionMachine::window() const {
  const double by_bytes = 1 + static_cast<double>(options_.prefetch_bytes) / MeanBytes();
  std::uint64_t batches = std::min(kLargestWindow, kFirstWindow + kWindowGrowth * arrived_);
  if (by_bytes < static_cast<double>(batches)) batches = static_cast<std::uint64_t>(by_bytes);
  const std::uint64_t loop = loop_holds_ - std::min(loop_holds_, kFreeLoopHolds);
  batches = batches > loop + 1 ? batches - loop : 1;
  return std::min(batches, steps_->end() - next_);
}

std::uint64_t SessionMachine::lease_window() const {
  // As many as the loop takes until leases that the next report asks for have come, several times
  // over; not more, since a worker that joins gets no part of what is leased already.
  const std::uint64_t batches = std::max(kLeastLeased, 4 * taken_between_reports_);
  return std::min({std::max(window(), batches), kLargestWindow, steps_->end() - next_});
}

// --- room and credit --------------------------------------------------------------------------

std::uint64_t SessionMachine::WantedSlots() const {
  const std::uint64_t window_now = window();
  const std::uint64_t free = window_now - std::min<std::uint64_t>(window_now, held_.size());
  return std::max<std::uint64_t>(free, holds(next_) ? 0 : std::min<std::uint64_t>(1, window_now));
}

void SessionMachine::GiveRoom() {
  leases_.GiveRoom(next_ + window(), WantedSlots());
  for (auto& [id, link] : workers_.all()) link.room = 0;
  for (HeldLease* held : leases_.ByNeed()) {
    workers_.Find(held->lease.worker.id)->room += held->room;
  }
  for (auto& [id, link] : workers_.all()) {
    if (link.room != link.stream.told_room) link.stream.stale = true;
  }
}

void SessionMachine::GiveCredit() {
  std::uint64_t spoken_for = held_bytes_;
  for (const auto& [id, link] : workers_.all()) {
    if (link.stream.id == 0) continue;
    // Credit cannot be taken back: it counts until it is used, or its stream is closed as unused.
    spoken_for += link.stream.receiving_bytes + link.credit_left();
  }
  std::uint64_t free = options_.prefetch_bytes - std::min(options_.prefetch_bytes, spoken_for);
  const double mean = MeanBytes();
  for (const HeldLease* held : leases_.ByNeed()) {
    WorkerLink* link = workers_.Find(held->lease.worker.id);
    if (link->stream.id == 0 || link->room == 0) continue;
    const auto needed = std::max<std::uint64_t>(
        largest_bytes_, static_cast<std::uint64_t>(1.25 * mean * static_cast<double>(link->room)));
    const std::uint64_t wanted = std::min(needed, link->credit_limit.bytes());
    const std::uint64_t left = link->credit_left();
    if (left >= wanted) continue;
    const std::uint64_t granted =
        IsMutant(Mutant::kCreditBeyondMemory) ? 8 * wanted : std::min(wanted - left, free);
    link->stream.credit += granted;
    if (granted > 0) link->stream.stale = true;
    free -= granted;
  }
}

// --- what the workers are told ----------------------------------------------------------------

void SessionMachine::MarkStale(bool urgent) {
  for (auto& [id, link] : workers_.all()) {
    link.stream.stale = true;
    link.stream.urgent = link.stream.urgent || urgent;
  }
}

void SessionMachine::OpenStreams(Time now) {
  for (const HeldLease* held : leases_.ByNeed()) {
    WorkerLink* link = workers_.Find(held->lease.worker.id);
    link->stream.unused_since = now;
    if (link->stream.id != 0) continue;
    workers_.Opened(*link, ++last_stream_, now);
    actions_.push_back(OpenBatches{link->stream.id, link->where});
  }
}

Duration SessionMachine::WantsApart(const WorkerLink& link) const {
  // A worker that was told to build what comes next, and may send it, needs not be told again.
  const bool knows = link.stream.owed > 0 && link.credit_left() >= largest_bytes_;
  const bool next_is_due = waiting_ && !knows && !holds(next_) && NextWorker() == &link;
  return next_is_due ? kUrgentWantsApart : kWantsApart;
}

bool SessionMachine::RunsOut(const WorkerLink& link) { return link.stream.owed * 2 <= link.room; }

bool SessionMachine::GrantsDue(Time now) const {
  if (grants_due_) return true;
  if (!grants_stale_) return false;
  if (now >= granted_ + kGrantsApart) return true;
  const auto& links = workers_.all();
  return std::any_of(links.begin(), links.end(), [&](const auto& link) {
    return link.second.stream.id != 0 && (RunsOut(link.second) || WantsDue(link.second, now));
  });
}

void SessionMachine::CutLeases() {
  if (leases_.Cut(next_, [this](std::uint64_t step) { return holds(step); })) report_stale_ = true;
}

bool SessionMachine::WantsDue(const WorkerLink& link, Time now) const {
  const WorkerLink::StreamFacts& stream = link.stream;
  if (stream.id == 0 || stream.writing || !stream.stale) return false;
  // A worker with little left to do is told at once, so that it never stands still; but not of each
  // single batch where the loop is what all wait for, and most of the window is there.
  const bool plenty = held_.size() >= kPlenty && held_.size() * 2 > window();
  const bool runs_out = RunsOut(link) && link.room > (plenty ? window() / 8 : 0);
  return stream.urgent || runs_out || now >= stream.told + WantsApart(link);
}

void SessionMachine::SendWantsWhereDue(Time now) {
  for (auto& [id, link] : workers_.all()) {
    if (!WantsDue(link, now)) continue;
    WorkerLink::StreamFacts& stream = link.stream;
    if (!stream.owes()) stream.heard = stream.telling_since = now;
    stream.owed = stream.told_room = link.room;
    stream.stale = stream.urgent = false;
    stream.told = now;
    stream.told_next = steps_->At(next_);
    stream.writing = true;
    actions_.push_back(SendWants{stream.id, MakeWants(link)});
  }
}

v1::WantList SessionMachine::MakeWants(const WorkerLink& link) {
  v1::WantList wants;
  wants.set_fingerprint(admission_->fingerprint.ToString());
  ToProto(session_, wants.mutable_session());
  ToProto(steps_->At(next_), wants.mutable_next());
  wants.set_credit_bytes(link.stream.credit);
  wants.set_job(options_.hello.job());
  wants.set_priority(options_.hello.priority());
  wants.set_protocol(options_.hello.protocol());
  for (const HeldLease* held : leases_.ByNeed()) {
    if (held->lease.worker.id != link.where.id) continue;
    v1::Want* want = wants.add_wants();
    ToProto(held->lease.id, want->mutable_lease());
    ToProto(steps_->CutTo(held->lease.shard, held->first, held->end), want->mutable_shard());
    want->set_room(static_cast<std::uint32_t>(held->room));
  }
  return wants;
}

// --- what the workers send --------------------------------------------------------------------

void SessionMachine::LapseOf(WorkerLink& link) {
  CutLeases();
  if (IsMutant(Mutant::kLapsedLeaseKept)) return;
  stats_.lapsed_leases += leases_.LapseOf(link.where.id);
  report_stale_ = grants_due_ = true;
  MarkStale(true);
}

void SessionMachine::FailWorker(WorkerLink& link, const Status& why, Time now) {
  logger_->Warning("worker failed", {{"worker", link.where.address},
                                     {"id", link.where.id.ToString()},
                                     {"code", StatusCodeName(why.code())},
                                     {"why", why}});
  if (link.stream.id != 0) actions_.push_back(CloseStream{link.stream.id, why});
  workers_.Closed(link);
  workers_.Failed(link, why.message(), now);
  LapseOf(link);
}

void SessionMachine::FailSilent(WorkerLink& link, const std::string& why, Time now) {
  link.credit_limit.OnSilence(link.credit_left());
  FailWorker(link, Unavailable(why), now);
}

bool SessionMachine::OnBatchesPart(StreamId stream, const v1::BatchPart& part,
                                   std::uint64_t data_bytes, Time now) {
  Enter(now);
  WorkerLink* link = workers_.FindStream(stream);
  if (link == nullptr || !status_.ok()) return false;
  link->stream.heard = now;
  link->stream.heard_any = true;
  const bool wanted = data_bytes == 0 || OnData(*link, part, data_bytes);
  if (part.has_alive()) {
    link->stream.building.reset();
    if (part.alive().has_building()) link->stream.building = FromProto(part.alive().building());
    link->stream.stage = part.alive().stage();
    link->stream.batches_before = part.alive().batches_before();
    if (DoesNotHear(*link, part.alive(), now)) {
      FailSilent(*link,
                 fmt::format("it sends and does not hear: no want list came to it for {:.1f} s",
                             part.alive().wants_age_ms() / 1e3),
                 now);
      Settle(now);
      return false;
    }
  }
  if (part.has_refused()) OnRefused(*link, part.refused(), now);
  if (part.going_away() && !link->stream.going_away) OnGoingAway(*link, now);
  Settle(now);
  return wanted;
}

bool SessionMachine::DoesNotHear(const WorkerLink& link, const v1::Alive& alive, Time now) {
  return link.stream.owes() && now - link.stream.telling_since >= kSilence &&
         std::chrono::milliseconds(alive.wants_age_ms()) >= kSilence;
}

bool SessionMachine::OnData(WorkerLink& link, const v1::BatchPart& part, std::uint64_t data_bytes) {
  WorkerLink::StreamFacts& stream = link.stream;
  const Position at = FromProto(part.at());
  stream.receiving = at;
  stream.receiving_bytes = std::min(part.total_bytes(), batch_limit_bytes());
  stream.used = std::max(stream.used, part.credit_used());
  // Decided once, whatever the window does while the parts come.
  if (part.offset() == 0) stream.receiving_wanted = Wants(at);
  const bool wanted = stream.receiving_wanted;
  if (!wanted && part.offset() + data_bytes == part.total_bytes()) {
    stream.receiving.reset();
    stream.receiving_bytes = 0;
    stream.owed -= std::min<std::uint64_t>(stream.owed, 1);
    stream.stale = grants_stale_ = true;
  }
  return wanted;
}

bool SessionMachine::Wants(Position at) const {
  if (!steps_->Contains(at)) return false;
  const std::uint64_t step = steps_->Index(at);
  if (step + kCompared < next_) return false;
  // What is leased was asked for, and paid for by credit, though the window be smaller by now.
  return step < next_ + window() + kCompared || leases_.Covering(step) != nullptr;
}

void SessionMachine::OnRefused(WorkerLink& link, const v1::Refused& refused, Time now) {
  CutLeases();
  const Number id = FromProto(refused.lease());
  HeldLease* held = leases_.Find(id);
  if (held == nullptr || !held->lacks()) return;
  logger_->Warning(
      "lease refused",
      {{"worker", link.where.address}, {"lease", id.ToString()}, {"why", refused.message()}});
  ++stats_.lapsed_leases;
  const auto code = static_cast<StatusCode>(refused.code());
  // Which of the lease's batches it is, the worker does not say.
  if (IsRefusedForGood(code)) workers_.Refused(link, Status(code, refused.message()), held->end);
  LeaseBook::Trim(*held, 0);
  workers_.Failed(link, refused.message(), now);
  report_stale_ = grants_due_ = true;
  MarkStale(true);
}

void SessionMachine::OnGoingAway(WorkerLink& link, Time now) {
  logger_->Info("worker drains", {{"worker", link.where.address}});
  link.stream.going_away = link.drains = true;
  link.failing_until = now + WorkerBook::kFirstBackoff;
  link.reason = "draining";
  // What it was told to build it still sends; the rest is for others.
  CutLeases();
  std::uint64_t told = link.stream.owed;
  for (HeldLease* held : leases_.ByNeed()) {
    if (held->lease.worker.id != link.where.id) continue;
    const std::uint64_t keeps = std::min(held->room, told);
    if (keeps == 0) ++stats_.lapsed_leases;
    LeaseBook::Trim(*held, keeps);
    told -= keeps;
  }
  report_stale_ = grants_due_ = true;
  MarkStale(true);
}

Verdict SessionMachine::OnBatchesArrival(StreamId stream, const Arrival& arrival, Time now) {
  Enter(now);
  WorkerLink* link = workers_.FindStream(stream);
  if (link == nullptr || !status_.ok()) return Verdict::kUnwanted;
  link->stream.heard = now;
  link->stream.heard_any = true;
  link->stream.receiving.reset();
  link->stream.receiving_bytes = 0;
  link->stream.owed -= std::min<std::uint64_t>(link->stream.owed, 1);
  link->stream.stale = grants_stale_ = true;

  const bool known = steps_->Contains(arrival.at);
  const ExampleRange planned = known ? steps_->Examples(steps_->Index(arrival.at)) : ExampleRange{};
  const ExampleRange got{arrival.first_example, arrival.planned_examples};
  if (!known || arrival.fingerprint != admission_->fingerprint ||
      arrival.epoch != arrival.at.epoch || got != planned) {
    FailWorker(
        *link,
        DataLoss(fmt::format(
            "a batch said to be that at {} is of plan {}, epoch {} and {} examples from place "
            "{}; expected plan {} and {} examples from place {}",
            arrival.at.ToString(), arrival.fingerprint.ToString(), arrival.epoch, got.count,
            got.first, admission_->fingerprint.ToString(), planned.count, planned.first)),
        now);
    Settle(now);
    return Verdict::kWrong;
  }

  link->credit_limit.OnBatch(arrival.bytes, options_.prefetch_bytes);
  const std::uint64_t step = steps_->Index(arrival.at);
  Verdict verdict = Verdict::kTaken;
  if (step < next_ && !IsMutant(Mutant::kCopyDeliveredTwice)) {
    verdict = Verdict::kDuplicate;
    for (const Past& past : past_) {
      if (past.step == step) {
        Compare(step, past.digest, past.worker, arrival.digest, link->where.id);
      }
    }
  } else if (const auto it = held_.find(step); it != held_.end()) {
    verdict = Verdict::kDuplicate;
    Compare(step, it->second.digest, it->second.worker, arrival.digest, link->where.id);
  } else if (step >= next_ + window() && leases_.Covering(step) == nullptr) {
    verdict = Verdict::kUnwanted;
  } else {
    held_[step] = {arrival.digest,  arrival.bytes,    arrival.examples,
                   arrival.dropped, arrival.in_place, link->where.id};
    if (IsMutant(Mutant::kCopyDeliveredTwice)) next_ = std::min(next_, step);
    held_bytes_ += arrival.bytes;
    largest_bytes_ = std::max(largest_bytes_, arrival.bytes);
    ++arrived_;
    const double weight = std::max(1.0 / 64, 1.0 / static_cast<double>(arrived_));
    mean_bytes_ += weight * (static_cast<double>(arrival.bytes) - mean_bytes_);
    workers_.Proved(*link);
    if (link->stream.going_away) link->failing_until = now + WorkerBook::kFirstBackoff;
    report_stale_ = true;
  }
  if (verdict == Verdict::kDuplicate) ++stats_.duplicates;
  if (verdict == Verdict::kTaken && IsMutant(Mutant::kPositionMovesOnReceipt)) ++next_;
  Settle(now);
  return verdict;
}

void SessionMachine::Compare(std::uint64_t step, const Digest128& first, Number first_worker,
                             const Digest128& second, Number second_worker) {
  if (first == second || IsMutant(Mutant::kCopiesNotCompared)) return;
  ++stats_.duplicate_mismatches;
  const auto name = [this](Number id) {
    const WorkerLink* link = workers_.Find(id);
    return fmt::format("{} ({})", link != nullptr ? link->where.address : "?", id.ToString());
  };
  logger_->Error("copies of a batch differ", {{"at", steps_->At(step).ToString()},
                                              {"worker", name(first_worker)},
                                              {"digest", first.ToHex()},
                                              {"other_worker", name(second_worker)},
                                              {"other_digest", second.ToHex()}});
}

void SessionMachine::OnBatchesBad(StreamId stream, const Status& status, Time now) {
  Enter(now);
  grants_due_ = true;
  if (WorkerLink* link = workers_.FindStream(stream)) {
    // Over the limit is what the batch itself is; anything else may be the connection's fault.
    const std::optional<Position> at = link->stream.receiving;
    if (status.code() == StatusCode::kOutOfRange && at && steps_->Contains(*at)) {
      workers_.Refused(*link, status, steps_->Index(*at) + 1);
    }
    FailWorker(*link, status, now);
  }
  Settle(now);
}

void SessionMachine::OnBatchesWritten(StreamId stream, Time now) {
  Enter(now);
  if (WorkerLink* link = workers_.FindStream(stream)) link->stream.writing = false;
  Settle(now);
}

void SessionMachine::OnBatchesClosed(StreamId stream, const Status& status, Time now) {
  Enter(now);
  grants_due_ = true;
  if (WorkerLink* link = workers_.FindStream(stream)) {
    const bool drained = link->stream.going_away && link->stream.owed == 0;
    if (drained) {
      workers_.Closed(*link);
      LapseOf(*link);
    } else {
      FailWorker(*link, status.ok() ? Unavailable("closed the stream") : status, now);
    }
  }
  Settle(now);
}

}  // namespace millrace::client
