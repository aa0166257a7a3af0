#include "common/tune/tuner.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace::tune {

namespace {

/// So many more in a second may be chance.
constexpr double kFewMore = 3;
/// A rate is another one if it differs by this part of it.
constexpr double kOtherRate = 0.02;
/// So much more waiting, a share of the time, is that of another load.
constexpr double kOtherLoad = 0.05;
/// Fewer are better if at most this part of the waiting is left: by chance less of it may be.
constexpr double kFewerLeave = 0.5;
/// Seconds after which a trial of fewer ends if it is worse.
constexpr std::size_t kWorseAfter = 2;

}  // namespace

std::string_view OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kTrying:
      return "trying";
    case Outcome::kKept:
      return "kept";
    case Outcome::kUndone:
      return "undone";
    case Outcome::kNotJudged:
      return "not judged";
  }
  return "";
}

std::string ToLine(const Decision& d) {
  const std::string why = d.waited_for.empty() ? "nobody waited" : "waited for " + d.waited_for;
  std::string line = fmt::format("{}: {} {:.6g} -> {:.6g}; {:.1f} batches/s, {:.1f} % waiting", why,
                                 d.setting, d.from, d.to, d.rate_before, 100 * d.waiting_before);
  if (d.outcome == Outcome::kTrying) return line + "; being tried";
  return line + fmt::format(" -> {:.1f} batches/s, {:.1f} %: {}", d.rate_after,
                            100 * d.waiting_after, OutcomeName(d.outcome));
}

bool Tuner::Step(const Sample& sample, std::vector<Setting>& settings, Time now) {
  ++second_;
  pauses_.resize(settings.size());
  given_back_.resize(settings.size());
  if (trial_) return Judge(sample, settings);
  recent_.push_back(sample);
  if (recent_.size() > kCalm) recent_.pop_front();
  return TakeBack(settings, now) || Try(settings, now);
}

void Tuner::Restart() {
  if (trial_) decisions_.back().outcome = Outcome::kNotJudged;
  trial_.reset();
  recent_.clear();
  pauses_.clear();
  given_back_.clear();
}

bool Tuner::TakeBack(std::vector<Setting>& settings, Time now) {
  // A single second counts. If many loops take their steps together, each of them waits rarely, and
  // all of them lose the time of each wait.
  if (recent_.back().waiting <= kWorthIt) return false;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const Setting& setting = settings[i];
    const double value = std::min(given_back_[i].value, setting.most);
    if (setting.pinned || setting.up <= setting.value || value <= setting.value) continue;
    Pause& pause = pauses_[i].give_back;
    const std::uint64_t rested = second_ - given_back_[i].second;
    if (rested > pause.length) pause.length = kFirstPause;
    // Under a far higher load the wait says nothing about the load for which it was given back.
    if (recent_.back().rate < 2 * given_back_[i].rate + kFewMore) Defer(pause);
    given_back_[i] = {};
    Begin(i, Last(1), Aim::kTakenBack, value, settings, now);
    return true;
  }
  return false;
}

Tuner::Pause& Tuner::Pauses::of(Aim aim) {
  switch (aim) {
    case Aim::kMore:
    case Aim::kTakenBack:
      return more;
    case Aim::kFewer:
      return fewer;
    case Aim::kGiveBack:
      break;
  }
  return give_back;
}

void Tuner::Defer(Pause& pause) const {
  pause.up_to = 1;
  pause.until = second_ + pause.length;
  pause.length = std::min(3 * pause.length, kLongestPause);
}

Tuner::Measured Tuner::Last(std::size_t seconds) const {
  Measured last;
  for (std::size_t i = recent_.size() - seconds; i < recent_.size(); ++i) last.Add(recent_[i]);
  return last;
}

std::optional<Tuner::Measured> Tuner::WaitingBefore() const {
  for (std::size_t seconds = kBefore; seconds <= recent_.size(); seconds *= 2) {
    const Measured last = Last(seconds);
    if (last.waiting.value() <= kWorthIt) return std::nullopt;
    // Waits that come now and then need a longer look: otherwise it could not be told later whether
    // they have become fewer.
    if (2 * last.waiting.error() < last.waiting.value()) return last;
  }
  return std::nullopt;
}

bool Tuner::Try(std::vector<Setting>& settings, Time now) {
  const std::optional<Measured> waiting = WaitingBefore();
  const bool calm =
      recent_.size() == kCalm && std::all_of(recent_.begin(), recent_.end(),
                                             [](const Sample& s) { return s.waiting <= kNone; });
  if (waiting) {
    return Try(Aim::kMore, *waiting, settings, now) || Try(Aim::kFewer, *waiting, settings, now);
  }
  return calm && Try(Aim::kGiveBack, Last(kCalm), settings, now);
}

bool Tuner::Try(Aim aim, const Measured& before, std::vector<Setting>& settings, Time now) {
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const Setting& setting = settings[i];
    const Pause& pause = pauses_[i].of(aim);
    if (setting.pinned) continue;
    if (second_ < pause.until && before.waiting.value() <= pause.up_to) continue;
    const double proposed = aim == Aim::kMore    ? setting.up
                            : aim == Aim::kFewer ? setting.fewer
                                                 : setting.down;
    // A proposal of 0 is none.
    if (proposed <= 0) continue;
    const double value = std::clamp(proposed, setting.least, setting.most);
    if (aim == Aim::kMore ? value <= setting.value : value >= setting.value) continue;
    Begin(i, before, aim, value, settings, now);
    return true;
  }
  return false;
}

void Tuner::Begin(std::size_t setting, const Measured& before, Aim aim, double value,
                  std::vector<Setting>& settings, Time now) {
  Decision decision;
  decision.number = ++last_number_;
  decision.at = now;
  decision.setting = settings[setting].name;
  decision.from = settings[setting].value;
  decision.to = value;
  for (auto sample = recent_.rbegin(); sample != recent_.rend(); ++sample) {
    if (aim == Aim::kGiveBack || sample->waited_for.empty()) continue;
    decision.waited_for = sample->waited_for;
    break;
  }
  decision.rate_before = before.rate.value();
  decision.waiting_before = before.waiting.value();
  decisions_.push_back(std::move(decision));
  if (decisions_.size() > kMostDecisions) decisions_.pop_front();
  recent_.clear();
  trial_ = Trial{.setting = setting, .aim = aim, .before = before, .after = {}};
  settings[setting].value = value;
}

bool Tuner::Judge(const Sample& sample, std::vector<Setting>& settings) {
  Trial& trial = *trial_;
  const bool gives_back = trial.aim == Aim::kGiveBack;
  if (!gives_back && sample.settling && trial.settling < kLongestSettle) {
    ++trial.settling;
    trial.after = {};
    trial.seconds = 0;
    return false;
  }
  ++trial.seconds;
  if (!gives_back && trial.seconds <= kSettle) return false;
  trial.after.Add(sample);
  if (gives_back) {
    const bool waits = sample.waiting > kWorthIt;
    if (!waits && trial.after.waiting.count() < kCalmAfter) return false;
    End(!waits && trial.after.waiting.value() <= kNone, settings);
    return true;
  }
  if (trial.aim == Aim::kTakenBack) {
    if (trial.after.rate.count() < kAfter) return false;
    End(true, settings);
    return true;
  }
  const std::optional<bool> better = Better();
  if (better) End(*better, settings);
  return better.has_value();
}

std::optional<bool> Tuner::Better() const {
  const Measured& before = trial_->before;
  const Measured& after = trial_->after;
  const double other_rate = kOtherRate * before.rate.value();
  const std::size_t seconds = after.rate.count();
  if (trial_->aim == Aim::kFewer && seconds >= kWorseAfter &&
      Above(before.rate, after.rate, other_rate)) {
    return false;
  }
  if (seconds < kAfter) return std::nullopt;
  if (Above(after.rate, before.rate, other_rate)) return true;
  const double less = trial_->aim == Aim::kFewer ? (1 - kFewerLeave) * before.waiting.value() : 0;
  if (Above(before.waiting, after.waiting, std::max(kWorthIt / 2, less))) return true;
  const bool may_be_better = after.waiting.value() < before.waiting.value();
  return may_be_better && seconds < kLongest ? std::nullopt : std::optional(false);
}

void Tuner::End(bool kept, std::vector<Setting>& settings) {
  const Trial& trial = *trial_;
  const std::size_t setting = trial.setting;
  Decision& decision = decisions_.back();
  decision.rate_after = trial.after.rate.value();
  decision.waiting_after = trial.after.waiting.value();
  decision.outcome = kept ? Outcome::kKept : Outcome::kUndone;
  Pauses& pauses = pauses_[setting];
  if (!kept) {
    Defer(pauses.of(trial.aim));
    settings[setting].value = decision.from;
  } else if (trial.aim == Aim::kGiveBack) {
    GivenBack& given = given_back_[setting];
    given = {std::max(given.value, decision.from), decision.rate_after, second_};
  } else if (trial.aim == Aim::kFewer) {
    // More are tried again when the load is another one.
    given_back_[setting] = {};
    Defer(pauses.fewer);
    Defer(pauses.more);
    pauses.more.up_to = decision.waiting_before + kOtherLoad;
  } else {
    pauses.more = {};
    Defer(pauses.fewer);
  }
  trial_.reset();
}

}  // namespace millrace::tune
