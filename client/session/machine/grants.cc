#include "client/session/machine/grants.h"

#include <algorithm>
#include <utility>

#include "common/base/mutant.h"
#include "common/transport/convert/compression.h"

namespace millrace::client {
namespace {

// If a loop has this many batches in hand, it does not wait while a want list is on its way.
constexpr std::uint64_t kPlenty = 16;

}  // namespace

Grants::Grants(SessionContext& context, const Attach& attach, const Stock& stock,
               const Supply& supply, const Waits& waits, LeaseBook& leases, WorkerBook& workers)
    : context_(context),
      attach_(attach),
      stock_(stock),
      supply_(supply),
      waits_(waits),
      leases_(leases),
      workers_(workers) {}

bool Grants::Due(Time now) const {
  if (context_.stale.grants_due()) return true;
  if (!context_.stale.grants()) return false;
  if (now >= granted_ + kGrantsApart) return true;
  const auto& links = workers_.all();
  return std::any_of(links.begin(), links.end(), [&](const auto& link) {
    return link.second.stream.id != 0 && (RunsOut(link.second) || WantsDue(link.second, now));
  });
}

void Grants::Give(Time now) {
  context_.stale.Granted();
  granted_ = now;
  GiveRoom();
  OpenStreams(now);
  GiveCredit();
}

void Grants::GiveRoom() {
  leases_.GiveRoom(stock_.next() + stock_.window(), stock_.WantedSlots());
  for (auto& [id, link] : workers_.all()) link.room = 0;
  for (HeldLease* held : leases_.ByNeed()) {
    workers_.Find(held->lease.worker.id)->room += held->room;
  }
  for (auto& [id, link] : workers_.all()) {
    if (link.room != link.stream.told_room) link.stream.stale = true;
  }
}

void Grants::GiveCredit() {
  std::uint64_t spoken_for = stock_.held_bytes();
  for (const auto& [id, link] : workers_.all()) {
    if (link.stream.id == 0) continue;
    // Credit cannot be taken back. It counts until the worker has used it, or its stream is closed.
    spoken_for += link.stream.receiving_bytes + link.credit_left();
  }
  std::uint64_t free = context_.ahead_bytes - std::min(context_.ahead_bytes, spoken_for);
  const double mean = stock_.MeanBytes();
  for (const HeldLease* held : leases_.ByNeed()) {
    WorkerLink* link = workers_.Find(held->lease.worker.id);
    if (link->stream.id == 0 || link->room == 0) continue;
    const auto needed = std::max<std::uint64_t>(
        stock_.largest_bytes(),
        static_cast<std::uint64_t>(1.25 * mean * static_cast<double>(link->room)));
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

void Grants::OpenStreams(Time now) {
  for (const HeldLease* held : leases_.ByNeed()) {
    WorkerLink* link = workers_.Find(held->lease.worker.id);
    link->stream.unused_since = now;
    if (link->stream.id != 0) continue;
    workers_.Opened(*link, context_.actions.NewStream(), now);
    context_.actions.Put(OpenBatches{link->stream.id, link->where});
  }
}

Duration Grants::WantsApart(const WorkerLink& link) const {
  // A worker that owes batches, and has the credit to send one, already knows what comes next. So
  // it does not need the want list urgently.
  const bool knows = link.stream.owed > 0 && link.credit_left() >= stock_.largest_bytes();
  const bool next_is_due =
      waits_.waiting() && !knows && !stock_.holds(stock_.next()) && supply_.NextWorker() == &link;
  return next_is_due ? kUrgentWantsApart : kWantsApart;
}

bool Grants::RunsOut(const WorkerLink& link) { return link.stream.owed * 2 <= link.room; }

bool Grants::WantsDue(const WorkerLink& link, Time now) const {
  const WorkerLink::StreamFacts& stream = link.stream;
  if (stream.id == 0 || stream.writing || !stream.stale) return false;
  // A worker with little left to do is told at once, so that it never stands still. But if most of
  // the window is held, everybody waits for the loop. Then the worker is not told of each single
  // batch.
  const bool plenty =
      stock_.held_batches() >= kPlenty && stock_.held_batches() * 2 > stock_.window();
  const bool runs_out = RunsOut(link) && link.room > (plenty ? stock_.window() / 8 : 0);
  return stream.urgent || runs_out || now >= stream.told + WantsApart(link);
}

void Grants::SendWantsWhereDue(Time now) {
  for (auto& [id, link] : workers_.all()) {
    if (!WantsDue(link, now)) continue;
    WorkerLink::StreamFacts& stream = link.stream;
    if (!stream.owes()) stream.heard = stream.telling_since = now;
    stream.owed = stream.told_room = link.room;
    stream.stale = stream.urgent = false;
    stream.told = now;
    stream.told_next = attach_.steps().At(stock_.next());
    stream.writing = true;
    context_.actions.Put(SendWants{stream.id, MakeWants(link)});
  }
}

v1::WantList Grants::MakeWants(const WorkerLink& link) {
  v1::WantList wants;
  wants.set_fingerprint(attach_.admission()->fingerprint.ToString());
  ToProto(attach_.session(), wants.mutable_session());
  ToProto(attach_.steps().At(stock_.next()), wants.mutable_next());
  wants.set_credit_bytes(link.stream.credit);
  wants.set_job(context_.options.hello.job());
  wants.set_priority(context_.options.hello.priority());
  wants.set_protocol(context_.options.hello.protocol());
  wants.set_world_size(context_.options.hello.world_size());
  wants.set_rank(context_.options.hello.rank());
  wants.set_compression(ToProto(context_.options.compression));
  for (const HeldLease* held : leases_.ByNeed()) {
    if (held->lease.worker.id != link.where.id) continue;
    v1::Want* want = wants.add_wants();
    ToProto(held->lease.id, want->mutable_lease());
    ToProto(attach_.steps().CutTo(held->lease.shard, held->first, held->end),
            want->mutable_shard());
    want->set_room(static_cast<std::uint32_t>(held->room));
  }
  return wants;
}

void Grants::AddTimes(NextDue& next) const {
  if (context_.stale.grants()) next.At(granted_ + kGrantsApart);
  for (const auto& [id, link] : workers_.all()) {
    if (link.stream.id != 0 && link.stream.stale) next.At(link.stream.told + WantsApart(link));
  }
}

}  // namespace millrace::client
