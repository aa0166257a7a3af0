// What the build queue says of a stream: which of its steps are built and being built, and which
// its twins have here.

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/mutant.h"
#include "server/worker/machine/build_queue.h"
#include "server/worker/machine/step_runs.h"

namespace millrace {

std::uint64_t BuildQueue::BatchesSent(StreamId id) const {
  const auto found = streams_.find(id);
  return found == streams_.end() ? 0 : found->second.batches_sent;
}

bool BuildQueue::HasPending(StreamId id) const {
  const auto found = streams_.find(id);
  return found != streams_.end() && (!found->second.pending.empty() || found->second.building > 0);
}

std::vector<JobTurn> BuildQueue::Turns(StreamId id) const {
  const auto asking = streams_.find(id);
  if (asking == streams_.end()) return {};
  const auto turn_of = [](const Job& job) {
    return JobTurn{job.weight, job.time, job.mean_seconds, job.pending};
  };
  const std::string& own = asking->second.job;
  std::vector<JobTurn> turns = {turn_of(jobs_.at(own))};
  for (const auto& [name, job] : jobs_) {
    if (job.active > 0 && name != own) turns.push_back(turn_of(job));
  }
  return turns;
}

std::uint64_t BuildQueue::Owed(StreamId id) const {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return 0;
  const StreamState& stream = found->second;
  const auto owed = std::count_if(stream.entries.begin(), stream.entries.end(), [&](const auto& entry) {
    const State state = entry.second.state;
    return state == State::kBuilding || state == State::kBuilt ||
           (state == State::kPending && IsUrgent(stream, entry.first)) ||
           (state == State::kSent && IsMutant(Mutant::kDrainWaitsForHeld));
  });
  return static_cast<std::uint64_t>(owed);
}

std::vector<v1::Run> BuildQueue::BuiltRuns(StreamId id) const {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return {};
  StepRuns runs(found->second.stride, kMaxRuns);
  for (const auto& [at, entry] : found->second.entries) {
    if (entry.state != State::kBuilt && entry.state != State::kSent) continue;
    if (!runs.Add(at)) break;
  }
  return runs.Take();
}

std::vector<v1::Run> BuildQueue::TwinRuns(StreamId id) const {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.twins == nullptr) return {};
  const StreamState& stream = found->second;
  const Twins& twins = *stream.twins;
  const auto by_twin = [&](const auto& asked) {
    const auto own = stream.entries.find(asked.first);
    const bool counts_own = own != stream.entries.end() && own->second.batch != nullptr;
    return asked.second > (counts_own ? 1u : 0u);
  };
  StepRuns runs(stream.stride, kMaxRuns);
  auto asked = twins.asked.lower_bound(stream.next);
  auto kept = twins.kept.lower_bound(stream.next);
  while (asked != twins.asked.end() || kept != twins.kept.end()) {
    const bool from_kept =
        asked == twins.asked.end() || (kept != twins.kept.end() && kept->first <= asked->first);
    const Position at = from_kept ? kept->first : asked->first;
    bool here = false;
    if (from_kept) here = !(kept++)->second->sent_to.contains(id);
    if (asked != twins.asked.end() && asked->first == at) here = by_twin(*asked++) || here;
    if (here && !runs.Add(at)) break;
  }
  return runs.Take();
}

std::vector<BuildUnderWay> BuildQueue::Building(StreamId id) const {
  std::vector<BuildUnderWay> building;
  const auto found = streams_.find(id);
  if (found == streams_.end()) return building;
  for (const auto& [at, entry] : found->second.entries) {
    if (entry.state == State::kBuilding) building.push_back({at, entry.batch->build});
  }
  return building;
}

bool BuildQueue::IsAwaited(const Task& task) const {
  const SharedBatch* const batch = batches_.Find(task.build);
  if (batch == nullptr) return false;
  return std::any_of(batch->wanted.begin(), batch->wanted.end(), [this](const auto& wanting) {
    const StreamState& stream = streams_.at(wanting.first);
    const auto needed = Needed(stream);
    return needed != stream.entries.end() && needed->first == wanting.second;
  });
}

bool BuildQueue::OwesOther(const Task& task, Time now) {
  const std::optional<SharedBatch::Wanting> next = Choose(now);
  if (!next) return false;
  const std::string& job = streams_.at(next->first).job;
  const auto own = jobs_.find(task.job);
  return job != task.job && own != jobs_.end() && jobs_.at(job).time < own->second.time;
}

bool BuildQueue::MayLeaveFor(const Task& own, const Task& other) const {
  const auto of_own = jobs_.find(own.job);
  const auto of_other = jobs_.find(other.job);
  if (own.job == other.job || of_own == jobs_.end() || of_other == jobs_.end()) return true;
  return of_own->second.time >= of_other->second.time;
}

std::uint64_t BuildQueue::Changes(StreamId id) const {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return 0;
  const StreamState& stream = found->second;
  const std::uint64_t of_twins = stream.twins == nullptr ? 0 : stream.twins->changes;
  return stream.changes + of_twins - stream.own_twin_changes;
}

}  // namespace millrace
