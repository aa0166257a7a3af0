#include "server/worker/machine/build_queue.h"

#include <algorithm>
#include <limits>
#include <tuple>

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

void BuildQueue::AddStream(StreamId id, const std::string& plan, const std::string& job) {
  StreamState& stream = streams_[id];
  stream.plan = plan;
  stream.job = job;
  jobs_.try_emplace(job);
}

void BuildQueue::SetWeight(const std::string& job, double weight) { jobs_.at(job).weight = weight; }

void BuildQueue::RemoveStream(StreamId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  StreamState& stream = found->second;
  for (auto& [key, entry] : stream.entries) SetState(stream, key, entry, State::kNoRoom);
  const std::string job = stream.job;
  streams_.erase(found);
  const bool last = std::none_of(streams_.begin(), streams_.end(),
                                 [&](const auto& other) { return other.second.job == job; });
  if (last) jobs_.erase(job);
}

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

void BuildQueue::SetState(StreamState& stream, const Key& key, Entry& entry, State state) {
  Job& job = jobs_[stream.job];
  const auto active = [](State s) { return s == State::kPending || s == State::kBuilding; };
  if (active(state) && !active(entry.state)) {
    // A job that had nothing to build is owed nothing later for that time.
    if (job.active == 0) job.time = std::max(job.time, served_time_);
    ++job.active;
  } else if (!active(state) && active(entry.state)) {
    --job.active;
  }
  if (entry.state == State::kPending) {
    stream.pending.erase(key);
    --pending_;
  }
  if (entry.state == State::kBuilt) {
    stream.built.erase(key);
    stream.built_bytes -= entry.bytes;
    built_bytes_ -= entry.bytes;
    entry.batch.reset();
  }
  if (state == State::kPending) {
    stream.pending.insert(key);
    ++pending_;
  }
  entry.state = state;
}

bool BuildQueue::MayBuild(const StreamState& stream) const {
  return built_bytes_ < memory_budget_ ||
         stream.built_bytes < memory_budget_ / std::max<std::size_t>(1, streams_.size());
}

bool BuildQueue::Waits(const StreamState& stream) {
  auto needed = stream.entries.begin();
  if (needed == stream.entries.end() || !IsUrgent(stream, needed->first)) return false;
  // If the next batch was sent, the consumer may have taken it already. Its want list that says so
  // is still on its way.
  if (needed->second.state == State::kSent) ++needed;
  if (needed == stream.entries.end()) return false;
  const State state = needed->second.state;
  return state == State::kPending || state == State::kBuilding;
}

std::optional<BuildQueue::Task> BuildQueue::Next() {
  // The lowest rank is built: first the batches that a consumer waits for, then by the job's time,
  // then by position. Memory cannot hold back an urgent batch.
  using Rank = std::tuple<bool, double, Key>;
  std::optional<Rank> best;
  StreamId best_stream = 0;
  for (auto& [name, job] : jobs_) job.waits = false;
  for (auto& [id, stream] : streams_) {
    const bool waits = Waits(stream);
    if (waits) jobs_[stream.job].waits = true;
    if (stream.pending.empty()) continue;
    const Key& key = *stream.pending.begin();
    const bool urgent = IsUrgent(stream, key);
    if (!urgent && !MayBuild(stream)) continue;
    const bool first = urgent || (waits && built_bytes_ < memory_budget_);
    const Rank rank{!first, jobs_[stream.job].time, key};
    if (!best || rank < *best) {
      best = rank;
      best_stream = id;
    }
  }
  if (!best) return std::nullopt;
  StreamState& stream = streams_.at(best_stream);
  const Key key = std::get<Key>(*best);
  if (built_bytes_ >= memory_budget_ && !ForgetFor(stream) && !IsUrgent(stream, key)) {
    return std::nullopt;
  }
  Entry& entry = stream.entries.at(key);
  SetState(stream, key, entry, State::kBuilding);
  Job& job = jobs_[stream.job];
  served_time_ = job.time;
  if (job.waits) {
    for (auto& [name, other] : jobs_) {
      if (!other.waits) other.time = std::max(other.time, served_time_);
    }
  }
  job.time += job.mean_seconds / job.weight;
  return Task{best_stream, stream.plan, stream.job,      key.second,
              key.first,   entry.range, job.mean_seconds};
}

BuildQueue::StreamState* BuildQueue::Richest() {
  StreamState* richest = nullptr;
  for (auto& [id, stream] : streams_) {
    const bool only_next = stream.built.empty() || IsUrgent(stream, *stream.built.rbegin());
    if (only_next) continue;
    if (richest == nullptr || stream.built_bytes > richest->built_bytes) richest = &stream;
  }
  return richest;
}

void BuildQueue::ForgetLast(StreamState& stream) {
  const Key last = *stream.built.rbegin();
  Entry& entry = stream.entries.at(last);
  // The consumer may have withdrawn its room since the batch was built.
  SetState(stream, last, entry, entry.room ? State::kPending : State::kNoRoom);
}

bool BuildQueue::ForgetFor(const StreamState& wanting) {
  StreamState* richest = Richest();
  if (richest == nullptr) return false;
  if (richest != &wanting && richest->built_bytes <= wanting.built_bytes) return false;
  ForgetLast(*richest);
  return true;
}

void BuildQueue::SetMemoryBudget(std::uint64_t bytes) {
  memory_budget_ = bytes;
  while (built_bytes_ > memory_budget_) {
    StreamState* richest = Richest();
    if (richest == nullptr) return;
    ForgetLast(*richest);
  }
}

void BuildQueue::Built(const Task& task, std::shared_ptr<const BuiltBatch> batch,
                       std::uint64_t bytes, double seconds) {
  if (const auto found = jobs_.find(task.job); found != jobs_.end()) {
    Job& job = found->second;
    job.time += (seconds - task.charged) / job.weight;
    job.mean_seconds = job.mean_seconds == 0 ? seconds : 0.9 * job.mean_seconds + 0.1 * seconds;
  }
  const auto stream = streams_.find(task.stream);
  if (stream == streams_.end()) return;
  const Key key{task.at, task.lease};
  const auto found = stream->second.entries.find(key);
  if (found == stream->second.entries.end() || found->second.state != State::kBuilding) return;
  Entry& entry = found->second;
  SetState(stream->second, key, entry, State::kBuilt);
  entry.batch = std::move(batch);
  entry.bytes = bytes;
  stream->second.built.insert(key);
  stream->second.built_bytes += bytes;
  built_bytes_ += bytes;
}

void BuildQueue::GiveUp(const Task& task) {
  const auto found = streams_.find(task.stream);
  if (found == streams_.end()) return;
  StreamState& stream = found->second;
  stream.given_up.insert(task.lease);
  for (auto it = stream.entries.begin(); it != stream.entries.end();) {
    if (it->first.second != task.lease) {
      ++it;
      continue;
    }
    SetState(stream, it->first, it->second, State::kNoRoom);
    it = stream.entries.erase(it);
  }
}

std::vector<Number> BuildQueue::GiveUpAll(StreamId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return {};
  StreamState& stream = found->second;
  for (auto& [key, entry] : stream.entries) SetState(stream, key, entry, State::kNoRoom);
  stream.entries.clear();
  stream.given_up.insert(stream.leases.begin(), stream.leases.end());
  return {stream.leases.begin(), stream.leases.end()};
}

std::optional<BuildQueue::Outgoing> BuildQueue::TakeToSend(StreamId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.built.empty()) return std::nullopt;
  StreamState& stream = found->second;
  const Key key = *stream.built.begin();
  Entry& entry = stream.entries.at(key);
  if (!IsUrgent(stream, key) || IsMutant(Mutant::kNextNeedsCredit)) {
    if (entry.bytes > stream.credit - stream.credit_used) return std::nullopt;
    stream.credit_used += entry.bytes;
  }
  Outgoing out{Task{id, stream.plan, stream.job, key.second, key.first, entry.range}, entry.batch,
               entry.bytes, stream.credit_used, ++stream.batches_sent};
  SetState(stream, key, entry, State::kSent);
  return out;
}

std::uint64_t BuildQueue::BatchesSent(StreamId id) const {
  const auto found = streams_.find(id);
  return found == streams_.end() ? 0 : found->second.batches_sent;
}

bool BuildQueue::Owes(StreamId id) const {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return false;
  return std::any_of(
      found->second.entries.begin(), found->second.entries.end(), [](const auto& entry) {
        return entry.second.state != State::kSent && entry.second.state != State::kNoRoom;
      });
}

bool BuildQueue::BlockedByCredit(StreamId id) const {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.built.empty()) return false;
  const StreamState& stream = found->second;
  const Key& key = *stream.built.begin();
  return !IsUrgent(stream, key) &&
         stream.entries.at(key).bytes > stream.credit - stream.credit_used;
}

std::optional<Position> BuildQueue::Building(StreamId id) const {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return std::nullopt;
  for (const auto& [key, entry] : found->second.entries) {
    if (entry.state == State::kBuilding) return key.first;
  }
  return std::nullopt;
}

std::uint64_t BuildQueue::leases() const {
  std::uint64_t n = 0;
  for (const auto& [id, stream] : streams_) n += stream.leases.size();
  return n;
}

}  // namespace millrace
