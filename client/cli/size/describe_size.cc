#include "client/cli/size/describe_size.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "common/base/protocol_limits.h"
#include "common/json/json.h"

namespace millrace::cli {
namespace {

/// A standard error above this is told as noise.
constexpr double kQuiet = 0.02;

/// So many digits behind the point, without zeros at the end.
std::string Digits(double number, int behind_point) {
  std::string text = fmt::format("{:.{}f}", number, behind_point);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// Four significant digits, never with an exponent.
std::string NumberText(double number) {
  const double rounded = Rounded(number);
  if (rounded == 0) return "0";
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(rounded))));
  return Digits(rounded, std::max(0, 3 - exponent));
}

/// A number of the request, as it was given.
std::string Given(double number) { return Digits(number, 9); }

/// The number in the largest of the units that is not above it, or in the smallest.
template <std::size_t N>
std::string InUnits(double number, const std::array<std::string_view, N>& names, double first) {
  double unit = first;
  std::size_t i = 0;
  while (i + 1 < N && Rounded(number) >= 1000 * unit) {
    unit *= 1000;
    ++i;
  }
  return fmt::format("{} {}", NumberText(number / unit), names[i]);
}

std::string Bytes(double bytes) {
  return InUnits<6>(bytes, {"B", "kB", "MB", "GB", "TB", "PB"}, 1);
}

std::string SecondsText(double seconds) { return InUnits<3>(seconds, {"us", "ms", "s"}, 1e-6); }

std::string Percent(double share) { return NumberText(100 * share) + " %"; }

std::string Count(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// A line of the report; lines that go on have no label.
std::string Line(std::string_view label, std::string_view text) {
  return fmt::format("{:<14} {}\n", label, text);
}

std::string DescribeSample(const SizeRequest& request, const SizeFacts& facts) {
  const SampleFacts& sample = facts.sample;
  std::string text = Line("sample", fmt::format("{} in {} on one thread, of {} in an epoch of {}",
                                                Count(sample.cpu.count, "batch", "batches"),
                                                SecondsText(sample.seconds), facts.epoch_batches,
                                                Count(request.gpus, "rank", "ranks")));
  text += Line("  CPU", fmt::format("{} a batch mean, {} p99; standard error of the mean {}",
                                    SecondsText(sample.cpu.mean), SecondsText(sample.cpu.p99),
                                    Percent(sample.cpu.error)));
  if (sample.cpu.error > kQuiet) {
    text += Line("", "this is noisy: more --seconds, or a host at rest, make it better");
  }
  std::string elapsed = SecondsText(sample.elapsed_seconds) + " a batch mean, waiting included:";
  for (const StageCost& stage : sample.stages) {
    elapsed += fmt::format("{} {} {}", elapsed.back() == ':' ? "" : ",", stage.name,
                           SecondsText(stage.seconds));
  }
  if (sample.stages.empty()) elapsed.pop_back();
  text += Line("  elapsed", elapsed);
  text += Line("  size", fmt::format("{} packed a batch mean, {} largest; {} examples mean",
                                     Bytes(sample.bytes.mean), Bytes(sample.bytes.largest),
                                     NumberText(sample.examples)));
  text += Line("  memory", fmt::format("{} before the first batch, {} more for a builder thread",
                                       Bytes(sample.base_bytes), Bytes(sample.builder_bytes)));
  if (facts.python_process_bytes > 0) {
    text += Line("", fmt::format("{} a process of a plugin", Bytes(facts.python_process_bytes)));
  }
  if (!sample.storage_bytes)
    return text + Line("  disk", "reads are not known: the kernel does not tell");
  if (*sample.storage_bytes > 0) {
    return text + Line("  disk", Bytes(*sample.storage_bytes) + " a batch read, mean");
  }
  return text + Line("  disk", "nothing read: the sample was in the page cache");
}

std::string DescribeDemand(const SizeRequest& request, const SizeFacts& facts,
                           const SizeAnswer& answer) {
  std::string text = Line(
      "demand", fmt::format("{} / {} s a step = {} batches/s", Count(request.gpus, "GPU", "GPUs"),
                            Given(request.step_seconds), NumberText(answer.batches_per_second)));
  return text + Line("", fmt::format("{} batches/s x {} examples = {} examples/s",
                                     NumberText(answer.batches_per_second),
                                     NumberText(facts.sample.examples),
                                     NumberText(answer.examples_per_second)));
}

std::string DescribeCores(const SizeRequest& request, const SizeFacts& facts,
                          const SizeAnswer& answer) {
  const std::string demand = NumberText(answer.batches_per_second);
  const std::string factor = Given(1 + request.reserve);
  const SampleFacts& sample = facts.sample;
  std::string text = Line(
      "sending", fmt::format("{} + {} x {} s/GB = {} CPU a batch over the network",
                             SecondsText(kSendSecondsABatch), Bytes(sample.bytes.mean),
                             Given(kSendSecondsAByte * 1e9), SecondsText(answer.send_seconds)));
  text += Line("cores",
               fmt::format("{} + {} = {} CPU a batch, built and sent", SecondsText(sample.cpu.mean),
                           SecondsText(answer.send_seconds), SecondsText(answer.batch_seconds)));
  text += Line("", fmt::format("{} batches/s x {} CPU = {} busy cores", demand,
                               SecondsText(answer.batch_seconds), NumberText(answer.busy_cores)));
  text += Line(
      "", fmt::format("{} x {} with the reserve = {}, rounded up {}", NumberText(answer.busy_cores),
                      factor, NumberText(answer.cores_with_reserve),
                      Count(answer.cores, "core", "cores")));
  text += Line("", fmt::format("{} to {} if the mean is wrong by two standard errors ({})",
                               answer.cores_low, answer.cores_high, Percent(2 * sample.cpu.error)));
  if (answer.python_processes > 0) {
    text += Line("processes", fmt::format("{} batches/s x {} in Python = {} busy processes", demand,
                                          SecondsText(answer.python_seconds),
                                          NumberText(answer.busy_processes)));
    text += Line("", fmt::format("{} x {} with the reserve = {}, rounded up {}, a core each",
                                 NumberText(answer.busy_processes), factor,
                                 NumberText(answer.processes_with_reserve),
                                 Count(answer.python_processes, "process", "processes")));
  }
  const std::string taken = answer.python_processes > 0
                                ? fmt::format("({} + {})", answer.cores, answer.python_processes)
                                : std::to_string(answer.cores);
  text += Line("workers", fmt::format("{} / {} a worker, rounded up = {}", taken,
                                      Count(request.worker_cores, "core", "cores"),
                                      Count(answer.workers, "worker", "workers")));
  text += Line("", fmt::format("`desired_workers` rises to at most twice the present ones at once, "
                               "and to {} a consumer",
                               kMaxListMembers));
  if (answer.python_processes == 0) return text;
  return text + Line("", fmt::format("{} / {}, rounded up = {} a worker (`processes`)",
                                     Count(answer.python_processes, "process", "processes"),
                                     Count(answer.workers, "worker", "workers"),
                                     answer.processes_per_worker));
}

std::string DescribeNetwork(const SizeRequest& request, const SizeFacts& facts,
                            const SizeAnswer& answer) {
  const std::string all = NumberText(answer.gbit_per_second) + " Gbit/s";
  std::string text = Line("network", fmt::format("{} batches/s x {} x 8 bits = {} in total",
                                                 NumberText(answer.batches_per_second),
                                                 Bytes(facts.sample.bytes.mean), all));
  text += Line("", fmt::format("{} / {} = {} Gbit/s a worker", all,
                               Count(answer.workers, "worker", "workers"),
                               NumberText(answer.gbit_per_second_worker)));
  text += Line("", fmt::format("{} / {} = {} Gbit/s a consumer", all,
                               Count(request.gpus, "consumer", "consumers"),
                               NumberText(answer.gbit_per_second_consumer)));
  return text +
         Line("", "consumers on their worker's host use shared memory: no network, and no sending");
}

/// Says which bound counts in place of a pause's batches, if one does.
std::string BoundOnAhead(const SizeAnswer& answer) {
  const double ahead = answer.ahead_of_consumer_bytes;
  if (ahead > answer.pause_bytes) return ", but at least 2 batches: " + Bytes(ahead);
  if (ahead < answer.pause_bytes) return ", but at most what it receives: " + Bytes(ahead);
  return "";
}

std::string DescribeMemory(const SizeRequest& request, const SizeFacts& facts,
                           const SizeAnswer& answer) {
  const SampleFacts& sample = facts.sample;
  const std::string workers = Count(answer.workers, "worker", "workers");
  std::string text = Line(
      "memory", fmt::format("consumer: the larger of {} prefetched and 2 x {} = {} received ahead",
                            Bytes(facts.prefetch_bytes), Bytes(sample.bytes.largest),
                            Bytes(answer.consumer_bytes)));
  text += Line(
      "", fmt::format("worker: {} x ({} + {}) = {} to build",
                      Count(request.worker_cores, "thread", "threads"), Bytes(sample.builder_bytes),
                      Bytes(sample.bytes.largest), Bytes(answer.building_bytes)));
  std::string plugins;
  if (answer.python_processes > 0) {
    text += Line("", fmt::format("worker: {} x {} = {} of plugins",
                                 Count(answer.processes_per_worker, "process", "processes"),
                                 Bytes(facts.python_process_bytes), Bytes(answer.plugin_bytes)));
    plugins = " + " + Bytes(answer.plugin_bytes);
  }
  text += Line(
      "", fmt::format("worker: {} s / {} s x {} = {} ahead of a consumer{}", Given(kPauseSeconds),
                      Given(request.step_seconds), Bytes(sample.bytes.mean),
                      Bytes(answer.pause_bytes), BoundOnAhead(answer)));
  text += Line(
      "", fmt::format("worker: {} x {} / {} = {} built ahead",
                      Count(request.gpus, "consumer", "consumers"),
                      Bytes(answer.ahead_of_consumer_bytes), workers, Bytes(answer.ahead_bytes)));
  text += Line("", fmt::format("worker: {} + {}{} + {} = {}", Bytes(sample.base_bytes),
                               Bytes(answer.building_bytes), plugins, Bytes(answer.ahead_bytes),
                               Bytes(answer.worker_bytes)));
  return text +
         Line("",
              fmt::format("the larger of {} and {} x {}, in steps of {}: --memory-limit {}MB",
                          Bytes(answer.worker_bytes), Given(kBatchShare), Bytes(answer.ahead_bytes),
                          Bytes(kLimitStepBytes), answer.memory_limit / 1000000));
}

std::string DescribeDisk(const SizeFacts& facts, const SizeAnswer& answer) {
  std::string text =
      Line("epoch",
           fmt::format("{} batches / {} batches/s = {}", facts.epoch_batches,
                       NumberText(answer.batches_per_second), SecondsText(answer.epoch_seconds)));
  if (facts.dataset_bytes <= 0) {
    return text + Line("disk", "not known: the dataset has no files of its own");
  }
  text +=
      Line("disk",
           fmt::format("dataset {} / {} batches = {} a batch, if each byte is read once",
                       Bytes(facts.dataset_bytes), facts.epoch_batches, Bytes(answer.share_bytes)));
  if (answer.disk_batch_bytes > answer.share_bytes) {
    text += Line(
        "", fmt::format("the sample read more: {} a batch counts", Bytes(answer.disk_batch_bytes)));
  }
  text += Line("", fmt::format("{} x {} batches = {} an epoch", Bytes(answer.disk_batch_bytes),
                               facts.epoch_batches, Bytes(answer.disk_epoch_bytes)));
  text +=
      Line("", fmt::format("{} batches/s x {} = {}/s in total if nothing is cached",
                           NumberText(answer.batches_per_second), Bytes(answer.disk_batch_bytes),
                           Bytes(answer.disk_bytes_per_second)));
  text += Line("", fmt::format("{}/s / {} = {}/s a worker", Bytes(answer.disk_bytes_per_second),
                               Count(answer.workers, "worker", "workers"),
                               Bytes(answer.disk_bytes_per_second_worker)));
  text += Line("cache", fmt::format("{} + dataset {} = {}: a worker's host that keeps all of it",
                                    Bytes(static_cast<double>(answer.memory_limit)),
                                    Bytes(facts.dataset_bytes), Bytes(answer.cached_bytes)));
  return text +
         Line("", fmt::format("this host has {}: {}", Bytes(facts.host_memory_bytes),
                              answer.fits_host ? "enough; after the first epoch no disk is read"
                                               : "too little; every epoch reads the disk"));
}

Json SpreadJson(const Spread& spread) {
  return Json::Object{{"mean", spread.mean},
                      {"p99", spread.p99},
                      {"largest", spread.largest},
                      {"standard_error", spread.error}};
}

Json SampleJson(const SampleFacts& sample) {
  Json::Array stages;
  for (const StageCost& stage : sample.stages) {
    stages.push_back(
        Json::Object{{"stage", stage.name}, {"seconds", stage.seconds}, {"python", stage.python}});
  }
  Json json = Json::Object{
      {"batches", sample.cpu.count},           {"seconds", sample.seconds},
      {"cpu_seconds", SpreadJson(sample.cpu)}, {"elapsed_seconds", sample.elapsed_seconds},
      {"stages", std::move(stages)},           {"examples", sample.examples},
      {"bytes", SpreadJson(sample.bytes)},     {"builder_bytes", sample.builder_bytes},
      {"base_bytes", sample.base_bytes}};
  json["storage_bytes"] = sample.storage_bytes ? Json(*sample.storage_bytes) : Json();
  return json;
}

Json AnswerJson(const SizeFacts& facts, const SizeAnswer& answer) {
  Json json = Json::Object{{"batches_per_second", answer.batches_per_second},
                           {"examples_per_second", answer.examples_per_second},
                           {"send_seconds", answer.send_seconds},
                           {"batch_seconds", answer.batch_seconds},
                           {"busy_cores", answer.busy_cores},
                           {"cores_with_reserve", answer.cores_with_reserve},
                           {"cores", answer.cores},
                           {"cores_low", answer.cores_low},
                           {"cores_high", answer.cores_high},
                           {"python_seconds", answer.python_seconds},
                           {"busy_processes", answer.busy_processes},
                           {"processes_with_reserve", answer.processes_with_reserve},
                           {"python_processes", answer.python_processes},
                           {"workers", answer.workers},
                           {"processes_per_worker", answer.processes_per_worker},
                           {"gbit_per_second", answer.gbit_per_second},
                           {"gbit_per_second_worker", answer.gbit_per_second_worker},
                           {"gbit_per_second_consumer", answer.gbit_per_second_consumer},
                           {"consumer_bytes", answer.consumer_bytes},
                           {"building_bytes", answer.building_bytes},
                           {"plugin_bytes", answer.plugin_bytes},
                           {"pause_bytes", answer.pause_bytes},
                           {"ahead_of_consumer_bytes", answer.ahead_of_consumer_bytes},
                           {"ahead_bytes", answer.ahead_bytes},
                           {"worker_bytes", answer.worker_bytes},
                           {"memory_limit_bytes", answer.memory_limit},
                           {"epoch_seconds", answer.epoch_seconds}};
  const bool known = facts.dataset_bytes > 0;
  const auto of_disk = [&](const char* name, const Json& value) {
    json[name] = known ? value : Json();
  };
  of_disk("share_bytes", answer.share_bytes);
  of_disk("disk_batch_bytes", answer.disk_batch_bytes);
  of_disk("disk_epoch_bytes", answer.disk_epoch_bytes);
  of_disk("disk_bytes_per_second", answer.disk_bytes_per_second);
  of_disk("disk_bytes_per_second_worker", answer.disk_bytes_per_second_worker);
  of_disk("cached_bytes", answer.cached_bytes);
  of_disk("fits_host", answer.fits_host);
  return json;
}

}  // namespace

std::vector<std::string> SizeAssumptions() {
  return {
      "A core of a worker is as fast as one of this host is now. Other work on it is not counted.",
      "Sending is not measured here: its CPU time is that of docs/internals/benchmarks.md.",
      "A process of a plugin keeps one core busy while it builds.",
      "A pipeline's cache saves nothing.",
      "An epoch reads each byte of the dataset once, or more if the sample did.",
      "A worker has one builder thread for each core. With a larger memory limit it builds further "
      "ahead, up to what its consumers receive.",
  };
}

std::string DescribeSize(const SizeRequest& request, const SizeFacts& facts,
                         const SizeAnswer& answer) {
  std::string text = DescribeSample(request, facts) + DescribeDemand(request, facts, answer) +
                     DescribeCores(request, facts, answer) +
                     DescribeNetwork(request, facts, answer) +
                     DescribeMemory(request, facts, answer) + DescribeDisk(facts, answer);
  std::string_view label = "assumed";
  for (const std::string& assumption : SizeAssumptions()) {
    text += Line(label, assumption);
    label = "";
  }
  return text;
}

std::string SizeJson(const SizeRequest& request, const SizeFacts& facts, const SizeAnswer& answer) {
  Json json;
  json["request"] = Json::Object{{"gpus", request.gpus},
                                 {"step_seconds", request.step_seconds},
                                 {"reserve", request.reserve},
                                 {"worker_cores", request.worker_cores}};
  json["sample"] = SampleJson(facts.sample);
  json["facts"] = Json::Object{{"python_process_bytes", facts.python_process_bytes},
                               {"epoch_batches", facts.epoch_batches},
                               {"dataset_bytes", facts.dataset_bytes},
                               {"prefetch_bytes", facts.prefetch_bytes},
                               {"host_memory_bytes", facts.host_memory_bytes}};
  if (facts.dataset_bytes <= 0) json["facts"]["dataset_bytes"] = Json();
  json["answer"] = AnswerJson(facts, answer);
  json["assumptions"] = SizeAssumptions();
  return json.ToText();
}

}  // namespace millrace::cli
