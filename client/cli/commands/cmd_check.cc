// `millrace check`: tries the plugins that a pipeline names: imports them, builds examples in two
// processes, in other groups and in opposite orders, compares their bytes, and says what an example
// costs.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/offline/offline.h"
#include "client/cli/progress.h"
#include "common/operations/python_function.h"
#include "server/kinds/python/plugin_source.h"
#include "server/kinds/python/python_dataset.h"
#include "server/plan/pipeline_parts.h"
#include "server/plan/tensors/function_probe.h"
#include "server/plan/tensors/grouped_probe.h"
#include "server/plugin/plugin_config.h"
#include "server/plugin/plugin_probe.h"
#include "server/plugin/plugin_registry.h"
#include "server/source/plan_parts.h"

namespace millrace::cli {
namespace {

constexpr std::uint64_t kCheckedExamples = 200;

void PrintFacts(const PluginObject& object, const PluginFacts& facts) {
  fmt::print("plugin        {}\nfiles         {}\npython        {}, numpy {}\nlength        {}\n",
             object.ToString(), facts.files.ToHex(), facts.python, facts.numpy, facts.length);
  for (const PluginTensor& tensor : facts.tensors) {
    fmt::print("tensor        {}: {}\n", tensor.name, TensorTypeText(tensor.type));
  }
  for (const PluginFacts::Column& column : facts.columns) {
    fmt::print("column        {}: {}\n", column.name,
               column.dtype ? DTypeName(*column.dtype) : "measured");
  }
}

/// The functions that tensors of the pipeline, or of a branch, are made by.
void PrintFunctions(const std::string& prefix, const TensorsPart& part) {
  for (const TensorDefinition& definition : part.definitions) {
    if (definition.operation != kPythonOperation) continue;
    const auto function = ReadPythonFunction(definition.params);
    if (!function.ok()) continue;  // compiling says it better
    for (const PythonFunction::Output& output : function->outputs) {
      fmt::print("function      {}: {}{}{}{}: {}\n", function->object, prefix, definition.name,
                 output.name.empty() ? "" : ".", output.name, TensorTypeText(output.type));
    }
  }
}

constexpr std::size_t kAtOnce = 32;  // examples, as in a batch
/// A source that fails everywhere takes long: each failure costs a process.
constexpr std::size_t kMostFailures = 3;

/// The outcomes of the examples that were built, in the order of their ids.
struct CheckedRun {
  std::vector<FunctionProbe> examples;
  std::uint64_t bytes = 0;  // of all
  double seconds = 0;       // for all
  std::size_t dropped = 0;
  std::size_t failed = 0;

  std::size_t built() const { return examples.size() - dropped - failed; }
};

/// Builds examples, `group` at once, and prints the first one that fails as soon as it does.
Result<CheckedRun> RunExamples(const Source& source, std::span<const ExampleId> ids,
                               std::size_t group, const char* what) {
  CheckedRun run;
  Progress progress(what, "examples", ids.size());
  GroupOptions options;
  options.size = group;
  options.most_failures = kMostFailures;
  options.on_example = [&run, &progress](const FunctionProbe& example) {
    progress.Add(1);
    if (!example.tensors.empty()) return;
    if (example.failure.empty()) {
      ++run.dropped;
    } else if (++run.failed == 1) {
      fmt::print("failed        {}\n", example.failure);
      std::fflush(stdout);
    }
  };
  const auto began = std::chrono::steady_clock::now();
  MILLRACE_ASSIGN_OR_RETURN(GroupedProbes built, BuildInGroups(source, ids, options));
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  run.examples = std::move(built.examples);
  run.bytes = built.bytes;
  return run;
}

/// Prints what was built and what it cost.
void PrintRun(const CheckedRun& run, std::size_t wanted) {
  const std::string of =
      run.examples.size() < wanted ? fmt::format(", of {} to be tried", wanted) : "";
  fmt::print("examples      {} built, {} dropped, {} failed{}\n", run.built(), run.dropped,
             run.failed, of);
  if (run.examples.empty() || run.failed > 0 || run.seconds <= 0) return;
  const auto count = static_cast<double>(run.examples.size());
  fmt::print("cost          {:.3f} ms an example, {:.0f} examples/s and {:.1f} MB/s a process\n",
             1e3 * run.seconds / count, count / run.seconds,
             static_cast<double>(run.bytes) / run.seconds / 1e6);
}

/// Builds the same examples in another process one by one, from the last to the first: what they
/// are must depend neither on what was built before nor on what is built with them.
Status CompareAlone(const Source& source, std::vector<ExampleId> ids, const CheckedRun& together) {
  std::reverse(ids.begin(), ids.end());
  MILLRACE_ASSIGN_OR_RETURN(CheckedRun alone, RunExamples(source, ids, 1, "comparing"));
  std::reverse(alone.examples.begin(), alone.examples.end());
  // An example that fails here alone is the first one from the end.
  const std::size_t count = std::min(alone.examples.size(), together.examples.size());
  const auto ends = std::span(together.examples).last(count);
  const auto difference =
      FirstDifference(source.tensors(), ends, std::span(alone.examples).last(count));
  if (difference) {
    return FailedPrecondition(fmt::format(
        "{}: two processes give different bytes; an example has to depend on its id, the arguments "
        "and the rng alone, not on what is built before it or at once with it; what draws takes "
        "its chance from `example(i, epoch, rng)`, an argument `rng` of a function, or `random: "
        "true`",
        *difference));
  }
  if (together.built() == 0) {
    fmt::print("same bytes    not compared: no example was built\n");
  } else {
    fmt::print("same bytes    in two processes, in other groups and in opposite order\n");
  }
  return OkStatus();
}

/// The plan of the pipeline, with processes of its own.
struct CheckedPlan {
  LocalPlans plans;
  std::shared_ptr<const Plan> plan;
};

Result<CheckedPlan> Compile(const OfflineOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(LocalPlans plans, OpenOffline(options));
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, plans.Compile());
  return CheckedPlan{std::move(plans), std::move(plan)};
}

/// Prints what the plugins of a pipeline, or of a branch, say of themselves.
Status PrintPlugins(LocalPlans& plans, const std::string& prefix, const Pipeline& pipeline) {
  for (const PipelineBranch& branch : pipeline.branches()) {
    MILLRACE_RETURN_IF_ERROR(PrintPlugins(plans, prefix + branch.name + ".", *branch.pipeline));
  }
  MILLRACE_ASSIGN_OR_RETURN(const PlanParts parts, PartsOfPipeline(pipeline));
  if (parts.Get<SourcePart>().name == kPythonKind) {
    MILLRACE_ASSIGN_OR_RETURN(PluginObject object, PluginObjectOf(parts));
    MILLRACE_ASSIGN_OR_RETURN(const auto dataset, plans.library().Open(pipeline.dataset()));
    const bool is_plugin = pipeline.dataset().starts_with(kPluginIdPrefix);
    if (!is_plugin) object.folder = dataset->dir().string();
    MILLRACE_ASSIGN_OR_RETURN(const auto pool, plans.plugins()->Pool(object));
    PrintFacts(object, pool->facts());
  }
  PrintFunctions(prefix, pipeline.tensors());
  return OkStatus();
}

Status Check(const OfflineOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(CheckedPlan first, Compile(options));
  const Source& source = *first.plan->source();
  if (source.facts().code.empty()) {
    return InvalidArgument(
        fmt::format("{}: it names no plugin: there is nothing to check", options.pipeline_file));
  }
  MILLRACE_RETURN_IF_ERROR(PrintPlugins(first.plans, "", first.plans.pipeline()));
  if (source.facts().varies) fmt::print("chance        examples change from epoch to epoch\n");
  std::fflush(stdout);
  std::vector<ExampleId> ids;
  for (const std::uint64_t id : SpreadExamples(source.examples(), kCheckedExamples)) {
    ids.emplace_back(id);
  }
  MILLRACE_ASSIGN_OR_RETURN(const CheckedRun run, RunExamples(source, ids, kAtOnce, "checking"));
  PrintRun(run, ids.size());
  if (run.examples.size() == ids.size()) {
    MILLRACE_ASSIGN_OR_RETURN(const CheckedPlan second, Compile(options));
    MILLRACE_RETURN_IF_ERROR(CompareAlone(*second.plan->source(), ids, run));
  }
  if (run.failed == 0) return OkStatus();
  return FailedPrecondition(
      fmt::format("{} of {} examples cannot be built; `drop` names exceptions that leave an "
                  "example out",
                  run.failed, run.examples.size()));
}

}  // namespace

void AddCheckCommand(Tool& tool) {
  const auto options = std::make_shared<OfflineOptions>();
  CommandLine& command =
      tool.Add("check", "Try the plugins that a pipeline names, and say what an example costs",
               "  millrace check train.yaml --plugin speech=/srv/plugins\n",
               [options] { return Check(*options); });
  options->AddTo(command);
}

}  // namespace millrace::cli
