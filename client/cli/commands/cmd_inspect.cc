// `millrace inspect`: shows a pipeline after parsing, a dataset's contents, or the stages that
// exist.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/offline/inspect_dataset.h"
#include "client/cli/offline/inspect_pipeline.h"
#include "client/cli/offline/offline.h"

namespace millrace::cli {
namespace {

struct InspectOptions {
  OfflineOptions offline;
  bool stages = false;
  SampleOptions sample;
};

Status InspectPlan(const InspectOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(LocalPlans offline, OpenOffline(options.offline));
  MILLRACE_RETURN_IF_ERROR(PrintLine(DescribePipeline(offline.pipeline())));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, offline.Compile());
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, DescribePlan(*plan, options.sample));
  std::fputs(text.c_str(), stdout);
  return OkStatus();
}

Status InspectPipeline(const InspectOptions& options) {
  PipelineSource source;
  source.name = options.offline.pipeline_file;
  source.variant = options.offline.variant;
  source.overrides = options.offline.overrides;
  MILLRACE_ASSIGN_OR_RETURN(source.yaml, ReadTextFile(source.name));
  MILLRACE_ASSIGN_OR_RETURN(const Pipeline pipeline, Pipeline::Parse(source));
  std::fputs(DescribePipeline(pipeline).c_str(), stdout);
  return OkStatus();
}

Status RunInspect(const InspectOptions& options) {
  const std::string& path = options.offline.pipeline_file;
  if (options.stages) std::fputs(DescribeStages(StageTable::Default()).c_str(), stdout);
  if (path.empty()) {
    return options.stages
               ? OkStatus()
               : InvalidArgument("expected a pipeline file, a dataset's folder or --stages");
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    if (!options.offline.variant.empty() || !options.offline.overrides.empty() ||
        !options.offline.datasets.empty()) {
      return InvalidArgument(fmt::format(
          "{} is a folder; --dataset, --variant and --set belong to a pipeline file", path));
    }
    return InspectDataset(path, options.offline.index_file, options.offline.skip_bad);
  }
  return options.offline.datasets.empty() ? InspectPipeline(options) : InspectPlan(options);
}

}  // namespace

void AddInspectCommand(Tool& tool) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      tool.Add("inspect", "print what a pipeline comes down to, or what a dataset holds",
               "  millrace inspect train.yaml\n"
               "  millrace inspect train.yaml --variant valid --set batch.size=64\n"
               "  millrace inspect train.yaml --dataset stdlib=/data/stdlib --world-size 8\n"
               "  millrace inspect /data/stdlib\n"
               "  millrace inspect --stages\n",
               [options] { return RunInspect(*options); });
  options->offline.AddTo(command);
  command->get_option("pipeline")
      ->required(false)
      ->type_name("PIPELINE|DIR")
      ->description("pipeline file (YAML), or a dataset's folder");
  command->add_flag("--stages", options->stages,
                    "print every stage's parameters, defaults and help");
  command
      ->add_option("--sample", options->sample.examples,
                   "with --dataset: examples to build for the figures; 0: all of an epoch")
      ->type_name("N")
      ->transform(WholeNumber())
      ->needs("--dataset")
      ->capture_default_str();
  command
      ->add_option("--world-size", options->sample.world_size, "with --dataset: ranks of the job")
      ->type_name("W")
      ->transform(WholeNumber(1, kMaxWorldSize))
      ->needs("--dataset")
      ->capture_default_str();
}

}  // namespace millrace::cli
