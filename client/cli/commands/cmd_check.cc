// `millrace check`: tries the plugins that a pipeline names: imports them, builds examples in two
// processes in opposite orders, compares their bytes, and says what an example costs.

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
#include "common/batch/arena.h"
#include "common/batch/batch_writer.h"
#include "common/operations/python_function.h"
#include "server/dataset/python/python_dataset.h"
#include "server/dataset/python/source/plugin_source.h"
#include "server/pipeline/functions/function_probe.h"
#include "server/pipeline/graph/plan_parts.h"
#include "server/plugin/plugin_config.h"
#include "server/plugin/plugin_probe.h"
#include "server/plugin/plugin_registry.h"

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

/// The outcomes of the examples, in the order of their ids.
struct CheckedRun {
  std::vector<FunctionProbe> examples;
  std::uint64_t bytes = 0;  // of all
  double seconds = 0;       // for all; 0: some failed
};

constexpr std::size_t kAtOnce = 32;

/// Builds the examples as batches are built.
Status Time(const Source& source, std::span<const ExampleId> ids, CheckedRun& run) {
  BufferPool pool;
  MILLRACE_ASSIGN_OR_RETURN(BatchWriter writer,
                            BatchWriter::Create(source.tensors(), source.expand(), pool));
  const std::unique_ptr<ExampleReader> reader = source.NewReader();
  const auto began = std::chrono::steady_clock::now();
  for (; !ids.empty(); ids = ids.subspan(std::min(kAtOnce, ids.size()))) {
    const auto some = ids.first(std::min(kAtOnce, ids.size()));
    writer.Begin({}, 0, 0, static_cast<std::uint32_t>(some.size()));
    const Status read = reader->Append(some, writer);
    if (read.code() == StatusCode::kAborted) return OkStatus();  // an example failed
    MILLRACE_RETURN_IF_ERROR(read);
    run.bytes += writer.pending_bytes();
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return OkStatus();
}

Result<CheckedRun> RunExamples(const Source& source, std::vector<ExampleId> ids, bool backwards) {
  if (backwards) std::reverse(ids.begin(), ids.end());
  CheckedRun run;
  MILLRACE_ASSIGN_OR_RETURN(run.examples, BuildProbes(source, 0, ids));
  MILLRACE_RETURN_IF_ERROR(Time(source, ids, run));
  if (backwards) std::reverse(run.examples.begin(), run.examples.end());
  return run;
}

/// Prints what was built and what it cost. The number of examples that failed.
std::size_t PrintRun(const CheckedRun& run) {
  std::size_t dropped = 0;
  std::size_t failed = 0;
  for (const FunctionProbe& example : run.examples) {
    if (!example.tensors.empty()) continue;
    if (example.failure.empty()) {
      ++dropped;
    } else if (++failed == 1) {
      fmt::print("failed        {}\n", example.failure);
    }
  }
  const auto count = static_cast<double>(run.examples.size());
  fmt::print("examples      {} built, {} dropped, {} failed\n",
             run.examples.size() - dropped - failed, dropped, failed);
  if (run.examples.empty() || run.seconds <= 0) return failed;
  fmt::print("cost          {:.3f} ms an example, {:.0f} examples/s and {:.1f} MB/s a process\n",
             1e3 * run.seconds / count, count / run.seconds,
             static_cast<double>(run.bytes) / run.seconds / 1e6);
  return failed;
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
  MILLRACE_ASSIGN_OR_RETURN(const PlanParts parts, PlanParts::FromPipeline(pipeline));
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
  if (source.code().empty()) {
    return InvalidArgument(
        fmt::format("{}: it names no plugin: there is nothing to check", options.pipeline_file));
  }
  MILLRACE_RETURN_IF_ERROR(PrintPlugins(first.plans, "", first.plans.pipeline()));
  if (source.varies()) fmt::print("chance        examples change from epoch to epoch\n");
  MILLRACE_ASSIGN_OR_RETURN(const CheckedPlan second, Compile(options));
  std::vector<ExampleId> ids;
  for (const std::uint64_t id : SpreadExamples(source.examples(), kCheckedExamples)) {
    ids.emplace_back(id);
  }
  MILLRACE_ASSIGN_OR_RETURN(const CheckedRun forwards, RunExamples(source, ids, false));
  MILLRACE_ASSIGN_OR_RETURN(const CheckedRun backwards,
                            RunExamples(*second.plan->source(), ids, true));
  const std::size_t failed = PrintRun(forwards);
  if (const auto difference =
          FirstDifference(source.tensors(), forwards.examples, backwards.examples)) {
    return FailedPrecondition(fmt::format(
        "{}: two processes give different bytes; an example has to depend on its id, the arguments "
        "and the rng alone",
        *difference));
  }
  fmt::print("same bytes    in two processes, in opposite orders\n");
  if (failed == 0) return OkStatus();
  return FailedPrecondition(
      fmt::format("{} of {} examples cannot be built; `drop` names exceptions that leave an "
                  "example out",
                  failed, ids.size()));
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
