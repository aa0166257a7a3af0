// `millrace size`: says how many cores, workers, how much memory, network and disk a training
// needs, from batches that it builds here.

#include <algorithm>
#include <memory>
#include <string>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/offline/measure_batches.h"
#include "client/cli/offline/offline.h"
#include "client/cli/progress.h"
#include "client/cli/size/describe_size.h"
#include "client/session_options.h"
#include "common/base/plugin_id.h"
#include "common/system/host.h"

namespace millrace::cli {
namespace {

struct SizeArguments {
  OfflineOptions offline;
  std::uint32_t gpus = 0;
  double step_ms = 0;
  double reserve_percent = 25;
  std::uint32_t worker_cores = 0;  // 0: those of this host
  double seconds = 10;
  bool json = false;
};

/// Bytes of all files of the pipeline's datasets. Files of plugins are code, and do not count.
Result<double> DatasetBytes(LocalPlans& plans) {
  double bytes = 0;
  for (const std::string& id : plans.pipeline().datasets()) {
    if (id.starts_with(kPluginIdPrefix)) continue;
    MILLRACE_ASSIGN_OR_RETURN(const auto dataset, plans.library().Open(id));
    for (const DatasetFile& file : dataset->Files()) bytes += static_cast<double>(file.size);
  }
  return bytes;
}

/// Bytes of one process of a plugin: of the largest, if there are several plugins.
double PythonProcessBytes(const LocalPlans& plans) {
  if (plans.plugins() == nullptr) return 0;
  std::uint64_t largest = 0;
  for (const PluginPoolStats& pool : plans.plugins()->Stats()) {
    // Commands run one process for each object.
    largest = std::max(largest, pool.memory_bytes);
  }
  return static_cast<double>(largest);
}

Result<SizeFacts> Measure(const SizeArguments& options, const HostLimits& host) {
  MILLRACE_ASSIGN_OR_RETURN(LocalPlans offline, OpenOffline(options.offline));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, offline.Compile());
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan->facts().Steps(options.gpus));
  SizeFacts facts;
  // The bar begins with the first batch, after errors that stand in the way of all.
  std::unique_ptr<Progress> bar;
  MeasureOptions measure{.world_size = options.gpus, .seconds = options.seconds};
  measure.progress = [&bar](std::uint64_t built) {
    if (!bar) bar = std::make_unique<Progress>("building a sample", "batches", 0);
    bar->Set(built);
  };
  MILLRACE_ASSIGN_OR_RETURN(facts.sample, MeasureBatches(*plan, measure));
  bar.reset();
  MILLRACE_ASSIGN_OR_RETURN(const double dataset_bytes, DatasetBytes(offline));
  facts.dataset_bytes = Rounded(dataset_bytes);
  facts.python_process_bytes = Rounded(PythonProcessBytes(offline));
  facts.epoch_batches = steps.StepsFrom(0) * options.gpus;
  facts.prefetch_bytes = Rounded(static_cast<double>(SessionOptions().prefetch_bytes));
  facts.host_memory_bytes = Rounded(static_cast<double>(host.memory_bytes));
  return facts;
}

Status RunSize(const SizeArguments& options) {
  const HostLimits host = ReadHostLimits();
  SizeRequest request;
  request.gpus = options.gpus;
  request.step_seconds = options.step_ms / 1000;
  request.reserve = options.reserve_percent / 100;
  request.worker_cores =
      options.worker_cores > 0 ? options.worker_cores : static_cast<std::uint32_t>(host.cpus);
  MILLRACE_ASSIGN_OR_RETURN(const SizeFacts facts, Measure(options, host));
  const SizeAnswer answer = AnswerSize(request, facts);
  if (options.json) return PrintLine(SizeJson(request, facts, answer));
  std::string text = DescribeSize(request, facts, answer);
  text.pop_back();  // PrintLine ends the last line
  return PrintLine(text);
}

}  // namespace

void AddSizeCommand(Tool& tool) {
  const auto options = std::make_shared<SizeArguments>();
  CommandLine& command = tool.Add(
      "size", "Say how many cores, workers, how much memory, network and disk a training needs",
      "  millrace size train.yaml --dataset stdlib=/data/stdlib --gpus 8 --step-ms 120\n"
      "Builds a sample of batches on one thread, without a server, and shows the arithmetic.\n",
      [options] { return RunSize(*options); });
  options->offline.AddTo(command);
  command.AddOption("--gpus", &options->gpus, "GPUs, each with one consumer")
      .Required()
      .TypeName("N")
      .Check(WholeNumber(1, kMaxWorldSize));
  command
      .AddOption("--step-ms", &options->step_ms,
                 "milliseconds of one step of the training, in which each GPU takes one batch")
      .Required()
      .TypeName("MS")
      .Check(Decimal(0.01, 1e9, "milliseconds"));
  command
      .AddOption("--reserve", &options->reserve_percent,
                 "percent of the cores that are added for what is not measured")
      .TypeName("PERCENT")
      .Check(Decimal(0, 1000, "percent"))
      .ShowDefault();
  command
      .AddOption("--worker-cores", &options->worker_cores,
                 "cores of one worker (default: the CPUs of this host)")
      .TypeName("N")
      .Check(WholeNumber(1, kMaxThreads));
  command
      .AddOption("--seconds", &options->seconds,
                 "the sample ends after so long, even if its mean is not steady yet")
      .Check(Seconds(0))
      .TypeName("SECONDS")
      .ShowDefault();
  command.AddFlag("--json", options->json, "print one JSON object");
}

}  // namespace millrace::cli
