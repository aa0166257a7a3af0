#include "server/worker/machine/build_queue.h"

#include <algorithm>
#include <cmath>
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
  const auto twins = stream.batches->twins.find(place);
  stream.twins = twins == stream.batches->twins.end() ? nullptr : &twins->second;
  if (auto gone = gone_.extract(job)) {
    jobs_.insert(std::move(gone));
  } else {
    jobs_.try_emplace(job);
  }
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
  if (!last) return;
  auto gone = jobs_.extract(job);
  if (gone.mapped().time > served_time_) {
    gone.mapped().waits = false;
    gone_.insert(std::move(gone));
  }
}

bool BuildQueue::MayBuild(const StreamState& stream) const {
  return !IsFull() ||
         stream.built_bytes < memory_budget() / std::max<std::size_t>(1, streams_.size());
}

std::map<Position, BuildQueue::Entry>::const_iterator BuildQueue::Needed(
    const StreamState& stream) {
  const auto needed = stream.entries.begin();
  if (needed == stream.entries.end()) return needed;
  if (!IsUrgent(stream, needed->first)) return stream.entries.end();
  // If the next batch was sent, the consumer may have taken it already. Its want list that says so
  // is still on its way.
  return needed->second.state == State::kSent ? std::next(needed) : needed;
}

bool BuildQueue::Waits(const StreamState& stream) {
  const auto needed = Needed(stream);
  if (needed == stream.entries.end()) return false;
  const State state = needed->second.state;
  return state == State::kPending || state == State::kBuilding;
}

std::optional<SharedBatch::Wanting> BuildQueue::Choose(Time now) {
  // The lowest rank is built: what is needed within two builds of any job before what is needed
  // later, so that a loop that is ahead of its need does not keep others from theirs. Of what is
  // needed soon, batches of consumers that wait go first, then it goes by the job's time and by
  // position. Memory cannot hold back an urgent batch.
  using Rank = std::tuple<double, bool, double, Position>;
  double longest = 0;
  for (const auto& [name, job] : jobs_) longest = std::max(longest, job.mean_seconds);
  const auto builds_until = [&](const Entry& entry) {
    if (longest == 0) return 0.0;
    return std::max(0.0, std::floor(ToSeconds(entry.needed - now) / longest) - 1);
  };
  std::optional<Rank> best;
  StreamId best_stream = 0;
  for (auto& [name, job] : jobs_) job.waits = false;
  for (auto& [id, stream] : streams_) {
    // The next batch of a consumer that asks for more is rarely here, but at one of its other
    // workers. So it counts as one that waits.
    const bool waits = stream.asks || Waits(stream);
    Job& job = jobs_[stream.job];
    if (waits) job.waits = true;
    if (stream.pending.empty()) continue;
    const Position at = *stream.pending.begin();
    const bool urgent = IsUrgent(stream, at);
    if (!urgent && (draining_ || !MayBuild(stream))) continue;
    const bool first = urgent || (waits && !IsFull());
    const double later = urgent ? 0 : builds_until(stream.entries.at(at));
    const Rank rank{later, !first, job.time, at};
    if (!best || rank < *best) {
      best = rank;
      best_stream = id;
    }
  }
  if (!best) return std::nullopt;
  return SharedBatch::Wanting{best_stream, std::get<Position>(*best)};
}

bool BuildQueue::anyone_waits() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job.second.waits; });
}

std::optional<BuildQueue::Task> BuildQueue::Next(Time now) {
  for (bool forgot = false;;) {
    const std::optional<SharedBatch::Wanting> chosen = Choose(now);
    if (!chosen) return std::nullopt;
    StreamState& stream = streams_.at(chosen->first);
    const Position at = chosen->second;
    const bool urgent = IsUrgent(stream, at);
    if (IsFull()) {
      // Two batches that are alive could take each other's place for ever. So memory is given up
      // for one batch at a time, unless it is a consumer's next one: that is not forgotten again.
      if (!urgent && std::exchange(forgot, true)) return std::nullopt;
      if (!ForgetFor(stream) && !urgent) return std::nullopt;
    }
    SharedBatch& batch = *stream.entries.at(at).batch;
    if (!SharedBatches::IsLeft(batch)) return Begin(stream, at, batch);
    // It is still alive after it was sent, and memory had no room for it before.
    batches_.TakeBack(batch);
    HandOut(batch, nullptr);
  }
}

BuildQueue::Task BuildQueue::Begin(const StreamState& stream, Position at, SharedBatch& batch) {
  for (const SharedBatch::Wanting& wanting : batch.wanted) {
    SetState(streams_.at(wanting.first), wanting.second, EntryOf(wanting), State::kBuilding);
  }
  Job& job = jobs_[stream.job];
  served_time_ = std::max(served_time_, job.time);
  std::erase_if(gone_, [this](const auto& gone) { return gone.second.time <= served_time_; });
  if (job.waits) {
    for (auto& [name, other] : jobs_) {
      if (!other.waits) other.time = std::max(other.time, served_time_);
    }
  }
  job.time += job.mean_seconds / job.weight;
  return Task{stream.id,
              stream.plan,
              stream.job,
              at,
              batch.id.range,
              job.mean_seconds,
              batches_.Begin(batch, stream.id)};
}

std::optional<Position> BuildQueue::LastToForget(const StreamState& stream) const {
  for (auto at = stream.built.rbegin(); at != stream.built.rend(); ++at) {
    if (IsUrgent(stream, *at)) return std::nullopt;
    const auto& wanted = stream.entries.at(*at).batch->wanted;
    const bool urgent = std::any_of(wanted.begin(), wanted.end(), [&](const auto& wanting) {
      return IsUrgent(streams_.at(wanting.first), wanting.second);
    });
    if (!urgent) return *at;
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
  const Position last = *LastToForget(stream);
  const auto wanted = stream.entries.at(last).batch->wanted;
  for (const SharedBatch::Wanting& wanting : wanted) {
    SetState(streams_.at(wanting.first), wanting.second, EntryOf(wanting), State::kPending);
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
    double weights = 0;  // of the jobs that have something to build
    for (const auto& [name, other] : jobs_) weights += other.active > 0 ? other.weight : 0;
    served_time_ += seconds / std::max(weights, job.weight);
    job.mean_seconds = job.mean_seconds == 0 ? seconds : 0.9 * job.mean_seconds + 0.1 * seconds;
  }
  SharedBatch* const shared = batches_.End(task.build);
  if (shared == nullptr) return;
  if (shared->wanted.empty() && !shared->withdrawn) return batches_.EraseIfIdle(*shared);
  batches_.SetBuilt(*shared, std::move(batch), bytes);
  if (shared->wanted.empty()) {
    const auto [place, at] = *shared->withdrawn;
    return batches_.Leave(*shared, place, at);
  }
  const SharedBatch::Wanting own{task.stream, task.at};
  HandOut(*shared, &own);
}

std::map<BuildQueue::StreamId, Position> BuildQueue::GiveUp(const Task& task,
                                                              const Status& why) {
  SharedBatch* const shared = batches_.End(task.build);
  if (shared == nullptr) return {};
  const std::set<SharedBatch::Wanting> wanted = shared->wanted;
  if (wanted.empty()) batches_.EraseIfIdle(*shared);
  std::map<StreamId, Position> refused;
  for (const auto& wanting : wanted) {
    StreamState& stream = streams_.at(wanting.first);
    SetState(stream, wanting.second, EntryOf(wanting), State::kNone);
    stream.entries.erase(wanting.second);
    stream.refused.insert_or_assign(wanting.second, why);
    refused.insert(wanting);
  }
  return refused;
}

std::set<BuildQueue::StreamId> BuildQueue::GiveUpPlan(const std::string& plan) {
  std::set<StreamId> asked;
  for (auto& [id, stream] : streams_) {
    if (stream.plan != plan) continue;
    if (!stream.entries.empty()) asked.insert(id);
    EraseEntries(stream);
  }
  batches_.ForgetPlan(plan);
  return asked;
}

bool BuildQueue::MaySend(const StreamState& stream, Position at, std::uint64_t bytes) {
  if (IsUrgent(stream, at) && !IsMutant(Mutant::kNextNeedsCredit)) return true;
  if (stream.until && at >= *stream.until && !IsMutant(Mutant::kUntilIgnored)) return false;
  return bytes <= stream.credit - stream.credit_used;
}

std::optional<BuildQueue::Outgoing> BuildQueue::TakeToSend(StreamId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.built.empty()) return std::nullopt;
  StreamState& stream = found->second;
  const Position at = *stream.built.begin();
  Entry& entry = stream.entries.at(at);
  const SharedBatch& batch = *entry.batch;
  if (!MaySend(stream, at, batch.bytes)) return std::nullopt;
  if (!IsUrgent(stream, at) || IsMutant(Mutant::kNextNeedsCredit)) {
    stream.credit_used += batch.bytes;
  }
  Outgoing out{Task{id, stream.plan, stream.job, at, batch.id.range},
               batch.batch,
               batch.bytes,
               stream.credit_used,
               ++stream.batches_sent,
               batch.built_for != id};
  SetState(stream, at, entry, State::kSent);
  return out;
}

bool BuildQueue::BlockedByCredit(StreamId id) const {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.built.empty()) return false;
  const StreamState& stream = found->second;
  const Position at = *stream.built.begin();
  return !MaySend(stream, at, stream.entries.at(at).batch->bytes);
}

}  // namespace millrace
