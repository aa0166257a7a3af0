#include "client/session/machine/grants.h"

#include <algorithm>
#include <cstdint>

#include "common/base/mutant.h"
#include "common/transport/convert/compression.h"

namespace millrace::client {
namespace {

/// The first batch may be this much larger than the dispatcher's estimate.
constexpr double kFirstSpare = 1.25;

}  // namespace

Grants::Grants(SessionContext& context, const Attach& attach, const Stock& stock,
               const LoopPace& pace, const AskBook& asks, const Dealing& dealing,
               WorkerBook& workers)
    : context_(context),
      attach_(attach),
      stock_(stock),
      pace_(pace),
      asks_(asks),
      dealing_(dealing),
      workers_(workers) {}

void Grants::GiveCredit() {
  std::uint64_t spoken_for = stock_.held_bytes();
  for (WorkerLink* const link : workers_.open()) {
    // Credit cannot be taken back. It counts until the worker has used it, or its stream is closed.
    spoken_for += link->stream.receiving_bytes + link->credit_left();
    link->stream.wanted_bytes = 0;
  }
  std::uint64_t free = context_.ahead_bytes - std::min(context_.ahead_bytes, spoken_for);
  const std::uint64_t next = stock_.next();
  const std::uint64_t until = Until();
  for (const auto& [step, asks] : asks_.steps()) {
    if (step >= until) return;
    for (const Ask& ask : asks.all()) {
      WorkerLink& link = *workers_.Find(ask.worker);
      WorkerLink::StreamFacts& stream = link.stream;
      if (stream.id == 0 || step == next) continue;  // the next step needs no credit
      // The worker may send it now, and has not been told.
      if (ask.built && step >= stream.told_until) stream.stale = stream.urgent = true;
      free -= GiveFor(link, ask.built, free);
    }
  }
}

void Grants::TellNext() {
  const StepAsks* const asks = asks_.Find(stock_.next());
  if (asks == nullptr) return;
  for (const Ask& ask : asks->all()) {
    WorkerLink::StreamFacts& stream = workers_.Find(ask.worker)->stream;
    if (stream.told_next != stock_.next()) stream.stale = stream.urgent = true;
  }
}

std::uint64_t Grants::GiveFor(WorkerLink& link, bool built, std::uint64_t free) {
  const std::uint64_t largest = stock_.largest_bytes();
  const double mean = stock_.MeanBytes();
  // Batches are sent whole, so credit for a part of one would lie idle. What is left waits until it
  // suffices for this step, and goes to none that is needed later. For the first batches nobody
  // knows how much they need.
  const bool known = largest > 0;
  double& wanted = link.stream.wanted_bytes;
  wanted += wanted == 0 && known ? static_cast<double>(largest) : known ? mean : kFirstSpare * mean;
  const std::uint64_t enough =
      std::min(static_cast<std::uint64_t>(wanted), link.credit_limit.bytes());
  const std::uint64_t left = link.credit_left();
  if (left >= enough) return 0;
  if (known && enough - left > free && !IsMutant(Mutant::kCreditBeyondMemory)) return free;
  const std::uint64_t granted =
      IsMutant(Mutant::kCreditBeyondMemory) ? 8 * enough : std::min(enough - left, free);
  if (granted == 0) return 0;
  link.stream.credit += granted;
  link.stream.stale = true;
  // A worker that still has some goes on with that.
  if (built || left < largest) link.stream.urgent = true;
  return std::min(free, granted);
}

void Grants::SendWantsWhereDue(Time now) {
  due_.reset();
  for (WorkerLink* const link : workers_.open()) {
    WorkerLink::StreamFacts& stream = link->stream;
    if (stream.writing || !stream.stale) continue;
    const Time due = stream.told == Time{} ? now : stream.told + WantsApart(*link);
    if (now < due) {
      due_ = due_ ? std::min(*due_, due) : due;
      continue;
    }
    if (!stream.owes) stream.heard = stream.telling_since = now;
    stream.owes = !asks_.Of(link->where.id).steps.empty();
    stream.stale = stream.urgent = false;
    stream.told = now;
    stream.told_next = stock_.next();
    stream.told_until = Until();
    stream.writing = true;
    context_.actions.Put(SendWants{stream.id, MakeWants(*link, now)});
  }
}

v1::WantList Grants::MakeWants(const WorkerLink& link, Time now) const {
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
  wants.set_asks(dealing_.asks(now));
  ToProto(attach_.steps().At(Until()), wants.mutable_until());
  const double step_us = pace_.usual_seconds(now) * 1e6;
  wants.set_step_us(static_cast<std::uint32_t>(std::min(4e9, step_us)));
  const std::set<std::uint64_t>& steps = asks_.Of(link.where.id).steps;
  for (auto step = steps.begin(); step != steps.end();) {
    const std::uint64_t first = *step;
    std::uint64_t end = first;
    while (step != steps.end() && *step == end) ++step, ++end;
    for (std::uint64_t at = first; at < end;) {
      // If a step is not named now, it is when those before it are here.
      if (wants.runs_size() == static_cast<int>(Dealing::kMostRuns)) return wants;
      v1::Run& run = *wants.add_runs();
      run = attach_.steps().RunAt(at, static_cast<std::uint32_t>(end - at));
      const std::uint64_t ahead = at - std::min(at, stock_.next());
      const double needed_ms = pace_.UsuallyNeededIn(ahead, now) * 1e3;
      run.set_needed_ms(static_cast<std::uint32_t>(std::min(4e9, needed_ms)));
      at += run.steps();
    }
  }
  return wants;
}

}  // namespace millrace::client
