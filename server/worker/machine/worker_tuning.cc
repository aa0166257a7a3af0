#include "server/worker/machine/worker_tuning.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "common/base/wait_cause.h"

namespace millrace {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);
/// Threads build all the time if so many of them do on average.
constexpr double kAllInUse = 0.9;
/// Threads are enough if they are so many times those in use, and one half: builds come in bursts.
constexpr double kReserve = 1.5;
/// Fewer threads are worth a change if they are at most so many.
constexpr double kWorthIt = 0.75;

}  // namespace

WorkerTuning::WorkerTuning(int threads, bool pinned)
    : settings_{{.name = "threads",
                 .value = static_cast<double>(threads),
                 .least = 1,
                 .most = static_cast<double>(threads),
                 .pinned = pinned}} {}

void WorkerTuning::CountUntil(Time now) {
  const double seconds = ToSeconds(now - counted_until_);
  used_seconds_ += seconds * building_;
  if (waits_) waited_seconds_ += seconds;
  counted_until_ = now;
}

void WorkerTuning::OnAsked(bool began, bool waits, Time now) {
  CountUntil(now);
  waits_ = waits;
  if (began) ++building_;
}

void WorkerTuning::OnEnded(bool mostly_python, Time now) {
  CountUntil(now);
  --building_;
  ++built_;
  if (mostly_python) ++built_in_python_;
}

void WorkerTuning::Propose(double used) {
  used_.push_back(used);
  if (used_.size() > tune::Tuner::kCalm) used_.pop_front();
  tune::Setting& threads = settings_[kThreads];
  threads.up = used >= kAllInUse * threads.value ? threads.most : 0;
  const double enough = std::ceil(kReserve * *std::max_element(used_.begin(), used_.end()) + 0.5);
  const bool worth_it = used_.size() == tune::Tuner::kCalm && enough <= kWorthIt * threads.value;
  threads.down = worth_it ? enough : threads.value;
}

bool WorkerTuning::Tick(bool has_work, Time now, Logger& log) {
  CountUntil(now);
  if (now - began_ < kSecond) return false;
  const double seconds = ToSeconds(now - began_);
  const int before = threads();
  if (has_work) {
    tune::Sample sample;
    sample.rate = static_cast<double>(built_) / seconds;
    sample.waiting = std::min(1.0, waited_seconds_ / seconds);
    sample.waited_for =
        WaitCauseName(2 * built_in_python_ > built_ ? WaitCause::kPython : WaitCause::kBuild);
    Propose(used_seconds_ / seconds);
    if (tuner_.Step(sample, settings_, now)) {
      ++changes_;
      log.Info("tuning", {{"decision", tune::ToLine(tuner_.decisions().back())}});
    }
  } else if (!used_.empty()) {
    tuner_.Restart();
    used_.clear();
    settings_[kThreads].value = settings_[kThreads].most;
    ++changes_;
  }
  began_ = now;
  used_seconds_ = waited_seconds_ = 0;
  built_ = built_in_python_ = 0;
  return threads() != before;
}

}  // namespace millrace
