// Runs simulated histories: those of many seeds, that of one seed again, or some with each
// deliberate bug.
//
//   sim --histories 10000 [--first-seed 1]   stops at the first history that breaks an invariant,
//                                            shrinks it, and prints how to run it again
//   sim --seed 7 [--without 0,2] [--log]     runs one history without the faults of these numbers
//   sim --mutants                            prints a table of the deliberate bugs and of the
//                                            invariants that caught them
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "common/base/mutant.h"
#include "common/command_line/command_line.h"
#include "common/system/mutex.h"
#include "tests/sim/world.h"

namespace millrace::sim {
namespace {

struct MutantName {
  Mutant mutant;
  const char* name;
};
constexpr MutantName kMutantNames[] = {
    {Mutant::kNextNeedsCredit, "next needs credit"},
    {Mutant::kCreditBeyondMemory, "credit beyond memory"},
    {Mutant::kPositionOffByOne, "position off by one"},
    {Mutant::kPositionMovesOnReceipt, "position moves on receipt"},
    {Mutant::kTailCutWrong, "tail cut wrong"},
    {Mutant::kCopyDeliveredTwice, "copy delivered twice"},
    {Mutant::kLaterArrivalWins, "later arrival wins"},
    {Mutant::kNumberOnAdmission, "number issued on admission"},
    {Mutant::kWelcomeBeforeCommit, "Welcome before commit"},
    {Mutant::kStoreFenceOff, "store fence off"},
    {Mutant::kLowerTermObeyed, "lower term obeyed"},
    {Mutant::kCopiesNotCompared, "digest of copies not compared"},
    {Mutant::kFailedAsksKept, "asks of a failed worker kept"},
    {Mutant::kSilentWorkerTrusted, "silent worker trusted"},
    {Mutant::kLostBatchAwaited, "lost batch awaited"},
    {Mutant::kDataDigestIgnored, "digest of a dataset ignored"},
    {Mutant::kFirstDatasetOnly, "only the first dataset asked for"},
    {Mutant::kUnreadyWorkerListed, "worker without the plan listed"},
    {Mutant::kFailedPlanKept, "failed plan kept"},
    {Mutant::kDamageIgnored, "damage ignored"},
    {Mutant::kUnviableJobWaits, "unviable job waits"},
    {Mutant::kReasonUnsaid, "reason unsaid"},
    {Mutant::kNothingShared, "nothing shared"},
    {Mutant::kBuiltForOneOnly, "built for one only"},
    {Mutant::kLostRangesKept, "ranges of a lost worker kept"},
    {Mutant::kRangeCountedTwice, "range counted twice"},
    {Mutant::kMeasuredForgotten, "what was measured forgotten"},
    {Mutant::kOtherCodeServed, "other code served"},
    {Mutant::kTriesNotCounted, "tries not counted"},
    {Mutant::kTriesCountedTogether, "tries of all batches counted"},
    {Mutant::kFailedPlaceGivenAgain, "failed place given again"},
    {Mutant::kUntilIgnored, "end of what may be sent ignored"},
    {Mutant::kDrainWaitsForHeld, "drain waits for held steps"},
    {Mutant::kAsksBeforeFirstWord, "asks before the first word"},
    {Mutant::kEmptyListObeyed, "new dispatcher's empty list obeyed"},
    {Mutant::kNextNeedsSlot, "next needs a slot"},
};

History Without(History history, const std::vector<std::size_t>& faults) {
  std::vector<Fault> kept;
  for (std::size_t i = 0; i < history.faults.size(); ++i) {
    if (std::find(faults.begin(), faults.end(), i) == faults.end()) {
      kept.push_back(history.faults[i]);
    }
  }
  history.faults = kept;
  return history;
}

/// Returns the faults without which the history still breaks an invariant. Tries each in turn.
std::vector<std::size_t> Shrink(const History& history) {
  std::vector<std::size_t> without;
  for (std::size_t i = 0; i < history.faults.size(); ++i) {
    without.push_back(i);
    if (World(Without(history, without)).Run().empty()) without.pop_back();
  }
  return without;
}

void Report(std::uint64_t seed, const std::string& failure) {
  const History history = DrawHistory(seed);
  const std::vector<std::size_t> without = Shrink(history);
  const History small = Without(history, without);
  fmt::print("{}\n{}shrunk to {} of {} faults: {}\nrun it again with: sim --seed {}{} --log\n",
             failure, Describe(small), small.faults.size(), history.faults.size(),
             World(small).Run(), seed,
             without.empty() ? "" : fmt::format(" --without {}", fmt::join(without, ",")));
}

struct Counters {
  std::uint64_t histories = 0;
  std::uint64_t failing_seed = 0;
  std::string failure;
  Counts counts;
};

/// Runs histories of consecutive seeds, `threads` at a time, until one fails.
Counters RunMany(std::uint64_t first, std::uint64_t histories, [[maybe_unused]] Mutant mutant,
                 unsigned threads) {
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> stop{false};
  Mutex mutex;
  Counters counters;
  const auto work = [&] {
#ifdef MILLRACE_MUTANTS
    active_mutant = mutant;
#endif
    while (!stop) {
      const std::uint64_t n = next++;
      if (n >= histories) return;
      World world(DrawHistory(first + n));
      const std::string failure = world.Run();
      MutexLock lock(mutex);
      ++counters.histories;
      counters.counts.Add(world.counts());
      if (failure.empty()) continue;
      stop = true;
      if (counters.failure.empty() || first + n < counters.failing_seed) {
        counters.failure = failure;
        counters.failing_seed = first + n;
      }
    }
  };
  std::vector<std::thread> pool;
  for (unsigned i = 0; i < threads; ++i) pool.emplace_back(work);
  for (std::thread& thread : pool) thread.join();
  return counters;
}

int Histories(std::uint64_t first, std::uint64_t histories, unsigned threads) {
  const auto began = std::chrono::steady_clock::now();
  const Counters counters = RunMany(first, histories, Mutant::kNoMutant, threads);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  fmt::print("{} histories in {:.1f} s: {}\n", counters.histories, took.count(),
             counters.counts.ToString());
  if (counters.failure.empty()) return 0;
  Report(counters.failing_seed, counters.failure);
  return 1;
}

int One(std::uint64_t seed, const std::vector<std::size_t>& without, bool log) {
  const History history = Without(DrawHistory(seed), without);
  World world(history);
  world.keep_log = log;
  const std::string failure = world.Run();
  for (const std::string& line : world.log) fmt::print("{}\n", line);
  fmt::print("{}{}\n", Describe(history), failure.empty() ? "nothing broke" : failure);
  return failure.empty() ? 0 : 1;
}

int Mutants(const std::string& only, std::uint64_t histories, unsigned threads) {
  int caught = 0;
  int tried = 0;
  fmt::print("{:32} {:>9}  {}\n", "bug", "histories", "caught as");
  for (const MutantName& name : kMutantNames) {
    if (std::string_view(name.name).find(only) == std::string_view::npos) continue;
    ++tried;
    const Counters counters = RunMany(1, histories, name.mutant, threads);
    fmt::print("{:32} {:>9}  {}\n", name.name, counters.histories,
               counters.failure.empty() ? "SURVIVED" : counters.failure);
    std::fflush(stdout);
    caught += counters.failure.empty() ? 0 : 1;
  }
  fmt::print("{} of {} bugs caught\n", caught, tried);
  return caught == tried ? 0 : 1;
}

int Main(int argc, char** argv) {
  CommandLine program("Simulated histories of dispatchers, workers and trainers.", argv[0]);
  std::uint64_t histories = 1000;
  std::uint64_t first = 1;
  std::uint64_t seed = 0;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::size_t> without;
  bool log = false;
  bool mutants = false;
  std::string only;
  program.AddOption("--histories", &histories, "number of histories to run");
  program.AddOption("--first-seed", &first, "seed of the first history");
  program.AddOption("--seed", &seed, "run only the history of this seed");
  program.AddOption("--without", &without, "numbers of faults to leave out").Delimiter(',');
  program.AddOption("--threads", &threads, "number of histories that run at a time");
  program.AddFlag("--log", log, "print what happens in the history of --seed");
  program.AddFlag("--mutants", mutants,
                  "run with each deliberate bug, and check that it is caught");
  program.AddOption("--only", &only, "of the deliberate bugs, those whose name has this text");
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  if (mutants) return Mutants(only, histories, threads);
  if (seed != 0) return One(seed, without, log);
  return Histories(first, histories, threads);
}

}  // namespace
}  // namespace millrace::sim

int main(int argc, char** argv) { return millrace::sim::Main(argc, argv); }
