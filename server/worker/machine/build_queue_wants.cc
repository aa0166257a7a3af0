// What the streams of a worker want, and how their wants meet in shared batches.

#include "server/worker/machine/build_queue.h"

#include <utility>

#include "common/base/mutant.h"
#include "common/transport/convert/places.h"

namespace millrace {
namespace {

/// Checks that no position or range of the shard's batches can overflow.
Status CheckShard(const v1::Shard& shard) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 62;
  if (shard.batches() == 0 || shard.batches() > BuildQueue::kMaxWantedBatches) {
    return InvalidArgument("a shard of " + std::to_string(shard.batches()) +
                           " batches: expected 1 to " +
                           std::to_string(BuildQueue::kMaxWantedBatches));
  }
  if (shard.stride() >= kLimit / BuildQueue::kMaxWantedBatches || shard.position() >= kLimit ||
      shard.first_example() >= kLimit || (shard.batches() > 1 && shard.stride() == 0)) {
    return InvalidArgument("a shard at position " + std::to_string(shard.position()) +
                           " with stride " + std::to_string(shard.stride()) + ": out of range");
  }
  return OkStatus();
}

}  // namespace

Status BuildQueue::SetWants(StreamId id, const v1::WantList& wants) {
  StreamState& stream = streams_.at(id);
  std::uint64_t total = 0;
  for (const v1::Want& want : wants.wants()) {
    MILLRACE_RETURN_IF_ERROR(CheckShard(want.shard()));
    total += want.shard().batches();
  }
  if (total > kMaxWantedBatches) {
    return InvalidArgument("a want list of " + std::to_string(total) +
                           " batches: expected at most " + std::to_string(kMaxWantedBatches));
  }
  if (wants.credit_bytes() < stream.credit) {
    return InvalidArgument("credit went back from " + std::to_string(stream.credit) + " to " +
                           std::to_string(wants.credit_bytes()) + " bytes");
  }
  stream.credit = wants.credit_bytes();
  stream.next = FromProto(wants.next());
  batches_.Moved(id, *stream.batches, stream.place, stream.next);

  ++stream.lists;
  std::set<Number> leases;
  // Wants usually come in order of need, and so do their batches. So the entry behind the previous
  // one is a good hint of where the next one belongs.
  auto behind = stream.entries.begin();
  for (const v1::Want& want : wants.wants()) {
    const v1::Shard& shard = want.shard();
    const Number lease = FromProto(want.lease());
    leases.insert(lease);
    if (stream.given_up.contains(lease)) continue;
    for (std::uint32_t k = 0; k < shard.batches(); ++k) {
      const Position at = PositionOf(shard, k);
      if (at < stream.next) continue;
      const auto it = stream.entries.try_emplace(behind, Key{at, lease});
      behind = std::next(it);
      Entry& entry = it->second;
      entry.range = {shard.first_example() + k * shard.stride(), shard.examples()};
      entry.list = stream.lists;
      const bool room = k < want.room() || IsMutant(Mutant::kRoomIgnored);
      entry.room = room;
      if (entry.state == State::kNoRoom && room)
        SetState(stream, it->first, entry, State::kPending);
      if (entry.state == State::kPending && !room)
        SetState(stream, it->first, entry, State::kNoRoom);
      if (entry.state == State::kPending) TakeOver(stream, it->first, entry);
    }
  }
  std::erase_if(stream.given_up, [&](const Number& lease) { return !leases.contains(lease); });
  stream.leases = std::move(leases);

  for (auto it = stream.entries.begin(); it != stream.entries.end();) {
    if (it->second.list == stream.lists) {
      ++it;
      continue;
    }
    SetState(stream, it->first, it->second, State::kNoRoom);
    it = stream.entries.erase(it);
  }
  return OkStatus();
}

void BuildQueue::EraseEntries(StreamState& stream, Number lease) {
  for (auto it = stream.entries.begin(); it != stream.entries.end();) {
    if (lease.is_set() && it->first.second != lease) {
      ++it;
      continue;
    }
    SetState(stream, it->first, it->second, State::kNoRoom);
    it = stream.entries.erase(it);
  }
}

void BuildQueue::SetState(StreamState& stream, const Key& key, Entry& entry, State state) {
  Job& job = jobs_[stream.job];
  const auto active = [](State s) { return s == State::kPending || s == State::kBuilding; };
  const auto wants = [&](State s) { return active(s) || s == State::kBuilt; };
  if (active(state) && !active(entry.state)) {
    // A job that had nothing to build is owed nothing later for that time.
    if (job.active == 0) job.time = std::max(job.time, served_time_);
    ++job.active;
  } else if (!active(state) && active(entry.state)) {
    --job.active;
  }
  if (wants(state) && !wants(entry.state)) {
    entry.batch = &batches_.Get(*stream.batches, {key.first.epoch, entry.range});
    entry.batch->wanted.emplace(stream.id, key);
  }
  SharedBatch* const batch = entry.batch;
  if (entry.state == State::kPending) {
    stream.pending.erase(key);
    if (--batch->pending == 0) --pending_;
  }
  if (entry.state == State::kBuilt) {
    stream.built.erase(key);
    stream.built_bytes -= batch->bytes;
    if (state == State::kSent) batches_.Sending(*batch, stream.id);
    if (--batch->to_send > 0) {
      // Another stream is still to be sent it.
    } else if (state == State::kSent) {
      batches_.Sent(*batch, stream.place, key.first);
    } else {
      batches_.Drop(*batch);
    }
  }
  if (state == State::kPending) {
    stream.pending.insert(key);
    if (batch->pending++ == 0) ++pending_;
  }
  if (state == State::kBuilt) {
    stream.built.insert(key);
    stream.built_bytes += batch->bytes;
    ++batch->to_send;
  }
  entry.state = state;
  if (batch != nullptr && !wants(state)) {
    entry.batch = nullptr;
    batch->wanted.erase({stream.id, key});
    batches_.EraseIfIdle(*batch);
  }
}

void BuildQueue::TakeOver(StreamState& stream, const Key& key, Entry& entry) {
  SharedBatch& batch = *entry.batch;
  if (batch.build != 0) return SetState(stream, key, entry, State::kBuilding);
  if (batch.to_send > 0) return HandOut(batch, nullptr);
  if (!SharedBatches::IsLeft(batch)) return;
  if (batch.kept_for == nullptr && !IsUrgent(stream, key) && !batches_.Fits(batch)) return;
  batches_.TakeBack(batch);
  HandOut(batch, nullptr);
}

void BuildQueue::HandOut(SharedBatch& batch, const SharedBatch::Wanting* own) {
  const StreamState* const builder =
      own != nullptr && streams_.contains(own->first) ? &streams_.at(own->first) : nullptr;
  for (const SharedBatch::Wanting& wanting : batch.wanted) {
    const bool is_own = own != nullptr && wanting == *own;
    if (!is_own && own != nullptr && IsMutant(Mutant::kBuiltForOneOnly)) continue;
    StreamState& stream = streams_.at(wanting.first);
    Entry& entry = stream.entries.at(wanting.second);
    if (entry.state == State::kBuilt) continue;
    SetState(stream, wanting.second, entry, State::kBuilt);
    entry.shared = !is_own;
    ready_.insert(stream.id);
    // A job is owed nothing later for what it took over.
    const bool pays = builder != nullptr && builder->job == stream.job;
    if (Job& job = jobs_[stream.job]; !pays) job.time = std::max(job.time, served_time_);
  }
}

}  // namespace millrace
