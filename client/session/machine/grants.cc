#include "client/session/machine/grants.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "common/base/mutant.h"
#include "common/transport/convert/compression.h"

namespace millrace::client {
namespace {

/// A batch may be this much larger than the mean of those before it.
constexpr double kSpareBytes = 1.25;

}  // namespace

Grants::Grants(SessionContext& context, const Attach& attach, const Stock& stock,
               const AskBook& asks, const Dealing& dealing, WorkerBook& workers)
    : context_(context),
      attach_(attach),
      stock_(stock),
      asks_(asks),
      dealing_(dealing),
      workers_(workers) {}

void Grants::GiveCredit() {
  std::uint64_t spoken_for = stock_.held_bytes();
  for (const auto& [id, link] : workers_.all()) {
    if (link.stream.id == 0) continue;
    // Credit cannot be taken back. It counts until the worker has used it, or its stream is closed.
    spoken_for += link.stream.receiving_bytes + link.credit_left();
  }
  std::uint64_t free = context_.ahead_bytes - std::min(context_.ahead_bytes, spoken_for);
  const double batch = kSpareBytes * stock_.MeanBytes();
  const std::uint64_t until = Until();
  std::unordered_map<Number, double> wanted;  // bytes
  for (const auto& [step, asks] : asks_.steps()) {
    if (step >= until) return;
    for (const Ask& ask : asks.all()) {
      WorkerLink& link = *workers_.Find(ask.worker);
      if (link.stream.id == 0) continue;
      // The worker may send it now, and has not been told.
      if (ask.built && step >= link.stream.told_until) link.stream.stale = link.stream.urgent = true;
      double& bytes = wanted[ask.worker];
      bytes += batch;
      const auto enough = std::min(std::max(stock_.largest_bytes(), static_cast<std::uint64_t>(bytes)),
                                   link.credit_limit.bytes());
      const std::uint64_t left = link.credit_left();
      if (left >= enough) continue;
      const std::uint64_t granted =
          IsMutant(Mutant::kCreditBeyondMemory) ? 8 * enough : std::min(enough - left, free);
      if (granted == 0) continue;
      link.stream.credit += granted;
      free -= std::min(free, granted);
      link.stream.stale = true;
      // A worker that still has some goes on with that.
      if (ask.built || left < stock_.largest_bytes()) link.stream.urgent = true;
    }
  }
}

void Grants::SendWantsWhereDue(Time now) {
  for (auto& [id, link] : workers_.all()) {
    WorkerLink::StreamFacts& stream = link.stream;
    if (stream.id == 0 || stream.writing || !stream.stale) continue;
    if (stream.told != Time{} && now < stream.told + WantsApart(link)) continue;
    if (!stream.owes) stream.heard = stream.telling_since = now;
    stream.owes = !asks_.Of(id).steps.empty();
    stream.stale = stream.urgent = false;
    stream.told = now;
    stream.told_until = Until();
    stream.writing = true;
    context_.actions.Put(SendWants{stream.id, MakeWants(link)});
  }
}

v1::WantList Grants::MakeWants(const WorkerLink& link) const {
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
  wants.set_asks(dealing_.wants_more());
  ToProto(attach_.steps().At(Until()), wants.mutable_until());
  const std::set<std::uint64_t>& steps = asks_.Of(link.where.id).steps;
  for (auto step = steps.begin(); step != steps.end();) {
    const std::uint64_t first = *step;
    std::uint64_t end = first;
    while (step != steps.end() && *step == end) ++step, ++end;
    for (std::uint64_t at = first; at < end;) {
      v1::Run& run = *wants.add_runs();
      run = attach_.steps().RunAt(at, static_cast<std::uint32_t>(end - at));
      at += run.steps();
    }
  }
  return wants;
}

void Grants::AddTimes(NextDue& next) const {
  for (const auto& [id, link] : workers_.all()) {
    if (link.stream.id != 0 && link.stream.stale) next.At(link.stream.told + WantsApart(link));
  }
}

}  // namespace millrace::client
