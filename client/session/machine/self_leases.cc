#include "client/session/machine/self_leases.h"

#include <algorithm>
#include <tuple>

#include "common/base/mutant.h"
#include "common/base/protocol_limits.h"
#include "common/base/refusal.h"

namespace millrace::client {

void SelfLeases::OnWelcome(Time now) {
  self_leasing_ = false;
  // The dispatcher's leases will come in a moment. But a loop that has already waited does not wait
  // the full time again.
  if (uncovered_since_) {
    uncovered_since_ = std::max(*uncovered_since_, now + -(kSilence - kWelcomeLeases));
  }
}

void SelfLeases::OnLeased() {
  self_leasing_ = false;
  uncovered_since_.reset();
}

std::uint64_t SelfLeases::LackedOf(Number worker) const {
  std::uint64_t batches = 0;
  for (const auto& [id, held] : leases_.all()) {
    if (held.lease.worker.id == worker && held.lacks()) batches += held.end - held.first;
  }
  return batches;
}

void SelfLeases::LeaseToItself(Time now) {
  const std::uint64_t end =
      stock_.next() + (self_leasing_ ? stock_.lease_window() : stock_.window());
  const auto is_held = [this](std::uint64_t step) { return stock_.holds(step); };
  auto [first, last] = leases_.FirstGap(stock_.next(), end, is_held);
  if (first == last) return uncovered_since_.reset();
  if (!uncovered_since_) uncovered_since_ = now;
  const Time since = std::min(*uncovered_since_, attach_.heard());
  if (!self_leasing_ && now - since < kSilence) return;
  if (IsMutant(Mutant::kSelfLeaseOff)) return;

  const auto load = [this](Number worker) { return LackedOf(worker); };
  const std::size_t known = workers_.all().size();
  if (known == 0) return;
  const std::uint32_t shard = ShardStepsOf(stock_.lease_window(), known);
  for (std::uint64_t n = 0; n < kMaxLeasesAtOnce && first < last; ++n) {
    // The dispatcher ends the job for this step, as soon as there is one.
    if (workers_.TriedBy(first) >= kWorkersTryCode) return;
    WorkerLink* link = workers_.ForSelfLease(first, context_.options.hello.host_id(), load, now);
    if (link == nullptr) return;
    if (link->failing_until > now && now - self_leased_ < kSelfLeasesApart) return;
    if (!self_leasing_) {
      self_leasing_ = true;
      context_.logger->Warning("no lease from the dispatcher: going on with the workers known",
                               {{"address", context_.options.address}, {"workers", known}});
    }
    const auto tried = link->tried.upper_bound(first);
    const std::uint64_t until = tried == link->tried.end() ? last : std::min(last, tried->first);
    Add(*link, first, static_cast<std::uint32_t>(std::min<std::uint64_t>(until - first, shard)),
        now);
    std::tie(first, last) =
        leases_.FirstGap(stock_.next(), stock_.next() + stock_.lease_window(), is_held);
  }
}

void SelfLeases::Add(WorkerLink& link, std::uint64_t first, std::uint32_t batches, Time now) {
  Lease lease;
  lease.id = {0, ++given_};
  lease.shard = attach_.steps().ShardAt(first, batches);
  lease.worker = link.where;
  leases_.Add(lease, first);
  link.stream.stale = link.stream.urgent = true;
  self_leased_ = now;
  context_.stale.MarkReport();
}

void SelfLeases::AddTimes(NextDue& next) const {
  if (!uncovered_since_) return;
  next.At(self_leasing_ ? self_leased_ + kSelfLeasesApart
                        : std::min(*uncovered_since_, attach_.heard()) + kSilence);
}

}  // namespace millrace::client
