#include "client/session/machine/dealing.h"

#include <algorithm>
#include <cmath>

#include "common/base/mutant.h"
#include "common/base/refusal.h"

namespace millrace::client {
namespace {

/// A loss shows after 3 s of silence, so steps that are needed until then are asked for before. If
/// a build takes longer than this, its time counts: workers become free by whole builds.
constexpr double kReachSeconds = 4;
/// Before the loop's first step, so many are asked for of each thread, or of each member that has
/// less than one. Each of a thousand loops that begin at once is told that it has a whole worker.
constexpr double kFirstStepsOfThread = 16;
/// Work that is dealt at a time.
constexpr double kDealSeconds = 0.02;
constexpr double kMostDealt = 64;
constexpr double kLeastThreads = 0.02;
/// As workers count them.
constexpr double kSlotsOfThread = 2;
/// At one dealing, so many steps are left to homes of windows that have no slot.
constexpr std::uint64_t kMostLeft = 256;
/// A step that is late by less is not copied.
constexpr double kLate = 0.5;
/// Copies of other steps than the next one are at most this part of all asks.
constexpr std::uint64_t kAsksForACopy = 20;
/// If copies seldom win, there is one for so many asks.
constexpr std::uint64_t kAsksForASuspectCopy = 80;
/// If the next step is late by so much, its worker is taken to be stuck.
constexpr double kStuckSeconds = 4;
constexpr double kStuckBatches = 8;

Duration ToDuration(double seconds) {
  constexpr double kLongest = 1e9;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(seconds, kLongest)));
}

}  // namespace

// --- Members -------------------------------------------------------------------------------------

void Dealing::Estimate(Member& member) const {
  const WorkerWord& word = *member.link->stream.word;
  if (word.turn && member.threads < 1) {
    // It builds these one after the other once the other jobs have had their turn, and not a part
    // of each of them all the time.
    const std::uint64_t begun = std::min<std::uint64_t>(member.open, word.building.size());
    const double waits = std::max(0.0, ToSeconds(*word.turn - now_));
    const auto builds = static_cast<double>(member.open + member.left - begun + 1);
    member.finish = member.link->stream.round_trip + member.lag + waits +
                    (member.batch_seconds + member.lag) * builds;
    return;
  }
  const double split = std::max(1.0, word.split);
  const auto builds = static_cast<double>(member.open + member.left + 1);
  const double turns = std::max(1 / split, builds / member.threads);
  member.finish =
      member.link->stream.round_trip + member.lag + (member.batch_seconds + member.lag) * turns;
}

double Dealing::Soonest(const Member& member) const {
  const WorkerWord& word = *member.link->stream.word;
  const double trip = member.link->stream.round_trip;
  if (word.turn && member.threads < 1) {
    return trip + std::max(0.0, ToSeconds(*word.turn - now_)) + member.batch_seconds;
  }
  return trip + member.batch_seconds * std::max(1 / std::max(1.0, word.split), 1 / member.threads);
}

void Dealing::FindMedian() {
  std::vector<double> known;
  known.reserve(workers_.connected().size());
  for (const WorkerLink* link : workers_.connected()) {
    if (link->stream.spoke() && link->stream.word->batch_seconds > 0) {
      known.push_back(link->stream.word->batch_seconds);
    }
  }
  median_seconds_.reset();
  if (known.empty()) return;
  const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
  std::nth_element(known.begin(), middle, known.end());
  median_seconds_ = *middle;
}

void Dealing::FindMembers() {
  members_.clear();
  soonest_ = 0;
  has_twins_ = false;
  for (WorkerLink* link : workers_.connected()) {
    if (IsMutant(Mutant::kAsksBeforeFirstWord) && !link->stream.spoke()) {
      link->stream.word = WorkerWord{.slots = 1};
    }
    if (!link->stream.spoke() || !link->usable(now_)) continue;
    const WorkerWord& word = *link->stream.word;
    if (word.slots == 0) continue;
    const bool own = link->where.host_id == context_.options.hello.host_id();
    if (IsMutant(Mutant::kOwnHostOnly) && !own && !members_.empty()) continue;
    Member& member = members_.emplace_back();
    member.link = link;
    member.threads = std::max(kLeastThreads, word.threads);
    member.known = word.batch_seconds > 0;
    member.batch_seconds = member.known ? word.batch_seconds
                           : IsMutant(Mutant::kUnknownTimeIsZero)
                               ? 0
                               : median_seconds_.value_or(kGuessedSeconds);
    member.lag = ToSeconds(link->stream.lag);
    const AskBook::OfWorker& asked = asks_.Of(link->where.id);
    member.open = asked.open;
    std::uint64_t slots = word.slots;
    if (!member.known) {
      slots = std::min(slots, static_cast<std::uint64_t>(std::ceil(member.threads)));
    }
    member.trial_used = link->on_trial() && !asked.steps.empty();
    if (link->on_trial()) slots = member.trial_used ? 0 : 1;
    if (asked.runs >= kMostRuns - kSpareRuns || asked.steps.size() >= kMostSteps) slots = 0;
    member.free = slots - std::min(slots, member.open);
    if (member.known) {
      const double most = std::min(kMostDealt, static_cast<double>(slots) / 4);
      const double deal = kDealSeconds * member.threads / word.batch_seconds;
      member.deal = static_cast<std::uint64_t>(std::max(1.0, std::min(deal, most)));
    }
    Estimate(member);
    soonest_ = members_.size() == 1 ? Soonest(member) : std::min(soonest_, Soonest(member));
    has_twins_ = has_twins_ || (!word.twins.empty() && !IsMutant(Mutant::kTwinsIgnored));
  }
  // A worker that many consumers share gives each a slot at least. Taken at all members, these
  // would be far more than the consumer's share of them, and bind steps long before they can be
  // built.
  double shares = 0;
  double first = 0;
  std::uint64_t open = 0;
  for (const Member& member : members_) {
    first += kFirstStepsOfThread * std::max(1.0, member.threads);
    const std::uint64_t slots = member.free + member.open;
    if (!member.known) {
      shares += std::min(static_cast<double>(slots), member.threads);
    } else if (slots > 1) {
      shares += static_cast<double>(slots);
    } else {
      shares += std::min(1.0, kSlotsOfThread * member.threads);
    }
    open += member.open;
  }
  const auto most = static_cast<std::uint64_t>(std::max(1.0, std::ceil(shares)));
  first_reach_ = static_cast<std::uint64_t>(std::min(first, static_cast<double>(kReach)));
  free_slots_ = most - std::min(most, open);
  if (free_slots_ == 0) TakeSlots();
}

void Dealing::TakeSlots() {
  for (Member& member : members_) member.free = 0;
}

// --- Steps ---------------------------------------------------------------------------------------

bool Dealing::InReach(std::uint64_t step) const {
  if (step >= attach_.steps().end() || step >= stock_.next() + kReach) return false;
  if (step < stock_.next() + stock_.window()) return true;
  if (!pace_.known() && step >= stock_.next() + first_reach_) return false;
  return pace_.UsuallyNeededIn(step - stock_.next(), now_) <=
         soonest_ + std::max(kReachSeconds, median_seconds_.value_or(0));
}

bool Dealing::InTime(const Member& member, std::uint64_t step) const {
  if (!median_seconds_) return true;
  return member.finish <= NeededIn(step) / 2;
}

void Dealing::Deal(Time now) {
  now_ = now;
  wants_more_ = false;
  left_ = 0;
  const std::uint64_t end = std::min(attach_.steps().end(), stock_.next() + kReach);
  if (asks_.free().At(0) >= end) return;
  FindMedian();
  FindMembers();
  FindHomes();
  if (members_.empty()) {
    if (InReach(asks_.free().At(0))) WantsMore();
    return;
  }
  DealFree();
}

void Dealing::DealFree() {
  // Steps that no member with a slot may build are passed over.
  for (std::uint64_t passed = 0;;) {
    const std::uint64_t step = asks_.free().At(passed);
    if (!InReach(step)) return;
    if (workers_.TriedBy(step) >= kWorkersTryCode) {
      ++passed;
      continue;
    }
    if (std::none_of(members_.begin(), members_.end(),
                     [step](const Member& m) { return MayBuild(m, step); })) {
      // A member that has no stream now may build it.
      WantsMore();
      ++passed;
      continue;
    }
    if (GiveHome(step)) {
      if (asks_.free().IsFree(step)) {
        WantsMore();
        if (left_ > kMostLeft) return;
        ++passed;
      }
      continue;
    }
    std::uint64_t at = passed;
    Member* const member = Choose(step, at);
    if (member == nullptr) {
      WantsMore();
      if (std::none_of(members_.begin(), members_.end(), HasSlot)) return;
      ++passed;  // those that have slots have tried this step
      continue;
    }
    const std::uint64_t chosen = at == passed ? step : StepFor(*member, at);
    if (InReach(chosen)) {
      Give(*member, chosen);
    } else {
      member->free = 0;  // it has nothing to do until faster members are further
    }
  }
}

Dealing::Member* Dealing::ChooseForNext(std::uint64_t step) {
  Member* const member =
      Fastest([step](const Member& m) { return !m.trial_used && MayBuild(m, step); });
  if (member != nullptr) return member;
  return Fastest([step](const Member& m) { return MayBuild(m, step); });
}

Dealing::Member* Dealing::Choose(std::uint64_t step, std::uint64_t& at) {
  const bool is_next = step == stock_.next();
  if (has_twins_) {
    if (Member* const twin = TwinOf(step)) return twin;
  }
  if (is_next && !IsMutant(Mutant::kNextNeedsSlot)) return ChooseForNext(step);
  Member* const fastest =
      Fastest([step](const Member& m) { return HasSlot(m) && MayBuild(m, step); });
  if (fastest == nullptr) return nullptr;
  if (has_twins_) return TwinsChoice(step, *fastest);
  for (Member& member : members_) {
    if (HasSlot(member) && MayBuild(member, step) && InTime(member, step)) return &member;
  }
  if (!is_next && !IsMutant(Mutant::kNothingSkipped)) at += Skips(*fastest, step);
  return fastest;
}

std::uint64_t Dealing::Skips(const Member& member, std::uint64_t step) const {
  std::uint64_t skips = 0;
  for (const Member& other : members_) {
    if (other.finish >= member.finish || !MayBuild(other, step)) continue;
    const double builds =
        (member.finish - other.finish) * other.threads / std::max(1e-9, other.batch_seconds);
    skips += 1 + static_cast<std::uint64_t>(std::min(builds, static_cast<double>(kReach)));
  }
  return skips;
}

std::uint64_t Dealing::StepFor(const Member& member, std::uint64_t at) const {
  std::uint64_t step = asks_.free().At(at);
  while (!MayBuild(member, step) || workers_.TriedBy(step) >= kWorkersTryCode) {
    step = asks_.free().At(++at);
  }
  return step;
}

void Dealing::Give(Member& member, std::uint64_t first) {
  const bool shared = has_twins_ && TwinOf(first) == &member;
  const bool in_time = InTime(member, first);
  // Twins agree on a worker for each step.
  const std::uint64_t most = has_twins_ ? 1 : std::min(member.deal, member.free);
  AddAsk(member, first, AskKind::kFirst, shared);
  for (std::uint64_t step = first + 1; step < first + most; ++step) {
    const bool goes_on = asks_.free().IsFree(step) && InReach(step) && MayBuild(member, step) &&
                         workers_.TriedBy(step) < kWorkersTryCode &&
                         (!homes_.any() || WindowOf(step) == WindowOf(first)) &&
                         (!in_time || InTime(member, step));
    if (!goes_on) return;
    AddAsk(member, step, AskKind::kFirst, shared);
  }
}

void Dealing::AddAsk(Member& member, std::uint64_t step, AskKind kind, bool shared) {
  WorkerLink& link = *member.link;
  asks_.Add(step, {.worker = link.where.id,
                   .asked = now_,
                   .due = now_ + ToDuration(member.finish),
                   .kind = kind,
                   .known = member.known && median_seconds_.has_value(),
                   .shared = shared});
  first_due_ = std::min(first_due_, now_ + ToDuration(member.finish));
  link.stream.stale = link.stream.urgent = true;
  if (shared) return;
  ++member.open;
  member.free -= std::min<std::uint64_t>(member.free, 1);
  if (free_slots_ > 0 && --free_slots_ == 0) TakeSlots();
  if (link.on_trial()) {
    member.free = 0;
    member.trial_used = true;
  }
  Estimate(member);
}

// --- Late steps ----------------------------------------------------------------------------------

void Dealing::Look(Time now) {
  looked_ = now_ = now;
  FindMedian();
  FindLags();
  FindMembers();
  CopyLate();
}

void Dealing::FindLags() {
  for (WorkerLink* const link : workers_.open()) link->stream.lag = Duration{0};
  first_due_ = now_ + kLookSeldom;
  if (!median_seconds_) return;
  for (const auto& [step, asks] : asks_.steps()) {
    for (const Ask& ask : asks.all()) {
      if (ask.built && !IsMutant(Mutant::kBuiltCountsAsLate)) continue;
      first_due_ = std::min(first_due_, ask.due);
      if (now_ <= ask.due) continue;
      WorkerLink& link = *workers_.Find(ask.worker);
      const double told = link.stream.spoke() ? link.stream.word->batch_seconds : 0;
      const double patience =
          ask.known ? std::max(*median_seconds_, told) / 4 : 2 * *median_seconds_ + 1;
      if (ToSeconds(now_ - ask.due) <= patience) continue;
      link.stream.lag = std::max(link.stream.lag, now_ - ask.due);
    }
  }
}

bool Dealing::MayCopy(std::uint64_t step, const StepAsks& asks, double late,
                      const Member& to) const {
  if (IsMutant(Mutant::kCopiesUnlimited)) return true;
  const bool is_next = step == stock_.next();
  if (to.finish > late && !IsMutant(Mutant::kCopyToLateMember)) return false;
  if (NeededIn(step) > to.finish + *median_seconds_) return false;  // nobody will wait for it
  if (copies_won_ < 0.5) {
    // A worker may have got stuck all the same.
    const bool stuck = late >= std::max(kStuckSeconds, kStuckBatches * *median_seconds_);
    return is_next && asks.all().size() == 1 &&
           (stuck || asks_.made() >= copied_at_ + kAsksForASuspectCopy);
  }
  return is_next || asks_.made(AskKind::kCopy) * kAsksForACopy < asks_.made();
}

bool Dealing::ServesOthers(const StepAsks& asks) const {
  return std::all_of(asks.all().begin(), asks.all().end(), [&](const Ask& ask) {
    const WorkerLink* const link = workers_.Find(ask.worker);
    return !ask.built && link != nullptr && link->stream.spoke() &&
           link->stream.word->building.empty();
  });
}

bool Dealing::CodeMayTry(std::uint64_t step, const StepAsks& asks) const {
  const std::size_t tried = workers_.TriedBy(step);
  return tried == 0 || tried + asks.all().size() < kWorkersTryCode;
}

void Dealing::CopyQueued() {
  const std::uint64_t next = stock_.next();
  const StepAsks* const found = asks_.Find(next);
  if (found == nullptr || found->full() || NeededIn(next) > 0 || !ServesOthers(*found)) return;
  if (!CodeMayTry(next, *found)) return;
  const StepAsks asks = *found;
  Time due = asks.all().front().due;
  for (const Ask& ask : asks.all()) due = std::min(due, ask.due);
  Member* const to = Fastest([&](const Member& m) {
    return m.known && !m.link->on_trial() && asks.Of(m.link->where.id) == nullptr && HasPlace(m) &&
           MayBuild(m, next);
  });
  const double sooner = std::max(kLate, *median_seconds_);
  if (to == nullptr || to->finish + sooner > ToSeconds(due - now_)) return;
  AddAsk(*to, next, AskKind::kCopy, false);
}

void Dealing::CopyLate() {
  if (!median_seconds_ || members_.size() < 2) return;
  CopyQueued();
  constexpr int kMostLooked = 256;
  int looked = 0;
  std::vector<std::uint64_t> late_steps;
  for (const auto& [step, asks] : asks_.steps()) {
    if (++looked > kMostLooked) break;
    const std::size_t most = step == stock_.next() ? StepAsks::kMost : 2;
    const bool built = asks.is_built() && !IsMutant(Mutant::kBuiltCountsAsLate);
    if (built || asks.all().size() >= most || !CodeMayTry(step, asks)) continue;
    const double late = ToSeconds(now_ - asks.all().back().due);
    if (late >= std::max(kLate, *median_seconds_)) late_steps.push_back(step);
  }
  for (const std::uint64_t step : late_steps) {
    const StepAsks asks = *asks_.Find(step);
    const double late = ToSeconds(now_ - asks.all().back().due);
    Member* const to = Fastest([&](const Member& m) {
      return m.known && !m.link->on_trial() && asks.Of(m.link->where.id) == nullptr &&
             HasPlace(m) && MayBuild(m, step);
    });
    if (to == nullptr || !MayCopy(step, asks, late, *to)) continue;
    AddAsk(*to, step, AskKind::kCopy, false);
    copied_at_ = asks_.made();
  }
}

void Dealing::OnArrived(const StepAsks& ended, WorkerId from) {
  if (ended.all().size() < 2 || ended.all()[1].kind != AskKind::kCopy) return;
  copies_won_ = 0.9 * copies_won_ + (ended.all()[0].worker != from ? 0.1 : 0);
}

void Dealing::AddTimes(NextDue& next) const {
  if (!asks_.steps().empty() || wants_more_) {
    const Time due = workers_.members().size() < 2 ? looked_ + kLookSeldom : first_due_;
    next.At(std::clamp(due, looked_ + kLookEvery, looked_ + kLookSeldom));
  }
  if (asks_.free().IsFree(stock_.next())) {
    for (const WorkerLink* link : workers_.members()) {
      if (link->failing_until > looked_) {
        next.At(std::max(link->failing_until, looked_ + kLookEvery));
      }
    }
  }
  if (wanted_) next.At(*wanted_ + kAsksFor);
}

}  // namespace millrace::client
