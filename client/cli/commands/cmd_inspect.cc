// `millrace inspect`: shows a pipeline after parsing, a dataset's contents, or the stages that
// exist.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/offline/dataset_folder.h"
#include "client/cli/offline/describe_operations.h"
#include "client/cli/offline/describe_tensors.h"
#include "client/cli/offline/inspect_pipeline.h"
#include "client/cli/offline/offline.h"
#include "common/system/stderr_logger.h"
#include "server/catalog/product_kinds.h"

namespace millrace::cli {
namespace {

struct InspectOptions {
  OfflineOptions offline;
  bool stages = false;
  bool operations = false;
  bool plan = false;
  bool dot = false;
  SampleOptions sample;
  std::vector<CommandOption> compiling;  // with one of these, the pipeline is compiled
};

/// What `--plan` and `--dot` print.
Status InspectTensors(const InspectOptions& options, const Plan& plan) {
  if (plan.computed() == nullptr) {
    return InvalidArgument(fmt::format(
        "{}: the pipeline computes no tensors; the keys tensors, output and pad define some",
        options.offline.pipeline_file));
  }
  if (options.dot) return PrintLine(TensorPlanDot(*plan.computed()));
  const std::vector<ExampleId> examples = SampleOf(plan, options.sample.examples);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<TensorCost> costs, MeasureTensors(plan, examples));
  return PrintLine(DescribeTensorPlan(*plan.computed(), costs));
}

/// The kind of each dataset of the pipeline: "graph", or "a (graph), b (graph)".
std::string KindsOf(LocalPlans& offline) {
  const std::vector<std::string> datasets = offline.pipeline().datasets();
  if (datasets.size() == 1) {
    const auto status = offline.library().GetStatus(datasets.front());
    return status.ok() ? status->kind : "";
  }
  std::string text;
  for (const std::string& id : datasets) {
    text += (text.empty() ? "" : ", ") + DatasetWithKind(offline, id);
  }
  return text;
}

Status InspectPlan(const InspectOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(LocalPlans offline, OpenOffline(options.offline));
  if (options.plan || options.dot) {
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, offline.Compile());
    return InspectTensors(options, *plan);
  }
  MILLRACE_RETURN_IF_ERROR(PrintLine(DescribePipeline(offline.pipeline())));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, offline.Compile());
  MILLRACE_RETURN_IF_ERROR(PrintLine("kind           " + KindsOf(offline)));
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, DescribePlan(*plan, options.sample));
  std::fputs(text.c_str(), stdout);
  // A job of a pipeline without a step would do nothing.
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps,
                            plan->facts().Steps(options.sample.world_size));
  return steps.Start({}).status();
}

Status InspectPipeline(const InspectOptions& options) {
  PipelineSource source;
  source.name = options.offline.pipeline_file;
  source.variant = options.offline.variant;
  source.overrides = options.offline.overrides;
  MILLRACE_ASSIGN_OR_RETURN(source.yaml, ReadTextFile(source.name));
  MILLRACE_ASSIGN_OR_RETURN(const Pipeline pipeline, Pipeline::Parse(source, ProductStages()));
  std::fputs(DescribePipeline(pipeline).c_str(), stdout);
  return OkStatus();
}

Status InspectDataset(const OfflineOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const DatasetFolder folder, FindDatasetFolder(options.pipeline_file));
  DatasetOpenOptions open;
  open.index_file = options.index_file;
  open.skip_bad = options.skip_bad;
  open.logger = MakeStderrLogger("inspect", LogLevel::kInfo, false);
  MILLRACE_ASSIGN_OR_RETURN(
      const std::string text,
      WithProgress("indexing", open, [&folder](const DatasetOpenOptions& with_progress) {
        return folder.kind->Inspect(folder.dir, with_progress);
      }));
  std::fputs((KindLine(folder) + text).c_str(), stdout);
  return OkStatus();
}

Status RunInspect(const InspectOptions& options) {
  const std::string& path = options.offline.pipeline_file;
  if (options.stages) std::fputs(DescribeStages(ProductStages()).c_str(), stdout);
  if (options.operations) {
    std::fputs(DescribeOperations(OperationTable::Default()).c_str(), stdout);
  }
  if (path.empty()) {
    return options.stages || options.operations
               ? OkStatus()
               : InvalidArgument(
                     "expected a pipeline file, a dataset's folder, --stages or "
                     "--operations");
  }
  std::error_code error;
  if (std::filesystem::is_directory(ParseDatasetPlace(path).dir, error)) {
    if (!options.offline.variant.empty() || !options.offline.overrides.empty() ||
        !options.offline.datasets.empty()) {
      return InvalidArgument(fmt::format(
          "{} is a folder; --dataset, --variant and --set belong to a pipeline file", path));
    }
    return InspectDataset(options.offline);
  }
  const bool compiles =
      std::any_of(options.compiling.begin(), options.compiling.end(),
                  [](const CommandOption& option) { return option.count() > 0; });
  return compiles ? InspectPlan(options) : InspectPipeline(options);
}

}  // namespace

void AddInspectCommand(Tool& tool) {
  const auto options = std::make_shared<InspectOptions>();
  CommandLine& command =
      tool.Add("inspect", "Print what a pipeline comes down to, or what a dataset holds",
               "  millrace inspect train.yaml\n"
               "  millrace inspect train.yaml --variant valid --set batch.size=64\n"
               "  millrace inspect train.yaml --dataset stdlib=/data/stdlib --world-size 8\n"
               "  millrace inspect train.yaml --dataset stdlib=/data/stdlib --plan\n"
               "  millrace inspect /data/stdlib\n"
               "  millrace inspect --stages\n"
               "  millrace inspect --operations\n",
               [options] { return RunInspect(*options); });
  options->offline.AddTo(command);
  command.Find("pipeline")
      ->Required(false)
      .TypeName("PIPELINE|DIR")
      .Help("pipeline file (YAML), or a dataset's folder");
  command.AddFlag("--stages", options->stages, "print every stage's parameters, defaults and help");
  command.AddFlag("--operations", options->operations,
                  "print every operation's inputs, parameters, defaults and help");
  command.AddFlag(
      "--plan", options->plan,
      "print every tensor: its operation, type and place, what it takes, and what travels");
  command.AddFlag("--dot", options->dot, "print the graph of tensors for Graphviz");
  command
      .AddOption("--sample", &options->sample.examples,
                 "examples to build for the figures; 0: all of an epoch")
      .TypeName("N")
      .Check(WholeNumber())
      .ShowDefault();
  command.AddOption("--world-size", &options->sample.world_size, "ranks of the job")
      .TypeName("W")
      .Check(WholeNumber(1, kMaxWorldSize))
      .ShowDefault();
  for (const char* const name :
       {"--dataset", "--plugin", "--plan", "--dot", "--sample", "--world-size"}) {
    options->compiling.push_back(*command.Find(name));
  }
}

}  // namespace millrace::cli
