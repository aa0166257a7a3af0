// Runs simulated fleets and compares their rates with that of an ideal fleet.
//
//   fleet              all bars; ends with 1 if one is missed
//   fleet --only 8     the bars whose name has this text
//   fleet --mutants    with each deliberate bug of dealing: each has to miss a bar

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "common/base/mutant.h"
#include "common/command_line/command_line.h"
#include "tests/sim/fleet/scaling.h"

namespace millrace::sim {
namespace {

struct MutantName {
  Mutant mutant;
  const char* name;
};
constexpr MutantName kSpeedMutants[] = {
    {Mutant::kNextNeedsSlot, "next needs a slot"},
    {Mutant::kBuiltCountsAsLate, "built counts as late"},
    {Mutant::kBuiltTakesSlots, "built takes slots"},
    {Mutant::kNothingSkipped, "no skipping for slow members"},
    {Mutant::kCopiesUnlimited, "copies unlimited"},
    {Mutant::kCopyToLateMember, "a copy to a late member"},
    {Mutant::kUnknownTimeIsZero, "unknown time is 0"},
    {Mutant::kOwnHostOnly, "own host only"},
    {Mutant::kListsNeverGrow, "lists never grow"},
    {Mutant::kLoopWaitsCounted, "the loop's step counts waits"},
    {Mutant::kTwinsIgnored, "twins ignored"},
    {Mutant::kBothTwinsMove, "both twins move"},
};

int Bars(const std::string& only) {
  int missed = 0;
  int run = 0;
  for (const ScalingBar& bar : ScalingBars()) {
    if (bar.name.find(only) == std::string::npos) continue;
    const double ratio = bar.ratio();
    const bool ok = ratio >= bar.least;
    fmt::print("{} {}: {:.3f} (>= {})\n", ok ? "ok    " : "MISSED", bar.name, ratio, bar.least);
    std::fflush(stdout);
    missed += ok ? 0 : 1;
    ++run;
  }
  fmt::print("{} of {} bars missed\n", missed, run);
  return missed == 0 ? 0 : 1;
}

int Mutants() {
  int caught = 0;
  for (const MutantName& name : kSpeedMutants) {
#ifdef MILLRACE_MUTANTS
    active_mutant = name.mutant;
#endif
    std::string by = "SURVIVED";
    for (const ScalingBar& bar : ScalingBars()) {
      const double ratio = bar.ratio();
      if (ratio >= bar.least) continue;
      by = fmt::format("{}: {:.3f}", bar.name, ratio);
      ++caught;
      break;
    }
    fmt::print("{:32} {}\n", name.name, by);
    std::fflush(stdout);
  }
  fmt::print("{} of {} bugs caught\n", caught, std::size(kSpeedMutants));
  return caught == static_cast<int>(std::size(kSpeedMutants)) ? 0 : 1;
}

int Main(int argc, char** argv) {
  CommandLine program("Simulated fleets, beside ideal ones.", argv[0]);
  std::string only;
  bool mutants = false;
  program.AddOption("--only", &only, "text in the names of the bars to run");
  program.AddFlag("--mutants", mutants, "run with each deliberate bug, and check that it is caught");
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  return mutants ? Mutants() : Bars(only);
}

}  // namespace
}  // namespace millrace::sim

int main(int argc, char** argv) { return millrace::sim::Main(argc, argv); }
