#include "server/worker/machine/build_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/mutant.h"

namespace millrace {

void BuildQueue::AddStream(StreamId id, const std::string& plan, const std::string& job,
                           RankPlace place) {
  StreamState& stream = streams_[id];
  stream.id = id;
  stream.plan = plan;
  stream.job = job;
  stream.place = place;
  stream.batches = &batches_.AddStream(id, plan, place);
  jobs_.try_emplace(job);
}

void BuildQueue::SetWeight(const std::string& job, double weight) { jobs_.at(job).weight = weight; }

void BuildQueue::RemoveStream(StreamId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  StreamState& stream = found->second;
  EraseEntries(stream);
  batches_.RemoveStream(id, *stream.batches, stream.place);
  ready_.erase(id);
  const std::string job = stream.job;
  streams_.erase(found);
  const bool last = std::none_of(streams_.begin(), streams_.end(),
                                 [&](const auto& other) { return other.second.job == job; });
  if (last) jobs_.erase(job);
}

bool BuildQueue::MayBuild(const StreamState& stream) const {
  return !IsFull() ||
         stream.built_bytes < memory_budget() / std::max<std::size_t>(1, streams_.size());
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

std::optional<SharedBatch::Wanting> BuildQueue::Choose() {
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
    const bool first = urgent || (waits && !IsFull());
    const Rank rank{!first, jobs_[stream.job].time, key};
    if (!best || rank < *best) {
      best = rank;
      best_stream = id;
    }
  }
  if (!best) return std::nullopt;
  return SharedBatch::Wanting{best_stream, std::get<Key>(*best)};
}

bool BuildQueue::anyone_waits() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job.second.waits; });
}

std::optional<BuildQueue::Task> BuildQueue::Next() {
  for (bool forgot = false;;) {
    const std::optional<SharedBatch::Wanting> chosen = Choose();
    if (!chosen) return std::nullopt;
    const auto& [id, key] = *chosen;
    StreamState& stream = streams_.at(id);
    const bool urgent = IsUrgent(stream, key);
    if (IsFull()) {
      // Two batches that are alive could take each other's place for ever. So memory is given up
      // for one batch at a time, unless it is a consumer's next one: that is not forgotten again.
      if (!urgent && std::exchange(forgot, true)) return std::nullopt;
      if (!ForgetFor(stream) && !urgent) return std::nullopt;
    }
    SharedBatch& batch = *stream.entries.at(key).batch;
    if (!SharedBatches::IsLeft(batch)) return Begin(stream, key, batch);
    // It is still alive after it was sent, and memory had no room for it before.
    batches_.TakeBack(batch);
    HandOut(batch, nullptr);
  }
}

BuildQueue::Task BuildQueue::Begin(const StreamState& stream, const Key& key, SharedBatch& batch) {
  for (const SharedBatch::Wanting& wanting : batch.wanted) {
    SetState(streams_.at(wanting.first), wanting.second, EntryOf(wanting), State::kBuilding);
  }
  Job& job = jobs_[stream.job];
  served_time_ = job.time;
  if (job.waits) {
    for (auto& [name, other] : jobs_) {
      if (!other.waits) other.time = std::max(other.time, served_time_);
    }
  }
  job.time += job.mean_seconds / job.weight;
  return Task{stream.id, stream.plan,    stream.job,       key.second,
              key.first, batch.id.range, job.mean_seconds, batches_.Begin(batch)};
}

std::optional<BuildQueue::Key> BuildQueue::LastToForget(const StreamState& stream) const {
  for (auto key = stream.built.rbegin(); key != stream.built.rend(); ++key) {
    if (IsUrgent(stream, *key)) return std::nullopt;
    const auto& wanted = stream.entries.at(*key).batch->wanted;
    const bool urgent = std::any_of(wanted.begin(), wanted.end(), [&](const auto& wanting) {
      return IsUrgent(streams_.at(wanting.first), wanting.second);
    });
    if (!urgent) return *key;
  }
  return std::nullopt;
}

BuildQueue::StreamState* BuildQueue::Richest() {
  StreamState* richest = nullptr;
  for (auto& [id, stream] : streams_) {
    if (richest != nullptr && stream.built_bytes <= richest->built_bytes) continue;
    if (LastToForget(stream)) richest = &stream;
  }
  return richest;
}

void BuildQueue::ForgetLast(StreamState& stream) {
  const Key last = *LastToForget(stream);
  const auto wanted = stream.entries.at(last).batch->wanted;
  for (const SharedBatch::Wanting& wanting : wanted) {
    Entry& entry = EntryOf(wanting);
    // The consumer may have withdrawn its room since the batch was built.
    SetState(streams_.at(wanting.first), wanting.second, entry,
             entry.room ? State::kPending : State::kNoRoom);
  }
}

bool BuildQueue::ForgetFor(const StreamState& wanting) {
  StreamState* richest = Richest();
  if (richest == nullptr) return false;
  if (richest != &wanting && richest->built_bytes <= wanting.built_bytes) return false;
  ForgetLast(*richest);
  return true;
}

void BuildQueue::SetMemoryBudget(std::uint64_t bytes) {
  batches_.set_budget(bytes);
  while (built_bytes() > bytes) {
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
  SharedBatch* const shared = batches_.End(task.build);
  if (shared == nullptr) return;
  if (shared->wanted.empty()) return batches_.EraseIfIdle(*shared);
  batches_.SetBuilt(*shared, std::move(batch), bytes);
  const SharedBatch::Wanting own{task.stream, {task.at, task.lease}};
  HandOut(*shared, &own);
}

std::map<StreamLease, Position> BuildQueue::GiveUp(const Task& task) {
  SharedBatch* const shared = batches_.End(task.build);
  if (shared == nullptr) return {};
  std::map<StreamLease, Position> given_up;
  for (const auto& [stream, key] : shared->wanted) {
    given_up.emplace(StreamLease{stream, key.second}, key.first);
  }
  if (given_up.empty()) batches_.EraseIfIdle(*shared);
  for (const auto& [of, at] : given_up) {
    StreamState& stream = streams_.at(of.stream);
    stream.given_up.insert(of.lease);
    EraseEntries(stream, of.lease);
  }
  return given_up;
}

std::set<StreamLease> BuildQueue::GiveUpPlan(const std::string& plan) {
  std::set<StreamLease> given_up;
  for (auto& [id, stream] : streams_) {
    if (stream.plan != plan) continue;
    EraseEntries(stream);
    for (const Number& lease : stream.leases) given_up.insert({id, lease});
    stream.given_up.insert(stream.leases.begin(), stream.leases.end());
  }
  batches_.ForgetPlan(plan);
  return given_up;
}

std::optional<BuildQueue::Outgoing> BuildQueue::TakeToSend(StreamId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.built.empty()) return std::nullopt;
  StreamState& stream = found->second;
  const Key key = *stream.built.begin();
  Entry& entry = stream.entries.at(key);
  const SharedBatch& batch = *entry.batch;
  if (!IsUrgent(stream, key) || IsMutant(Mutant::kNextNeedsCredit)) {
    if (batch.bytes > stream.credit - stream.credit_used) return std::nullopt;
    stream.credit_used += batch.bytes;
  }
  Outgoing out{Task{id, stream.plan, stream.job, key.second, key.first, batch.id.range},
               batch.batch,
               batch.bytes,
               stream.credit_used,
               ++stream.batches_sent,
               entry.shared};
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
         stream.entries.at(key).batch->bytes > stream.credit - stream.credit_used;
}

std::optional<BuildUnderWay> BuildQueue::Building(StreamId id) const {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return std::nullopt;
  for (const auto& [key, entry] : found->second.entries) {
    if (entry.state == State::kBuilding) return BuildUnderWay{key.first, entry.batch->build};
  }
  return std::nullopt;
}

std::uint64_t BuildQueue::leases() const {
  std::uint64_t n = 0;
  for (const auto& [id, stream] : streams_) n += stream.leases.size();
  return n;
}

}  // namespace millrace
