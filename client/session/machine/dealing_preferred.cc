// Members that are to have a step before all others: workers that have it for a twin, and homes of
// windows.

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "client/session/machine/dealing.h"
#include "common/base/hash.h"
#include "common/base/mutant.h"

namespace millrace::client {
namespace {

/// A home has a step here at most so much later than the fastest member, if that is too late.
constexpr double kHomeLater = 1;

}  // namespace

// --- Twins ---------------------------------------------------------------------------------------

Dealing::Member* Dealing::TwinOf(std::uint64_t step) {
  return Fastest([&](const Member& m) {
    return m.link->stream.word->twins.contains(step) && MayBuild(m, step) && !m.trial_used &&
           HasPlace(m);
  });
}

Dealing::Member* Dealing::TwinsChoice(std::uint64_t step, const Member& fastest) {
  const double latest = fastest.finish + median_seconds_.value_or(kGuessedSeconds) / 2;
  Member* best = nullptr;
  std::uint64_t highest = 0;
  for (Member& member : members_) {
    if (!HasSlot(member) || !MayBuild(member, step) || member.finish > latest) continue;
    const std::uint64_t rank = RankOf(step, member.link->where.id);
    if (best != nullptr && rank <= highest) continue;
    best = &member;
    highest = rank;
  }
  return best;
}

std::uint64_t Dealing::RankOf(std::uint64_t step, WorkerId worker) const {
  const Position at = attach_.steps().At(step);
  const std::string text =
      fmt::format("{}/{}/{}", at.epoch, attach_.steps().arithmetic().Step(at), worker.ToString());
  return Xxh3_64(std::as_bytes(std::span(text)));
}

void Dealing::MoveToTwins(WorkerLink& link, Time now) {
  const std::set<std::uint64_t>& twins = link.stream.word->twins;
  if (twins.empty() || !link.place || !link.usable(now) || link.on_trial() ||
      IsMutant(Mutant::kTwinsIgnored)) {
    return;
  }
  for (const std::uint64_t step : twins) {
    if (asks_.Of(link.where.id).runs >= kMostRuns) return;
    const StepAsks* const asks = asks_.Find(step);
    if (asks == nullptr || asks->all().size() != 1 || link.tried.contains(step)) continue;
    const Ask ask = asks->all().front();
    if (ask.worker == link.where.id || ask.shared || ask.built) continue;
    WorkerLink& other = *workers_.Find(ask.worker);
    if (other.stream.spoke()) {
      const auto& building = other.stream.word->building;
      const bool begun = std::any_of(building.begin(), building.end(),
                                     [step](const auto& build) { return build.step == step; });
      if (begun) continue;
    }
    // If both twins moved, each would go to where the other one was.
    const bool moves = RankOf(step, link.where.id) > RankOf(step, ask.worker);
    if (!moves && !IsMutant(Mutant::kBothTwinsMove)) continue;
    asks_.TakeBack(step, ask.worker);
    asks_.Add(step, {.worker = link.where.id,
                     .asked = now,
                     .due = std::max(ask.due, now),
                     .kind = AskKind::kMoved,
                     .known = ask.known,
                     .shared = true});
    other.stream.stale = other.stream.urgent = true;
    link.stream.stale = link.stream.urgent = true;
  }
}

// --- Homes of windows ----------------------------------------------------------------------------

void Dealing::FindHomes() {
  homes_.SetUnits(attach_.admission()->spec.window_units());
  if (!homes_.any()) return;
  std::vector<WorkerId> members;
  members.reserve(members_.size());
  for (const Member& member : members_) members.push_back(member.link->where.id);
  homes_.SetMembers(std::move(members));
}

EpochWindow Dealing::WindowOf(std::uint64_t step) const {
  return homes_.Of(attach_.steps().At(step).epoch, attach_.steps().Examples(step).first);
}

Dealing::Member* Dealing::HomeOf(std::uint64_t step) {
  const WorkerId id = homes_.HomeOf(WindowOf(step));
  Member* const home = Fastest([id](const Member& m) { return m.link->where.id == id; });
  if (!MayBuild(*home, step) || home->trial_used || !HasPlace(*home)) return nullptr;
  const Member* const fastest = Fastest([step](const Member& m) { return MayBuild(m, step); });
  // All ranks ask a home at the same time, so it is late for each of them, and is so once: its lag
  // does not grow with the steps that it has.
  const double builds = static_cast<double>(home->open + home->left + 1) / home->threads;
  const double finish = std::min(
      home->finish, home->link->stream.round_trip + home->lag + home->batch_seconds * builds);
  return finish <= std::max(NeededIn(step), fastest->finish + kHomeLater) ? home : nullptr;
}

bool Dealing::GiveHome(std::uint64_t step) {
  if (!homes_.any() || (has_twins_ && TwinOf(step) != nullptr)) return false;
  Member* const home = HomeOf(step);
  if (home == nullptr) return false;
  if (HasSlot(*home) || step == stock_.next()) {
    Give(*home, step);
  } else {
    ++home->left;
    ++left_;
    Estimate(*home);
  }
  return true;
}

}  // namespace millrace::client
