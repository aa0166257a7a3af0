// What the streams of a worker ask for, and how they meet in shared batches.

#include "server/worker/machine/build_queue.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/mutant.h"
#include "common/transport/convert/places.h"

namespace millrace {
namespace {

/// Checks that no position or range of the run's batches can overflow.
Status CheckRun(const v1::Run& run) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 62;
  if (run.steps() == 0 || run.steps() > BuildQueue::kMaxSteps) {
    return InvalidArgument("a run of " + std::to_string(run.steps()) + " steps: expected 1 to " +
                           std::to_string(BuildQueue::kMaxSteps));
  }
  if (run.stride() >= kLimit / BuildQueue::kMaxSteps || run.position() >= kLimit ||
      run.first_example() >= kLimit || (run.steps() > 1 && run.stride() == 0)) {
    return InvalidArgument("a run at position " + std::to_string(run.position()) + " with stride " +
                           std::to_string(run.stride()) + ": out of range");
  }
  return OkStatus();
}

Status CheckRuns(const v1::WantList& wants) {
  if (wants.runs_size() > BuildQueue::kMaxRuns) {
    return InvalidArgument("a want list of " + std::to_string(wants.runs_size()) +
                           " runs: expected at most " + std::to_string(BuildQueue::kMaxRuns));
  }
  std::uint64_t steps = 0;
  for (const v1::Run& run : wants.runs()) {
    MILLRACE_RETURN_IF_ERROR(CheckRun(run));
    steps += run.steps();
  }
  if (steps > BuildQueue::kMaxSteps) {
    return InvalidArgument("a want list of " + std::to_string(steps) + " steps: expected at most " +
                           std::to_string(BuildQueue::kMaxSteps));
  }
  return OkStatus();
}

}  // namespace

Status BuildQueue::SetWants(StreamId id, const v1::WantList& wants, Time now) {
  StreamState& stream = streams_.at(id);
  MILLRACE_RETURN_IF_ERROR(CheckRuns(wants));
  if (wants.credit_bytes() < stream.credit) {
    return InvalidArgument("credit went back from " + std::to_string(stream.credit) + " to " +
                           std::to_string(wants.credit_bytes()) + " bytes");
  }
  stream.credit = wants.credit_bytes();
  stream.next = FromProto(wants.next());
  stream.until.reset();
  if (wants.has_until()) stream.until = FromProto(wants.until());
  stream.asks = wants.asks();
  batches_.Moved(id, *stream.batches, stream.place, stream.next);

  ++stream.lists;
  std::map<Position, Status> refused;
  // Runs usually come in order of need, and so do their steps. So the entry behind the previous one
  // is a good hint of where the next one belongs.
  auto behind = stream.entries.begin();
  const Duration apart = std::chrono::microseconds(wants.step_us());
  for (const v1::Run& run : wants.runs()) {
    if (run.stride() > 0) stream.stride = run.stride();
    const Time needed = now + std::chrono::milliseconds(run.needed_ms());
    for (std::uint32_t k = 0; k < run.steps(); ++k) {
      const Position at = PositionOf(run, k);
      if (at < stream.next) continue;
      if (const auto known = stream.refused.find(at); known != stream.refused.end()) {
        refused.insert(*known);
        continue;
      }
      const auto it = stream.entries.try_emplace(behind, at);
      behind = std::next(it);
      it->second.needed = needed + k * apart;
      Ask(stream, at, {run.first_example() + k * run.stride(), run.examples()}, it->second);
    }
  }
  stream.refused = std::move(refused);

  for (auto it = stream.entries.begin(); it != stream.entries.end();) {
    if (it->second.list == stream.lists) {
      ++it;
      continue;
    }
    SetState(stream, it->first, it->second, State::kNone);
    it = stream.entries.erase(it);
  }
  return OkStatus();
}

void BuildQueue::Ask(StreamState& stream, Position at, ExampleRange range, Entry& entry) {
  entry.list = stream.lists;
  if (entry.range != range) SetState(stream, at, entry, State::kNone);
  entry.range = range;
  if (entry.state == State::kNone) SetState(stream, at, entry, State::kPending);
  if (entry.state == State::kPending) TakeOver(stream, at, entry);
}

void BuildQueue::EraseEntries(StreamState& stream) {
  for (auto& [at, entry] : stream.entries) SetState(stream, at, entry, State::kNone);
  stream.entries.clear();
}

void BuildQueue::SetState(StreamState& stream, Position at, Entry& entry, State state) {
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
    entry.batch = &batches_.Get(*stream.batches, {at.epoch, entry.range});
    entry.batch->wanted.emplace(stream.id, at);
    CountAsked(stream, at, true);
  }
  SharedBatch* const batch = entry.batch;
  if (entry.state == State::kPending) {
    stream.pending.erase(at);
    --job.pending;
    if (--batch->pending == 0) --pending_;
  }
  if (entry.state == State::kBuilding && state == State::kNone && stream.twins != nullptr) {
    batch->withdrawn.emplace(stream.place, at);
  }
  if (entry.state == State::kBuilt) LeaveBuilt(stream, at, *batch, state);
  if (state == State::kPending) {
    stream.pending.insert(at);
    ++job.pending;
    if (batch->pending++ == 0) ++pending_;
  }
  if (state == State::kBuilt) {
    stream.built.insert(at);
    stream.built_bytes += batch->bytes;
    ++batch->to_send;
  }
  // The consumer itself asks and withdraws. That a batch goes out it sees.
  if (state == State::kBuilding || state == State::kBuilt ||
      (state == State::kPending && entry.state != State::kNone)) {
    ++stream.changes;
  }
  stream.building += state == State::kBuilding ? 1 : 0;
  stream.building -= entry.state == State::kBuilding ? 1 : 0;
  entry.state = state;
  if (batch != nullptr && !wants(state)) {
    entry.batch = nullptr;
    CountAsked(stream, at, false);
    batch->wanted.erase({stream.id, at});
    batches_.EraseIfIdle(*batch);
  }
}

void BuildQueue::LeaveBuilt(StreamState& stream, Position at, SharedBatch& batch, State state) {
  stream.built.erase(at);
  stream.built_bytes -= batch.bytes;
  if (state == State::kSent) batches_.Sending(batch, stream.id);
  if (--batch.to_send > 0) return;  // another stream is still to be sent it
  if (state == State::kPending) return batches_.Drop(batch);
  batches_.Leave(batch, stream.place, at);
}

void BuildQueue::CountAsked(StreamState& stream, Position at, bool more) {
  if (stream.twins == nullptr) return;
  std::uint32_t& asked = stream.twins->asked[at];
  asked = more ? asked + 1 : asked - 1;
  if (asked == 0) stream.twins->asked.erase(at);
  ++stream.twins->changes;
  ++stream.own_twin_changes;
}

void BuildQueue::TakeOver(StreamState& stream, Position at, Entry& entry) {
  SharedBatch& batch = *entry.batch;
  if (batch.build != 0) return SetState(stream, at, entry, State::kBuilding);
  if (batch.to_send > 0) return HandOut(batch, nullptr);
  if (!SharedBatches::IsLeft(batch)) return;
  if (batch.kept_for == nullptr && !IsUrgent(stream, at) && !batches_.Fits(batch)) return;
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
    ready_.insert(stream.id);
    // A job is owed nothing later for what it took over.
    const bool pays = builder != nullptr && builder->job == stream.job;
    if (Job& job = jobs_[stream.job]; !pays) job.time = std::max(job.time, served_time_);
  }
}

}  // namespace millrace
