#include "server/worker/machine/worker_tuning.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "common/base/wait_cause.h"
#include "server/worker/machine/memory_use.h"

namespace millrace {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);
/// More threads could end waits if all threads were building for this part of them.
constexpr double kAllInUse = 0.5;
/// More processes could end them if all were busy for this part of a second.
constexpr double kAllBusy = 0.9;
/// Threads are enough if they are so many times those in use, and one half: builds come in bursts.
constexpr double kReserve = 1.5;
/// Fewer threads are worth a change if they are at most so many.
constexpr double kWorthIt = 0.75;

}  // namespace

void WorkerTuning::InUse::Add(double used) {
  last_.push_back(used);
  if (last_.size() > tune::Tuner::kCalm) last_.pop_front();
}

bool WorkerTuning::InUse::All(double value) const {
  return !last_.empty() && last_.back() >= kAllBusy * value;
}

double WorkerTuning::InUse::Enough(double value, double cpus) const {
  if (last_.size() < tune::Tuner::kCalm) return value;
  const double most = *std::max_element(last_.begin(), last_.end());
  double enough = std::ceil(kReserve * most + 0.5);
  if (most <= 1 && cpus <= 2) enough = 1;
  return enough <= kWorthIt * value ? enough : value;
}

WorkerTuning::WorkerTuning(const Options& options)
    : tune_(options.tune),
      settings_{{.name = "threads",
                 .value = static_cast<double>(options.threads),
                 .least = 1,
                 .most = static_cast<double>(options.threads),
                 .pinned = !options.tune || options.threads_given}} {}

std::map<std::uint64_t, int> WorkerTuning::MostProcesses() const {
  std::map<std::uint64_t, int> most;
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    if (!IsTuned(pools_[i].use)) continue;
    most[pools_[i].use.number] = static_cast<int>(settings_[kPools + i].value);
  }
  return most;
}

int WorkerTuning::Processes(std::uint64_t pool) const {
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    const PoolUse& use = pools_[i].use;
    if (use.number != pool) continue;
    return IsTuned(use) ? static_cast<int>(settings_[kPools + i].value) : use.places;
  }
  return most_threads();
}

void WorkerTuning::SetLimit(tune::Setting& setting, double most) {
  if (setting.most == most) return;
  setting.value = setting.value == setting.most ? most : std::min(setting.value, most);
  setting.most = most;
  ++changes_;
}

bool WorkerTuning::SetCpus(int cpus, Logger& log) {
  tune::Setting& setting = settings_[kThreads];
  if (setting.pinned || setting.most == cpus) return false;
  const int before = threads();
  log.Info("other CPUs", {{"before", setting.most}, {"now", cpus}});
  SetLimit(setting, cpus);
  return threads() != before;
}

void WorkerTuning::SetPools(std::vector<PoolUse> pools, std::optional<std::int64_t> room,
                            Logger& log) {
  room_ = room;
  KeepPools(std::move(pools), log);
  LimitPools();
}

void WorkerTuning::KeepPools(std::vector<PoolUse> pools, Logger& log) {
  const bool same = std::equal(
      pools.begin(), pools.end(), pools_.begin(), pools_.end(),
      [](const PoolUse& use, const Pool& pool) { return use.number == pool.use.number; });
  if (same) {
    for (std::size_t i = 0; i < pools.size(); ++i) pools_[i].use = std::move(pools[i]);
    return;
  }
  const std::vector<Pool> known = std::exchange(pools_, {});
  const std::vector<tune::Setting> settings = settings_;
  settings_.resize(kPools);
  for (PoolUse& use : pools) {
    const auto old = std::find_if(known.begin(), known.end(),
                                  [&](const Pool& pool) { return pool.use.number == use.number; });
    if (old != known.end()) {
      settings_.push_back(settings[kPools + static_cast<std::size_t>(old - known.begin())]);
      pools_.push_back(*old);
      pools_.back().use = std::move(use);
      continue;
    }
    settings_.push_back({.name = "processes of " + use.object,
                         .value = static_cast<double>(use.places),
                         .least = 1,
                         .most = static_cast<double>(use.places),
                         .pinned = !IsTuned(use)});
    const double busy = use.busy_seconds;
    pools_.push_back({.use = std::move(use), .counted_busy = busy, .in_use = {}});
  }
  RestartTuner(log);
}

void WorkerTuning::LimitPools() {
  const auto tuned = std::count_if(pools_.begin(), pools_.end(),
                                   [this](const Pool& pool) { return IsTuned(pool.use); });
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    const PoolUse& use = pools_[i].use;
    if (!IsTuned(use)) continue;
    // A thread asks one process at a time.
    int most = std::min(use.places, threads());
    if (room_) {
      most = std::min(most, ProcessesInRoom(use.places, use.running, use.memory_bytes,
                                            *room_ / static_cast<std::int64_t>(tuned)));
    }
    SetLimit(settings_[kPools + i], most);
  }
}

void WorkerTuning::CountUntil(Time now) {
  const double seconds = ToSeconds(now - counted_until_);
  used_seconds_ += seconds * building_;
  if (waits_) waited_seconds_ += seconds;
  if (waits_ && building_ >= threads()) waited_for_thread_seconds_ += seconds;
  counted_until_ = now;
}

void WorkerTuning::OnAsked(bool began, bool waits, Time now) {
  CountUntil(now);
  waits_ = waits;
  if (began) ++building_;
}

void WorkerTuning::Propose(double seconds, bool mostly_python) {
  bool processes_bind = false;
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    Pool& pool = pools_[i];
    tune::Setting& processes = settings_[kPools + i];
    pool.in_use.Add((pool.use.busy_seconds - pool.counted_busy) / seconds);
    pool.counted_busy = pool.use.busy_seconds;
    processes.up = pool.in_use.All(processes.value) ? processes.most : 0;
    processes.down = pool.in_use.Enough(processes.value, settings_[kThreads].most);
    processes_bind = processes_bind || (mostly_python && processes.up > processes.value);
  }
  tune::Setting& threads = settings_[kThreads];
  threads_in_use_.Add(used_seconds_ / seconds);
  // Loops that take their steps together ask in bursts. So threads may rest in the mean of a second
  // in which all of them were needed.
  const bool needed = waited_for_thread_seconds_ >= kAllInUse * waited_seconds_;
  threads.up = needed && !processes_bind ? threads.most : 0;
  threads.down = threads_in_use_.Enough(threads.value, threads.most);
}

void WorkerTuning::RestartTuner(Logger& log) {
  const bool tries =
      !tuner_.decisions().empty() && tuner_.decisions().back().outcome == tune::Outcome::kTrying;
  tuner_.Restart();
  if (tries) log.Info("tuning", {{"decision", tune::ToLine(tuner_.decisions().back())}});
  ++changes_;
}

void WorkerTuning::BeginAnew(Logger& log) {
  RestartTuner(log);
  threads_in_use_.Clear();
  for (Pool& pool : pools_) pool.in_use.Clear();
  for (tune::Setting& setting : settings_) setting.value = setting.most;
  LimitPools();
}

bool WorkerTuning::Tick(bool has_work, Time now, Logger& log) {
  CountUntil(now);
  if (now - began_ < kSecond) return false;
  const double seconds = ToSeconds(now - began_);
  const int before = threads();
  if (has_work) {
    const bool mostly_python = 2 * built_in_python_ > built_;
    tune::Sample sample;
    sample.rate = static_cast<double>(built_) / seconds;
    sample.waiting = std::min(1.0, waited_seconds_ / seconds);
    sample.waited_for = WaitCauseName(mostly_python ? WaitCause::kPython : WaitCause::kBuild);
    sample.settling = std::any_of(pools_.begin(), pools_.end(),
                                  [](const Pool& pool) { return pool.use.starting > 0; });
    Propose(seconds, mostly_python);
    if (tuner_.Step(sample, settings_, now)) {
      ++changes_;
      log.Info("tuning", {{"decision", tune::ToLine(tuner_.decisions().back())}});
      LimitPools();
    }
  } else if (!threads_in_use_.empty()) {
    BeginAnew(log);
  }
  began_ = now;
  used_seconds_ = waited_seconds_ = waited_for_thread_seconds_ = 0;
  built_ = built_in_python_ = 0;
  return threads() != before;
}

}  // namespace millrace
