#include "common/tune/tuner.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace::tune {

namespace {

/// So many more in a second may be chance.
constexpr double kFewMore = 3;

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
    Pause& pause = pauses_[i].down;
    const std::uint64_t rested = second_ - given_back_[i].second;
    if (rested > pause.length) pause.length = kFirstPause;
    // Under a far higher load the wait says nothing about the load for which it was given back.
    if (recent_.back().rate < 2 * given_back_[i].rate + kFewMore) Defer(pause);
    given_back_[i] = {};
    Begin(i, Last(1), /*up=*/true, value, settings, now);
    trial_->takes_back = true;
    return true;
  }
  return false;
}

void Tuner::Defer(Pause& pause) const {
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
  if (!waiting && !calm) return false;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const Setting& setting = settings[i];
    const Pause& pause = waiting ? pauses_[i].up : pauses_[i].down;
    if (setting.pinned || second_ < pause.until) continue;
    const double value =
        waiting ? std::min(setting.up, setting.most) : std::max(setting.down, setting.least);
    if (waiting ? value > setting.value : value < setting.value) {
      Begin(i, waiting ? *waiting : Last(kCalm), waiting.has_value(), value, settings, now);
      return true;
    }
  }
  return false;
}

void Tuner::Begin(std::size_t setting, const Measured& before, bool up, double value,
                  std::vector<Setting>& settings, Time now) {
  Decision decision;
  decision.number = ++last_number_;
  decision.at = now;
  decision.setting = settings[setting].name;
  decision.from = settings[setting].value;
  decision.to = value;
  for (auto sample = recent_.rbegin(); up && sample != recent_.rend(); ++sample) {
    if (sample->waited_for.empty()) continue;
    decision.waited_for = sample->waited_for;
    break;
  }
  decision.rate_before = before.rate.value();
  decision.waiting_before = before.waiting.value();
  decisions_.push_back(std::move(decision));
  if (decisions_.size() > kMostDecisions) decisions_.pop_front();
  recent_.clear();
  trial_ = Trial{.setting = setting, .up = up, .before = before, .after = {}};
  settings[setting].value = value;
}

bool Tuner::Judge(const Sample& sample, std::vector<Setting>& settings) {
  Trial& trial = *trial_;
  if (trial.up && sample.settling && trial.settling < kLongestSettle) {
    ++trial.settling;
    trial.after = {};
    trial.seconds = 0;
    return false;
  }
  ++trial.seconds;
  if (trial.up && trial.seconds <= kSettle) return false;
  trial.after.Add(sample);
  if (!trial.up) {
    const bool waits = sample.waiting > kWorthIt;
    if (!waits && trial.after.waiting.count() < kCalmAfter) return false;
    End(!waits && trial.after.waiting.value() <= kNone, settings);
    return true;
  }
  if (trial.after.rate.count() < kAfter) return false;
  if (trial.takes_back) {
    End(true, settings);
    return true;
  }
  const bool faster = Above(trial.after.rate, trial.before.rate, 0.02 * trial.before.rate.value());
  const bool waits_less = Above(trial.before.waiting, trial.after.waiting, kWorthIt / 2);
  const bool better = faster || waits_less;
  const bool may_be_better = trial.after.waiting.value() < trial.before.waiting.value();
  if (!better && may_be_better && trial.after.rate.count() < kLongest) return false;
  End(better, settings);
  return true;
}

void Tuner::End(bool kept, std::vector<Setting>& settings) {
  const Trial& trial = *trial_;
  const std::size_t setting = trial.setting;
  Decision& decision = decisions_.back();
  decision.rate_after = trial.after.rate.value();
  decision.waiting_after = trial.after.waiting.value();
  decision.outcome = kept ? Outcome::kKept : Outcome::kUndone;
  Pause& pause = trial.up ? pauses_[setting].up : pauses_[setting].down;
  if (!kept) {
    Defer(pause);
    settings[setting].value = decision.from;
  } else if (trial.up) {
    pause = {};
  } else {
    GivenBack& given = given_back_[setting];
    given = {std::max(given.value, decision.from), decision.rate_after, second_};
  }
  trial_.reset();
}

}  // namespace millrace::tune
