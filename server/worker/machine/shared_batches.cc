#include "server/worker/machine/shared_batches.h"

#include <algorithm>
#include <utility>

#include "common/base/mutant.h"

namespace millrace {

// --- Streams -------------------------------------------------------------------------------------

PlanBatches& SharedBatches::AddStream(BatchStreamId stream, const std::string& plan,
                                      RankPlace place) {
  const std::string name = IsMutant(Mutant::kNothingShared) ? plan + std::to_string(stream) : plan;
  PlanBatches& batches = plans_[name];
  batches.name = name;
  ++batches.streams;
  if (place.world_size > 0) batches.twins[place].next[stream] = Position{};
  return batches;
}

void SharedBatches::RemoveStream(BatchStreamId stream, PlanBatches& plan, RankPlace place) {
  --plan.streams;
  if (const auto twins = plan.twins.find(place); twins != plan.twins.end()) {
    twins->second.next.erase(stream);
    ForgetPassed(twins->second);
    if (twins->second.next.empty()) plan.twins.erase(twins);
  }
  EraseIfUnused(plan);
}

void SharedBatches::Moved(BatchStreamId stream, PlanBatches& plan, RankPlace place, Position next) {
  const auto twins = plan.twins.find(place);
  if (twins == plan.twins.end()) return;
  twins->second.next[stream] = next;
  ForgetPassed(twins->second);
}

void SharedBatches::ForgetPlan(const std::string& plan) {
  const auto found = plans_.find(plan);
  if (found == plans_.end()) return;
  PlanBatches& batches = found->second;
  for (auto& [place, twins] : batches.twins) {
    kept_bytes_ -= twins.kept_bytes;
    twins.kept_bytes = 0;
    twins.kept.clear();
    ++twins.changes;
  }
  std::erase_if(building_, [&](const auto& build) { return build.second->plan == &batches; });
  batches.batches.clear();
  batches.sent.clear();
  batches.builds = 0;
  EraseIfUnused(batches);
}

void SharedBatches::EraseIfUnused(PlanBatches& plan) {
  if (plan.streams == 0 && plan.builds == 0) plans_.erase(std::string(plan.name));
}

// --- Batches -------------------------------------------------------------------------------------

SharedBatch& SharedBatches::Get(PlanBatches& plan, const BatchId& id) {
  const auto [entry, is_new] = plan.batches.try_emplace(id);
  if (is_new) {
    entry->second.id = id;
    entry->second.plan = &plan;
  }
  return entry->second;
}

void SharedBatches::EraseIfIdle(SharedBatch& batch) {
  if (!batch.wanted.empty() || batch.build != 0 || IsLeft(batch)) return;
  batch.plan->batches.erase(BatchId(batch.id));
}

std::uint64_t SharedBatches::Begin(SharedBatch& batch, BatchStreamId stream) {
  ++batch.plan->builds;
  batch.built_for = stream;
  batch.withdrawn.reset();
  batch.build = ++begun_;
  building_.emplace(batch.build, &batch);
  return batch.build;
}

SharedBatch* SharedBatches::End(std::uint64_t build) {
  const auto found = building_.find(build);
  if (found == building_.end()) return nullptr;
  SharedBatch& batch = *found->second;
  PlanBatches& plan = *batch.plan;
  building_.erase(found);
  batch.build = 0;
  --plan.builds;
  if (plan.streams > 0) return &batch;
  EraseIfIdle(batch);
  EraseIfUnused(plan);
  return nullptr;
}

void SharedBatches::SetBuilt(SharedBatch& batch, std::shared_ptr<const BuiltBatch> built,
                             std::uint64_t bytes) {
  batch.batch = std::move(built);
  batch.bytes = bytes;
  built_bytes_ += bytes;
  FitKept();
}

void SharedBatches::TakeBack(SharedBatch& batch) {
  std::shared_ptr<const BuiltBatch> built =
      batch.kept_for != nullptr ? batch.batch : batch.sent.lock();
  if (batch.kept_for != nullptr) Unkeep(batch);
  SetBuilt(batch, std::move(built), batch.bytes);
}

void SharedBatches::Sending(SharedBatch& batch, BatchStreamId stream) {
  batch.sent_to.insert(stream);
  batch.sent = batch.batch;
  if (!batch.swept) batch.plan->sent.push_back(batch.id);
  batch.swept = true;
  Sweep(*batch.plan);
}

void SharedBatches::Leave(SharedBatch& batch, RankPlace place, Position at) {
  built_bytes_ -= batch.bytes;
  const auto twins = batch.plan->twins.find(place);
  if (twins != batch.plan->twins.end() && IsAwaited(batch, twins->second, at)) {
    Keep(batch, twins->second, at);
  } else {
    batch.batch.reset();
    EraseIfIdle(batch);
  }
}

void SharedBatches::Drop(SharedBatch& batch) {
  built_bytes_ -= batch.bytes;
  batch.batch.reset();
}

std::size_t SharedBatches::remembered() const {
  std::size_t n = 0;
  for (const auto& [name, plan] : plans_) n += plan.batches.size();
  return n;
}

void SharedBatches::Sweep(PlanBatches& plan) {
  // Two are looked at for each one that is added. So the list does not grow beyond those that are
  // alive.
  for (std::size_t looks = std::min<std::size_t>(2, plan.sent.size()); looks > 0; --looks) {
    const BatchId id = plan.sent.front();
    plan.sent.pop_front();
    const auto found = plan.batches.find(id);
    if (found == plan.batches.end()) continue;
    if (IsLeft(found->second)) {
      plan.sent.push_back(id);
      continue;
    }
    found->second.swept = false;
    EraseIfIdle(found->second);
  }
}

// --- What is kept for twins ----------------------------------------------------------------------

bool SharedBatches::IsAwaited(const SharedBatch& batch, const Twins& twins, Position at) {
  return std::any_of(twins.next.begin(), twins.next.end(), [&](const auto& twin) {
    return twin.second <= at && !batch.sent_to.contains(twin.first);
  });
}

void SharedBatches::Keep(SharedBatch& batch, Twins& twins, Position at) {
  if (!twins.kept.try_emplace(at, &batch).second) {
    batch.batch.reset();
    return EraseIfIdle(batch);
  }
  ++twins.changes;
  batch.kept_for = &twins;
  batch.kept_at = at;
  twins.kept_bytes += batch.bytes;
  kept_bytes_ += batch.bytes;
  FitKept();
}

void SharedBatches::Unkeep(SharedBatch& batch) {
  batch.kept_for->kept_bytes -= batch.bytes;
  kept_bytes_ -= batch.bytes;
  batch.kept_for->kept.erase(batch.kept_at);
  ++batch.kept_for->changes;
  batch.kept_for = nullptr;
  batch.batch.reset();
}

void SharedBatches::FitKept() {
  while (kept_bytes_ > 0 && built_bytes_ + kept_bytes_ > budget_) {
    Twins* most = nullptr;
    for (auto& [fingerprint, plan] : plans_) {
      for (auto& [place, twins] : plan.twins) {
        if (most == nullptr || twins.kept_bytes > most->kept_bytes) most = &twins;
      }
    }
    SharedBatch& last = *most->kept.rbegin()->second;
    Unkeep(last);
    EraseIfIdle(last);
  }
}

void SharedBatches::ForgetPassed(Twins& twins) {
  while (!twins.kept.empty()) {
    const auto& [at, first] = *twins.kept.begin();
    if (IsAwaited(*first, twins, at)) return;
    SharedBatch& passed = *first;
    Unkeep(passed);
    EraseIfIdle(passed);
  }
}

void SharedBatches::set_budget(std::uint64_t bytes) {
  budget_ = bytes;
  FitKept();
}

}  // namespace millrace
