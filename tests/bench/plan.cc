// Measures compiling plans: the time over an index that is in memory, and the memory of a plan, for
// each example and for each definition.

#include <time.h>

#include <cstdio>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "common/command_line/command_line.h"
#include "server/catalog/product_kinds.h"
#include "server/dispatcher/service/plan_compiler.h"
#include "server/kinds/coq/coq_dataset.h"
#include "server/plan/facts/plan_facts.h"
#include "server/plan/make_plan_facts.h"
#include "server/plan/plan_library.h"
#include "tests/bench/heap.h"
#include "tests/bench/limits.h"

namespace millrace::bench {
namespace {

struct Case {
  std::string name;
  std::string keys;  // more lines for the pipeline
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"all", ""},
      {"hash split",
       "split: {method: hash, proportions: [9, 1], seed: 0, take: 0}\nshuffle: {seed: 0}\n"},
      {"faithful only", "filter: {exclude_not_faithful: true}\n"},
      {"no none arguments", "filter: {exclude_none_arguments: true}\n"},
      {"tactics of 5 steps", "filter: {required_tactic_occurrence: 5}\n"},
      {"spine only", "filter: {restrict_to_spine: true}\n"},
      {"split and filters",
       "split: {method: hash, proportions: [9, 1], seed: 0, take: 0}\nshuffle: {seed: 0}\n"
       "filter: {exclude_not_faithful: true, exclude_none_arguments: true,\n"
       "         restrict_to_spine: true, required_tactic_occurrence: 5}\n"},
  };
  return cases;
}

double ProcessCpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Measured {
  double wall = 0;
  double cpu = 0;
  std::uint64_t held = 0;
  std::uint64_t peak = 0;
  std::uint64_t build = 0;  // memory that the first batches added
  std::uint64_t facts = 0;  // memory of the facts that a dispatcher keeps
  std::uint64_t examples = 0;
};

Result<Measured> Measure(PlanLibrary& library, const PipelineSource& source) {
  Measured best;
  for (int round = 0; round < 3; ++round) {
    MILLRACE_ASSIGN_OR_RETURN(const Pipeline pipeline, library.Parse(source));
    Measured now;
    const std::uint64_t before = Heap::held();
    Heap::ResetPeak();
    const double cpu = ProcessCpuSeconds();
    const auto began = std::chrono::steady_clock::now();
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, library.Compile(pipeline));
    now.wall = Seconds(began);
    now.cpu = ProcessCpuSeconds() - cpu;
    now.held = Heap::held() - before;
    now.peak = Heap::peak() - before;
    now.examples = plan->counts().selected;
    {
      const std::unique_ptr<BatchScratch> scratch = plan->NewScratch();
      const auto first = static_cast<std::uint32_t>(std::min<std::uint64_t>(64, now.examples));
      MILLRACE_RETURN_IF_ERROR(plan->Batch(0, {0, first}, *scratch).status());
    }
    now.build = Heap::held() - before - now.held;
    {
      const PlanFacts facts = *WithPipeline(plan->facts(), pipeline);
      plan.reset();
      now.facts = Heap::held() - before;
    }
    if (round == 0 || now.wall < best.wall) {
      now.build = std::max(now.build, best.build);
      best = now;
    }
  }
  return best;
}

Status Run(const std::string& dir, const std::string& index, bool json) {
  PlanLibraryOptions options;
  options.kinds = ProductKinds();
  options.datasets["data"] = {.dir = dir, .index_file = index};
  PlanLibrary library(options, MakeNullLogger());
  const auto began = std::chrono::steady_clock::now();
  MILLRACE_ASSIGN_OR_RETURN(const auto found, library.Open("data"));
  const double opened = Seconds(began);
  const auto dataset = std::dynamic_pointer_cast<const CoqDataset>(found);
  if (dataset == nullptr) return InvalidArgument(dir + ": expected a Coq dataset");
  const DatasetIndex& records = dataset->index();
  const auto examples = static_cast<double>(records.outcomes().size());
  const auto definitions = static_cast<double>(records.definitions().size());
  if (!json) {
    fmt::print("dataset    {} files, {} definitions, {} proof states; opened in {:.1f} ms\n",
               records.files().size(), records.definitions().size(), records.outcomes().size(),
               1e3 * opened);
    fmt::print("{:<20} {:>10} {:>8} {:>8} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "plan",
               "in epoch", "wall s", "CPU s", "held B", "B/example", "B/defin.", "peak B/ex",
               "build B", "facts B");
  }
  for (const Case& each : Cases()) {
    PipelineSource source;
    source.yaml =
        "millrace: 1\ndataset: data\nsource: proof_states\nbatch: {size: 512}\n" + each.keys;
    MILLRACE_ASSIGN_OR_RETURN(const Measured m, Measure(library, source));
    const double per_example = static_cast<double>(m.held) / examples;
    if (json) {
      const auto line = [&](const char* what, double value, const char* unit,
                            const char* limit_name, double limit) {
        fmt::print(R"({{"name":"plan {}","value":{},"unit":"{}","limit_name":"{}","limit":{},)"
                   R"("params":{{"plan":"{}","examples":{},"definitions":{}}}}})"
                   "\n",
                   what, value, unit, limit_name, limit, each.name, examples, definitions);
      };
      line("compile", m.wall, "s", "bar", 1);
      line("compile cpu", m.cpu, "s", "bar", 1);
      line("bytes an example", per_example, "B", "bar", 2);
      line("peak bytes an example", static_cast<double>(m.peak) / examples, "B", "", 0);
      line("bytes of a dispatcher", static_cast<double>(m.facts), "B", "", 0);
      continue;
    }
    fmt::print("{:<20} {:>10} {:>8.3f} {:>8.3f} {:>12} {:>9.3f} {:>9.2f} {:>9.2f} {:>9} {:>9}\n",
               each.name, m.examples, m.wall, m.cpu, m.held, per_example,
               static_cast<double>(m.held) / definitions, static_cast<double>(m.peak) / examples,
               m.build, m.facts);
  }
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  std::string dir;
  std::string index;
  bool json = false;
  millrace::CommandLine app("Compile time and memory of plans, over a dataset of proof states.",
                            argv[0]);
  app.AddOption("DATASET", &dir, "folder of a dataset").Required();
  app.AddOption("--index", &index, "its index; default: in the folder");
  app.AddFlag("--json", json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::Run(dir, index, json);
  if (!status.ok()) std::fprintf(stderr, "plan: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
