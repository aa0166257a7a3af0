#include "server/dispatcher/machine/twin_leases.h"

#include <algorithm>

namespace millrace {
namespace {

void AddLeases(const SessionFacts& session, TwinTrail& trail) {
  for (const auto* leases : {&session.leases.held(), &session.leases.sent()}) {
    for (const LeaseFacts& lease : *leases) {
      if (!lease.copy) trail.Add(lease.run, session.plan->steps.stride(), lease.worker);
    }
  }
}

}  // namespace

std::optional<TwinTrail::Part> TwinTrail::Find(Position at, std::uint64_t stride) const {
  // The session in front asks for places that nobody has had.
  if (at >= end_) return std::nullopt;
  // Twins in step ask for the newest ones.
  for (std::size_t i = shards_.size(); i-- > 0;) {
    const Shard& shard = shards_[(oldest_ + i) % shards_.size()];
    if (shard.run.at.epoch != at.epoch || shard.run.at.example > at.example) continue;
    const std::uint64_t past = at.example - shard.run.at.example;
    const std::uint64_t steps = past / stride;
    // Sessions that began at different places may have other steps in the same epoch.
    if (steps >= shard.run.batches || steps * stride != past) continue;
    return Part{shard.worker, shard.run.batches - static_cast<std::uint32_t>(steps)};
  }
  return std::nullopt;
}

void TwinTrail::Add(const StepRun& run, std::uint64_t stride, Number worker) {
  end_ = std::max(end_, Position{run.at.epoch, run.at.example + run.batches * stride});
  if (shards_.size() < kShards) {
    shards_.push_back({run, worker});
    return;
  }
  shards_[oldest_] = {run, worker};
  oldest_ = (oldest_ + 1) % kShards;
}

void TwinLeases::Add(const SessionFacts& session) {
  const Key key{session.plan->fingerprint, session.hello.world_size(), session.hello.rank()};
  const Groups::iterator group = groups_.try_emplace(key).first;
  if (!group_of_.try_emplace(session.id, Member{&session, group}).second) return;
  auto& [sessions, trail] = group->second;
  if (!sessions.empty()) ++twins_;
  if (sessions.size() == 1) AddLeases(**sessions.begin(), trail);
  sessions.insert(&session);
  // A session that comes back from an earlier dispatcher has leases already.
  if (sessions.size() > 1) AddLeases(session, trail);
}

void TwinLeases::Forget(Number session) {
  const auto found = group_of_.find(session);
  if (found == group_of_.end()) return;
  const auto [facts, group] = found->second;
  group_of_.erase(found);
  auto& [sessions, trail] = group->second;
  sessions.erase(facts);
  if (!sessions.empty()) --twins_;
  if (sessions.size() < 2) trail = {};
  if (sessions.empty()) groups_.erase(group);
}

TwinTrail* TwinLeases::TrailOf(Number session) {
  if (twins_ == 0) return nullptr;
  const auto found = group_of_.find(session);
  if (found == group_of_.end()) return nullptr;
  Group& group = found->second.group->second;
  return group.sessions.size() < 2 ? nullptr : &group.trail;
}

}  // namespace millrace
