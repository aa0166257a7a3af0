// A consumer without a dispatcher: where part of its window has had no lease for 3 s, or has none
// and no word has come of a dispatcher for 3 s, it leases that to itself, from the workers it
// knows. Batches are pure, and a running trainer needs no dispatcher.
//
// Such leases are of term 0 and lie outside `last_lease`; reports name them as held, so that a
// dispatcher that comes back leases nothing of them again. Its first word ends it.

#include <algorithm>
#include <tuple>

#include "client/session/machine/session_machine.h"
#include "common/base/mutant.h"
#include "common/base/protocol_limits.h"

namespace millrace::client {

std::uint64_t SessionMachine::LackedOf(Number worker) const {
  std::uint64_t batches = 0;
  for (const auto& [id, held] : leases_.all()) {
    if (held.lease.worker.id == worker && held.lacks()) batches += held.end - held.first;
  }
  return batches;
}

void SessionMachine::LeaseToItself(Time now) {
  const std::uint64_t end = next_ + (self_leasing_ ? lease_window() : window());
  const auto is_held = [this](std::uint64_t step) { return holds(step); };
  auto [first, last] = leases_.FirstGap(next_, end, is_held);
  if (first == last) return uncovered_since_.reset();
  if (!uncovered_since_) uncovered_since_ = now;
  const Time since = std::min(*uncovered_since_, dispatcher_heard_);
  if (!self_leasing_ && now - since < kSilence) return;
  if (IsMutant(Mutant::kSelfLeaseOff)) return;

  const auto load = [this](Number worker) { return LackedOf(worker); };
  const std::size_t known = workers_.all().size();
  if (known == 0) return;
  const std::uint32_t shard = ShardStepsOf(lease_window(), known);
  for (std::uint64_t n = 0; n < kMaxLeasesAtOnce && first < last; ++n) {
    WorkerLink* link = workers_.ForSelfLease(options_.hello.host_id(), load, now);
    if (link == nullptr) return;
    if (link->failing_until > now && now - self_leased_ < kSelfLeasesApart) return;
    if (!self_leasing_) {
      self_leasing_ = true;
      logger_->Warning("no lease from the dispatcher: going on with the workers known",
                       {{"address", options_.address}, {"workers", known}});
    }
    AddSelfLease(*link, first,
                 static_cast<std::uint32_t>(std::min<std::uint64_t>(last - first, shard)), now);
    std::tie(first, last) = leases_.FirstGap(next_, next_ + lease_window(), is_held);
  }
}

void SessionMachine::AddSelfLease(WorkerLink& link, std::uint64_t first, std::uint32_t batches,
                                  Time now) {
  Lease lease;
  lease.id = {0, ++stats_.self_leases};
  lease.shard = steps_->ShardAt(first, batches);
  lease.worker = link.where;
  leases_.Add(lease, first);
  link.stream.stale = link.stream.urgent = true;
  self_leased_ = now;
  report_stale_ = true;
}

}  // namespace millrace::client
