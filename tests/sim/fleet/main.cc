// Runs simulated fleets and compares their rates with that of an ideal fleet.
//
//   fleet              all bars, in some ten minutes; ends with 1 if one is missed
//   fleet --quick      those that take seconds
//   fleet --only 8     the bars whose name has this text
//   fleet --mutants    with each deliberate bug of dealing: each has to miss a quick bar

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
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
// Three more bugs of dealing cost no fleet its rate: a copy to a late member, an unknown time of 0,
// and twins that both move. dealing_late_test.cc, dealing_test.cc and dealing_twins_test.cc have
// their rules.
constexpr MutantName kSpeedMutants[] = {
    {Mutant::kBuiltCountsAsLate, "built counts as late"},
    {Mutant::kBuiltTakesSlots, "built takes slots"},
    {Mutant::kNothingSkipped, "no skipping for slow members"},
    {Mutant::kCopiesUnlimited, "copies unlimited"},
    {Mutant::kOwnHostOnly, "own host only"},
    {Mutant::kListsNeverGrow, "lists never grow"},
    {Mutant::kLoopWaitsCounted, "the loop's step counts waits"},
    {Mutant::kTwinsIgnored, "twins ignored"},
};

int Bars(const std::string& only, bool quick) {
  std::vector<ScalingBar> bars = QuickBars();
  if (!quick) {
    for (ScalingBar& bar : LargeBars()) bars.push_back(std::move(bar));
  }
  int missed = 0;
  int run = 0;
  for (const ScalingBar& bar : bars) {
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
    for (const ScalingBar& bar : QuickBars()) {
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
  bool quick = false;
  bool mutants = false;
  program.AddOption("--only", &only, "text in the names of the bars to run");
  program.AddFlag("--quick", quick, "leave out fleets that take minutes");
  program.AddFlag("--mutants", mutants,
                  "run with each deliberate bug, and check that it is caught");
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  return mutants ? Mutants() : Bars(only, quick);
}

}  // namespace
}  // namespace millrace::sim

int main(int argc, char** argv) { return millrace::sim::Main(argc, argv); }
