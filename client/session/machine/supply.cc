#include "client/session/machine/supply.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include <fmt/format.h>

#include "common/base/mutant.h"
#include "common/base/protocol_limits.h"
#include "common/base/refusal.h"

namespace millrace::client {
namespace {

// Copies of batches are still read, to be compared, if they are at most this many steps away from
// the window.
constexpr std::uint64_t kCompared = 64;

/// Whether a batch that says to hold `got` may be that of the planned units.
bool HasUnits(const RankSteps& steps, ExampleRange planned, ExampleRange got) {
  const std::uint32_t unit_rows = steps.arithmetic().options().unit_rows;
  if (unit_rows == 0) return got == planned;
  // The header counts examples, which the unit alone knows.
  return got.first == planned.first && got.count <= std::uint64_t{planned.count} * unit_rows;
}

}  // namespace

bool Supply::OnLeases(const v1::AttachResponse& message) {
  bool added = false;
  const Number seen = last_lease_;
  for (const v1::Lease& proto : message.leases()) {
    const Lease lease = FromProto(proto);
    last_lease_ = std::max(last_lease_, lease.id);
    context_.stale.MarkReport();
    if (lease.id <= seen || leases_.Has(lease.id)) continue;
    if (const Status status = attach_.steps().Check(lease.shard); !status.ok()) {
      context_.logger->Warning("bad lease", {{"lease", lease.id.ToString()}, {"why", status}});
      continue;
    }
    // This lease is not held. The next report shows that, so the dispatcher counts the lease as
    // over.
    if (leases_.all().size() >= kMaxHeldLeases) continue;
    WorkerLink& link = workers_.Learn(lease.worker);
    // A worker that drains builds only what it was told before. So its new leases are not held, and
    // the next report shows that.
    link.drains = link.stream.going_away;
    if (link.drains) continue;
    leases_.Add(lease, attach_.steps().Index(lease.shard.at));
    added = true;
    link.stream.stale = link.stream.urgent = true;
  }
  return added;
}

void Supply::CutLeases() {
  const auto is_held = [this](std::uint64_t step) { return stock_.holds(step); };
  if (leases_.Cut(stock_.next(), is_held)) context_.stale.MarkReport();
}

void Supply::LapseOf(WorkerLink& link) {
  CutLeases();
  if (IsMutant(Mutant::kLapsedLeaseKept)) return;
  lapsed_leases_ += leases_.LapseOf(link.where.id);
  context_.stale.MarkReport();
  context_.stale.MarkGrantsDue();
  workers_.MarkStale(true);
}

void Supply::Fail(WorkerLink& link, const Status& why, Time now) {
  context_.logger->Warning("worker failed", {{"worker", link.where.address},
                                             {"id", link.where.id.ToString()},
                                             {"code", StatusCodeName(why.code())},
                                             {"why", why}});
  if (link.stream.id != 0) context_.actions.Put(CloseStream{link.stream.id, why});
  workers_.Closed(link);
  workers_.Failed(link, why.message(), now);
  LapseOf(link);
}

void Supply::FailSilent(WorkerLink& link, const std::string& why, Time now) {
  link.credit_limit.OnSilence(link.credit_left());
  Fail(link, Unavailable(why), now);
}

bool Supply::OnPart(WorkerLink& link, const v1::BatchPart& part, std::uint64_t data_bytes,
                    Time now) {
  link.stream.heard = now;
  link.stream.heard_any = true;
  if (const std::uint64_t lost = CountLost(link, part, data_bytes); lost > 0) {
    // The worker counts these batches as sent. It would not send them again on this stream.
    Fail(link,
         Unavailable(fmt::format("of {} batches that it has sent, {} were lost on the way",
                                 part.batches_sent(), lost)),
         now);
    return false;
  }
  const bool wanted = data_bytes == 0 || OnData(link, part, data_bytes);
  if (part.has_alive()) {
    link.stream.building.reset();
    if (part.alive().has_building()) link.stream.building = FromProto(part.alive().building());
    link.stream.stage = part.alive().stage();
    link.stream.batches_before = part.alive().batches_before();
    if (DoesNotHear(link, part.alive(), now)) {
      FailSilent(link,
                 fmt::format("it sends and does not hear: no want list came to it for {:.1f} s",
                             part.alive().wants_age_ms() / 1e3),
                 now);
      return false;
    }
  }
  if (part.has_refused()) OnRefused(link, part.refused(), now);
  if (part.going_away() && !link.stream.going_away) OnGoingAway(link, now);
  return wanted;
}

bool Supply::DoesNotHear(const WorkerLink& link, const v1::Alive& alive, Time now) {
  return link.stream.owes() && now - link.stream.telling_since >= kSilence &&
         std::chrono::milliseconds(alive.wants_age_ms()) >= kSilence;
}

std::uint64_t Supply::CountLost(const WorkerLink& link, const v1::BatchPart& part,
                                std::uint64_t data_bytes) {
  if (IsMutant(Mutant::kLostBatchAwaited)) return 0;
  const std::uint64_t received = link.stream.received + (data_bytes > 0 ? 1 : 0);
  return part.batches_sent() - std::min(part.batches_sent(), received);
}

bool Supply::OnData(WorkerLink& link, const v1::BatchPart& part, std::uint64_t data_bytes) {
  WorkerLink::StreamFacts& stream = link.stream;
  const Position at = FromProto(part.at());
  stream.receiving = at;
  stream.receiving_bytes = std::min(part.total_bytes(), stock_.batch_limit_bytes());
  stream.used = std::max(stream.used, part.credit_used());
  stream.mostly_python = part.mostly_python();
  // The worker has gone on since it told this.
  if (stream.building == at) {
    stream.building.reset();
    stream.stage.clear();
    stream.batches_before = 0;
  }
  // This is decided once for each batch, even if the window changes while its parts come.
  if (part.offset() == 0) stream.receiving_wanted = Wants(at);
  const bool wanted = stream.receiving_wanted;
  const bool is_last = part.offset() + data_bytes == part.total_bytes();
  if (is_last) stream.received = std::max(stream.received, part.batches_sent());
  if (!wanted && is_last) {
    stream.receiving.reset();
    stream.receiving_bytes = 0;
    stream.owed -= std::min<std::uint64_t>(stream.owed, 1);
    stream.stale = true;
    context_.stale.MarkGrants();
  }
  return wanted;
}

bool Supply::Wants(Position at) const {
  if (!attach_.steps().Contains(at)) return false;
  const std::uint64_t step = attach_.steps().Index(at);
  if (step + kCompared < stock_.next()) return false;
  // A leased batch was asked for, and its bytes have used credit. So it is wanted even if the
  // window is smaller by now.
  return step < stock_.next() + stock_.window() + kCompared || leases_.Covering(step) != nullptr;
}

std::optional<std::uint64_t> Supply::StepOf(const v1::Refused& refused,
                                            const HeldLease& held) const {
  if (!refused.has_at()) return std::nullopt;
  const Position at = FromProto(refused.at());
  if (!attach_.steps().Contains(at)) return std::nullopt;
  const std::uint64_t step = attach_.steps().Index(at);
  if (step < held.first || step >= held.end) return std::nullopt;
  return step;
}

void Supply::OnRefused(WorkerLink& link, const v1::Refused& refused, Time now) {
  CutLeases();
  const Number id = FromProto(refused.lease());
  HeldLease* held = leases_.Find(id);
  if (held == nullptr || !held->lacks()) return;
  context_.logger->Warning(
      "lease refused",
      {{"worker", link.where.address}, {"lease", id.ToString()}, {"why", refused.message()}});
  ++lapsed_leases_;
  const auto code = static_cast<StatusCode>(refused.code());
  if (const auto step = StepOf(refused, *held); code == StatusCode::kAborted && step) {
    link.tried[*step] = refused.message();
  } else if (IsRefusedForGood(code)) {
    // Nobody knows which of the lease's batches are meant. So the refusal holds up to its end.
    workers_.Refused(link, Status(code, refused.message()), held->end);
  }
  LeaseBook::Trim(*held, 0);
  workers_.Failed(link, refused.message(), now);
  context_.stale.MarkReport();
  context_.stale.MarkGrantsDue();
  workers_.MarkStale(true);
}

void Supply::OnGoingAway(WorkerLink& link, Time now) {
  context_.logger->Info("worker drains", {{"worker", link.where.address}});
  link.stream.going_away = link.drains = true;
  link.failing_until = now + WorkerBook::kFirstBackoff;
  link.reason = "draining";
  // The worker still sends the batches that it was told to build. Other workers get the other
  // batches.
  CutLeases();
  std::uint64_t told = link.stream.owed;
  for (HeldLease* held : leases_.ByNeed()) {
    if (held->lease.worker.id != link.where.id) continue;
    const std::uint64_t keeps = std::min(held->room, told);
    if (keeps == 0) ++lapsed_leases_;
    LeaseBook::Trim(*held, keeps);
    told -= keeps;
  }
  context_.stale.MarkReport();
  context_.stale.MarkGrantsDue();
  workers_.MarkStale(true);
}

Verdict Supply::OnArrival(WorkerLink& link, const Arrival& arrival, Time now) {
  link.stream.heard = now;
  link.stream.heard_any = true;
  link.stream.receiving.reset();
  link.stream.receiving_bytes = 0;
  link.stream.owed -= std::min<std::uint64_t>(link.stream.owed, 1);
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
  } else if (step >= stock_.next() + stock_.window() && leases_.Covering(step) == nullptr) {
    verdict = Verdict::kUnwanted;
  } else {
    stock_.Keep(step, arrival, link.where.id);
    workers_.Proved(link);
    if (link.stream.going_away) link.failing_until = now + WorkerBook::kFirstBackoff;
    context_.stale.MarkReport();
  }
  if (verdict == Verdict::kDuplicate) ++duplicates_;
  return verdict;
}

void Supply::Compare(std::uint64_t step, const Digest128& first, Number first_worker,
                     const Digest128& second, Number second_worker) {
  if (first == second || IsMutant(Mutant::kCopiesNotCompared)) return;
  ++duplicate_mismatches_;
  const auto name = [this](Number id) {
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
  const bool drained = link.stream.going_away && link.stream.owed == 0;
  if (drained) {
    workers_.Closed(link);
    LapseOf(link);
  } else {
    Fail(link, status.ok() ? Unavailable("closed the stream") : status, now);
  }
}

void Supply::CheckTimes(Time now) {
  workers_.ForgetDead(
      [this](const WorkerLink& link) {
        const auto& leases = leases_.all();
        return std::any_of(leases.begin(), leases.end(), [&](const auto& held) {
          return held.second.lease.worker.id == link.where.id;
        });
      },
      now);
  for (auto& [id, link] : workers_.all()) {
    if (link.stream.id == 0) continue;
    if (link.stream.owes() && now - link.stream.heard >= kSilence &&
        !IsMutant(Mutant::kSilentWorkerTrusted)) {
      FailSilent(link,
                 fmt::format("silent for {:.0f} s while batches were due", ToSeconds(kSilence)),
                 now);
    } else if (!link.stream.owes() && now - link.stream.unused_since >= kCloseUnused) {
      context_.actions.Put(CloseStream{link.stream.id, OkStatus()});
      workers_.Closed(link);
      context_.stale.MarkGrantsDue();
    } else if (link.stream.owed > 0 && now - link.stream.told >= kWantsEvery) {
      link.stream.stale = true;
    }
  }
}

void Supply::AddTimes(NextDue& next) const {
  for (const auto& [id, link] : workers_.all()) {
    if (link.stream.id == 0) continue;
    if (link.stream.owes()) next.At(link.stream.heard + kSilence);
    if (link.stream.owed > 0) next.At(link.stream.told + kWantsEvery);
  }
}

void Supply::StoodStill(Duration more, Time now) {
  for (auto& [id, link] : workers_.all()) {
    link.stream.heard = link.stream.heard + more;
    link.stream.telling_since = now;
  }
}

void Supply::CloseStreams(const Status& why) {
  for (auto& [id, link] : workers_.all()) {
    if (link.stream.id != 0) context_.actions.Put(CloseStream{link.stream.id, why});
    workers_.Closed(link);
  }
}

const WorkerLink* Supply::NextWorker() const {
  const HeldLease* lease = leases_.Covering(stock_.next());
  return lease == nullptr ? nullptr : workers_.Find(lease->lease.worker.id);
}

void Supply::AddTo(SessionStats& stats) const {
  stats.lapsed_leases = lapsed_leases_;
  stats.duplicates = duplicates_;
  stats.duplicate_mismatches = duplicate_mismatches_;
}

}  // namespace millrace::client
