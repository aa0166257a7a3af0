#include "client/session/machine/ask_book.h"

#include <algorithm>

#include "common/base/mutant.h"

namespace millrace::client {

bool StepAsks::is_built() const {
  return std::any_of(all().begin(), all().end(), [](const Ask& ask) { return ask.built; });
}

Ask* StepAsks::Of(WorkerId worker) {
  const auto found = std::find_if(all().begin(), all().end(),
                                  [worker](const Ask& ask) { return ask.worker == worker; });
  return found == all().end() ? nullptr : &*found;
}

const Ask* StepAsks::Of(WorkerId worker) const { return const_cast<StepAsks*>(this)->Of(worker); }

bool AskBook::TakesSlot(const Ask& ask) {
  return (!ask.built || IsMutant(Mutant::kBuiltTakesSlots)) && !ask.shared;
}

void AskBook::Add(std::uint64_t step, const Ask& ask) {
  StepAsks& asks = steps_[step];
  asks.asks_[asks.count_++] = ask;
  OfWorker& worker = workers_[ask.worker];
  const bool joins = worker.steps.contains(step + 1) && !breaks_(step + 1);
  worker.runs += BeginsRun(worker, step) ? 1 : 0;
  worker.runs -= joins ? 1 : 0;
  worker.steps.insert(step);
  worker.open += TakesSlot(ask) ? 1 : 0;
  ++made_[static_cast<std::size_t>(ask.kind)];
  free_.Take(step);
}

void AskBook::Erase(std::uint64_t step, const Ask& ask) {
  const auto found = workers_.find(ask.worker);
  OfWorker& worker = found->second;
  const bool joined = worker.steps.contains(step + 1) && !breaks_(step + 1);
  worker.steps.erase(step);
  worker.runs -= BeginsRun(worker, step) ? 1 : 0;
  worker.runs += joined ? 1 : 0;
  worker.open -= TakesSlot(ask) ? 1 : 0;
  if (worker.steps.empty()) workers_.erase(found);
}

StepAsks AskBook::Arrived(std::uint64_t step) {
  free_.Take(step);
  const auto found = steps_.find(step);
  if (found == steps_.end()) return {};
  const StepAsks ended = found->second;
  for (const Ask& ask : ended.all()) Erase(step, ask);
  steps_.erase(found);
  return ended;
}

bool AskBook::TakeBack(std::uint64_t step, WorkerId worker) {
  const auto found = steps_.find(step);
  if (found == steps_.end()) return false;
  StepAsks& asks = found->second;
  const Ask* const ask = asks.Of(worker);
  if (ask == nullptr) return false;
  Erase(step, *ask);
  const auto place = asks.asks_.begin() + (ask - asks.asks_.data());
  std::copy(place + 1, asks.asks_.begin() + static_cast<std::ptrdiff_t>(asks.count_), place);
  if (--asks.count_ > 0) return true;
  steps_.erase(found);
  free_.Free(step);
  return true;
}

std::vector<std::uint64_t> AskBook::TakeBackAll(WorkerId worker) {
  const OfWorker& asked = Of(worker);
  const std::vector<std::uint64_t> steps(asked.steps.begin(), asked.steps.end());
  for (const std::uint64_t step : steps) TakeBack(step, worker);
  return steps;
}

void AskBook::Tell(WorkerId worker, const std::set<std::uint64_t>& built,
                   const std::set<std::uint64_t>& twins) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  for (const std::uint64_t step : found->second.steps) {
    Ask& ask = *steps_.find(step)->second.Of(worker);
    found->second.open -= TakesSlot(ask) ? 1 : 0;
    ask.built = built.contains(step);
    // The twin may have taken its ask back.
    ask.shared = ask.shared && (ask.built || twins.contains(step));
    found->second.open += TakesSlot(ask) ? 1 : 0;
  }
}

void AskBook::Comes(std::uint64_t step, WorkerId worker) {
  const auto found = steps_.find(step);
  Ask* const ask = found == steps_.end() ? nullptr : found->second.Of(worker);
  if (ask == nullptr || ask->built) return;
  OfWorker& of = workers_.find(worker)->second;
  of.open -= TakesSlot(*ask) ? 1 : 0;
  ask->built = true;
  of.open += TakesSlot(*ask) ? 1 : 0;
}

void AskBook::StoodStill(Duration more) {
  for (auto& [step, asks] : steps_) {
    for (Ask& ask : asks.all()) ask.due = ask.due + more;
  }
}

const StepAsks* AskBook::Find(std::uint64_t step) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? nullptr : &found->second;
}

const AskBook::OfWorker& AskBook::Of(WorkerId worker) const {
  static const OfWorker none;
  const auto found = workers_.find(worker);
  return found == workers_.end() ? none : found->second;
}

}  // namespace millrace::client
