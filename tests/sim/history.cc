#include "tests/sim/history.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <random>

#include <fmt/core.h>

#include "tests/sim/host_data.h"

namespace millrace::sim {
namespace {

using std::chrono::milliseconds;

constexpr std::array<const char*, kFaultKinds> kFaultNames = {
    "kill worker",     "pause worker", "slow worker",     "kill dispatcher", "pause dispatcher",
    "dispatcher gone", "wipe store",   "store errors",    "kill trainers",   "zombie trainers",
    "pause trainer",   "slow loop",    "break streams",   "partition",       "one-way partition",
    "lose messages",   "replay",       "clock step",      "wrong copies",    "crash between",
    "repeat messages", "drain worker", "bad worker data", "bad data",        "lacks data",
    "replaced data",   "other code"};

/// Faults of plugins are drawn apart.
constexpr int kKindsForAll = kFaultKinds - 1;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::uint64_t Below(std::uint64_t n) { return random_() % n; }
  std::uint64_t Between(std::uint64_t from, std::uint64_t to) {
    return from + Below(to - from + 1);
  }
  bool Chance(double p) { return std::uniform_real_distribution<double>()(random_) < p; }
  Duration UpTo(Duration d) {
    return milliseconds(Below(std::chrono::duration_cast<milliseconds>(d).count() + 1));
  }

 private:
  std::mt19937_64 random_;
};

JobSetup DrawJob(Draw& draw, std::size_t datasets) {
  JobSetup job;
  job.datasets = {draw.Below(datasets)};
  job.excludes = kDatasets[job.datasets[0]].excludes && draw.Chance(0.3);
  job.world_size = static_cast<std::uint32_t>(draw.Between(1, 3));
  job.examples = draw.Between(1, 90);
  job.keep = draw.Chance(0.5);
  if (draw.Chance(0.3)) {
    job.global_size = job.world_size * draw.Between(1, 4);
  } else if (draw.Chance(0.3)) {
    job.size = 1;
    job.unit_rows = static_cast<std::uint32_t>(draw.Between(1, 9));
  } else {
    job.size = draw.Between(1, 7);
  }
  // `drop` needs at least one full step.
  const std::uint64_t stride = job.size != 0 ? job.size * job.world_size : job.global_size;
  if (!job.keep) job.examples = std::max(job.examples, stride);
  job.start.epoch = draw.Below(2);
  job.start.example = draw.Chance(0.3) ? draw.Below(job.examples) : 0;
  job.end_epoch = job.start.epoch + draw.Between(1, 3);
  // The memory takes one batch, or up to many.
  job.prefetch_bytes = draw.Chance(0.4) ? 1 : draw.Between(1'000, 30'000);
  return job;
}

/// Makes mixes of two datasets of some jobs, and gives a worker both. This has draws of its own, so
/// that all else of a history is drawn as without mixes.
void DrawMixes(std::uint64_t seed, std::size_t datasets, History& history) {
  Draw draw(seed * 0xD1B54A32D192ED03u + 1);
  if (datasets < 2) return;
  for (JobSetup& job : history.jobs) {
    if (!draw.Chance(0.4)) continue;
    const std::size_t first = job.datasets.front();
    const std::size_t second = (first + draw.Between(1, datasets - 1)) % datasets;
    job.datasets.push_back(second);
    job.excludes = job.excludes && kDatasets[second].excludes;
    history.datasets[draw.Below(history.workers)].insert({first, second});
  }
}

/// Lets the orders of some jobs come in windows that have homes. This has draws of its own too.
void DrawWindows(std::uint64_t seed, History& history) {
  Draw draw(seed * 0x94D049BB133111EBu + 1);
  for (JobSetup& job : history.jobs) {
    if (draw.Chance(0.3)) job.window = draw.Between(1, job.examples);
  }
}

/// Lets plugins build the examples of some jobs. This has draws of its own too.
void DrawPlugins(std::uint64_t seed, History& history) {
  Draw draw(seed * 0xBF58476D1CE4E5B9u + 1);
  if (!draw.Chance(0.3)) return;
  for (JobSetup& job : history.jobs) {
    job.plugin = draw.Chance(0.8);
    if (!job.plugin) continue;
    if (draw.Chance(0.3)) job.fails = draw.Below(job.examples);
    for (std::size_t worker = 0; worker < history.workers; ++worker) {
      if (draw.Chance(0.3)) job.fails_at[worker] = draw.Below(job.examples);
    }
  }
  if (!draw.Chance(0.4)) return;
  Fault fault;
  fault.at = draw.UpTo(history.faulty);
  fault.kind = FaultKind::kOtherCode;
  fault.target = static_cast<std::uint32_t>(draw.Below(1000));
  fault.other = static_cast<std::uint32_t>(draw.Below(1000));
  fault.lasts = draw.UpTo(std::chrono::seconds(12));
  history.faults.push_back(fault);
}

/// Draws jobs and replicas that need the same batches as others.
void DrawTwins(Draw& draw, History& history) {
  if (draw.Chance(0.25)) {
    JobSetup twin = history.jobs.front();
    // Some twins begin at another place, and most have other memory.
    if (draw.Chance(0.3)) twin.start = {draw.Below(2), draw.Below(twin.examples)};
    twin.end_epoch = twin.start.epoch + draw.Between(1, 3);
    if (draw.Chance(0.7)) twin.prefetch_bytes = draw.Between(1'000, 30'000);
    history.jobs.push_back(twin);
  }
  if (draw.Chance(0.15)) history.jobs[draw.Below(history.jobs.size())].replicas = 2;
}

/// Draws the datasets of each worker, so that every dataset has a worker.
std::vector<std::set<std::size_t>> DrawDatasets(Draw& draw, std::uint32_t workers,
                                                std::size_t datasets) {
  std::vector<std::set<std::size_t>> drawn(workers);
  for (std::size_t dataset = 0; dataset < datasets; ++dataset) {
    for (auto& worker : drawn) {
      if (draw.Chance(0.7)) worker.insert(dataset);
    }
    drawn[draw.Below(workers)].insert(dataset);
  }
  return drawn;
}

}  // namespace

bool History::HasOneFault() const {
  if (faults.size() != 1) return false;
  switch (faults.front().kind) {
    case FaultKind::kKillWorker:
    case FaultKind::kPauseWorker:
    case FaultKind::kKillDispatcher:
    case FaultKind::kDispatcherGone:
    case FaultKind::kBreakStreams:
    case FaultKind::kPartition:
    case FaultKind::kOneWayPartition:
    case FaultKind::kReplay:
    case FaultKind::kRepeatMessages:
    case FaultKind::kDrainWorker:
    case FaultKind::kBadWorkerData:
    case FaultKind::kLacksData:
    case FaultKind::kReplacedData:
      return true;
    default:
      return false;
  }
}

const char* FaultName(FaultKind kind) { return kFaultNames[static_cast<std::size_t>(kind)]; }

History DrawHistory(std::uint64_t seed) {
  Draw draw(seed * 0x9E3779B97F4A7C15u + 1);
  History history;
  history.seed = seed;
  history.workers = static_cast<std::uint32_t>(draw.Between(1, 3));
  history.builders = static_cast<std::uint32_t>(draw.Between(1, 2));
  history.memory_bytes = draw.Chance(0.4) ? 1 : draw.Between(1'000, 20'000);
  history.buffered_messages = static_cast<std::uint32_t>(draw.Between(1, 4));
  const std::size_t datasets = draw.Between(1, kDatasets.size());
  history.datasets = DrawDatasets(draw, history.workers, datasets);
  const std::uint64_t jobs = draw.Chance(0.3) ? 2 : 1;
  for (std::uint64_t i = 0; i < jobs; ++i) history.jobs.push_back(DrawJob(draw, datasets));
  history.faulty = std::chrono::seconds(draw.Between(2, 15));
  const std::uint64_t faults = draw.Chance(0.2) ? 1 : draw.Below(7);
  for (std::uint64_t i = 0; i < faults; ++i) {
    Fault fault;
    fault.at = draw.UpTo(history.faulty);
    fault.kind = static_cast<FaultKind>(draw.Below(kKindsForAll));
    fault.target = static_cast<std::uint32_t>(draw.Below(1000));
    fault.other = static_cast<std::uint32_t>(draw.Below(1000));
    fault.lasts = draw.UpTo(std::chrono::seconds(draw.Chance(faults == 1 ? 0.5 : 0.2) ? 25 : 6));
    // Some workers get a dataset only after they have begun.
    if (fault.kind == FaultKind::kLacksData && draw.Chance(0.5)) fault.at = Duration{0};
    history.faults.push_back(fault);
  }
  // A new term is above the store's last one and above the wall clock. If the store forgets and the
  // clock goes back, a new term may not be higher than an old one. So no history has both faults.
  const auto is = [](FaultKind kind) { return [kind](const Fault& f) { return f.kind == kind; }; };
  const bool forgets =
      std::any_of(history.faults.begin(), history.faults.end(), is(FaultKind::kWipeStore));
  if (forgets) std::erase_if(history.faults, is(FaultKind::kClockStep));
  DrawMixes(seed, datasets, history);
  DrawPlugins(seed, history);
  DrawWindows(seed, history);
  // A dispatcher that forgets its jobs begins them with the data and code that its workers have by
  // then, whatever the sessions' plans were. So no history has both faults either.
  if (forgets) {
    std::erase_if(history.faults, is(FaultKind::kReplacedData));
    std::erase_if(history.faults, is(FaultKind::kOtherCode));
  }
  DrawTwins(draw, history);
  // Some plans are ready late, because they read a column that has to be measured first.
  const bool measures = draw.Chance(0.3);
  const std::uint64_t measured = draw.Between(1, 30'000);
  for (JobSetup& job : history.jobs) {
    const bool reads = measures && !job.excludes && !job.plugin && job.datasets.size() == 1;
    job.measured = reads ? measured : 0;
  }
  std::sort(history.faults.begin(), history.faults.end(),
            [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return history;
}

std::string IdsOf(const std::vector<std::size_t>& datasets) {
  std::string ids;
  for (const std::size_t dataset : datasets) {
    ids += fmt::format("{}{}", ids.empty() ? "" : ",", kDatasets[dataset].id);
  }
  return ids;
}

std::string Describe(const History& history) {
  std::string text = fmt::format(
      "seed {}: {} workers of {} builders with {} bytes, streams that take {} messages\n",
      history.seed, history.workers, history.builders, history.memory_bytes,
      history.buffered_messages);
  for (std::size_t worker = 0; worker < history.datasets.size(); ++worker) {
    text += fmt::format("  worker {} has", worker);
    for (const std::size_t dataset : history.datasets[worker]) {
      text += fmt::format(" {}", kDatasets[dataset].id);
    }
    text += "\n";
  }
  for (const JobSetup& job : history.jobs) {
    text += fmt::format(
        "  job of {}{}: {} {}, {} {}, {}, world size {}, {} replicas, {} to epoch {}, {} "
        "bytes, {} examples to measure\n",
        IdsOf(job.datasets), job.excludes ? " without bad files" : "", job.examples,
        job.unit_rows > 0 ? "batches" : "examples", job.size != 0 ? "size" : "global_size",
        job.size != 0 ? job.size : job.global_size, job.keep ? "keep" : "drop", job.world_size,
        job.replicas, job.start.ToString(), job.end_epoch, job.prefetch_bytes, job.measured);
    if (job.window > 0) text += fmt::format("    in windows of {} units\n", job.window);
    if (job.plugin) text += fmt::format("    a plugin builds them\n");
    if (job.fails) text += fmt::format("    example {} cannot be built\n", *job.fails);
    for (const auto& [worker, example] : job.fails_at) {
      text += fmt::format("    worker {} cannot build example {}\n", worker, example);
    }
  }
  for (const Fault& fault : history.faults) {
    text += fmt::format("  {:6.3f} s: {} {}/{} for {:.3f} s\n", ToSeconds(fault.at),
                        FaultName(fault.kind), fault.target, fault.other, ToSeconds(fault.lasts));
  }
  return text;
}

}  // namespace millrace::sim
