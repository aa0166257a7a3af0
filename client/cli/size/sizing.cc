#include "client/cli/size/sizing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace millrace::cli {
namespace {

std::uint64_t RoundedUp(double number) { return static_cast<std::uint64_t>(std::ceil(number)); }

/// Cores for so many CPU seconds a batch; at least one.
std::uint64_t CoresFor(double batches_per_second, double cpu_seconds, double reserve) {
  const double busy = Rounded(batches_per_second * cpu_seconds);
  return std::max<std::uint64_t>(1, RoundedUp(Rounded(busy * (1 + reserve))));
}

void AnswerCores(const SizeRequest& request, const SampleFacts& sample, SizeAnswer& answer) {
  const double demand = answer.batches_per_second;
  const Spread& cpu = sample.cpu;
  answer.send_seconds = Rounded(kSendSecondsABatch + sample.bytes.mean * kSendSecondsAByte);
  const auto with_sending = [&](double build) { return Rounded(build + answer.send_seconds); };
  answer.batch_seconds = with_sending(cpu.mean);
  answer.busy_cores = Rounded(demand * answer.batch_seconds);
  answer.cores_with_reserve = Rounded(answer.busy_cores * (1 + request.reserve));
  answer.cores = CoresFor(demand, answer.batch_seconds, request.reserve);
  const double low = cpu.mean * std::max(0.0, 1 - 2 * cpu.error);
  const double high = cpu.mean * (1 + 2 * cpu.error);
  answer.cores_low = CoresFor(demand, with_sending(low), request.reserve);
  answer.cores_high = CoresFor(demand, with_sending(high), request.reserve);
  for (const StageCost& stage : sample.stages) {
    if (stage.python) answer.python_seconds += stage.seconds;
  }
  answer.python_seconds = Rounded(answer.python_seconds);
  answer.busy_processes = Rounded(demand * answer.python_seconds);
  answer.processes_with_reserve = Rounded(answer.busy_processes * (1 + request.reserve));
  answer.python_processes = RoundedUp(answer.processes_with_reserve);
  const std::uint64_t taken = answer.cores + answer.python_processes;
  answer.workers = (taken + request.worker_cores - 1) / request.worker_cores;
  answer.processes_per_worker = (answer.python_processes + answer.workers - 1) / answer.workers;
}

void AnswerNetwork(const SizeRequest& request, const SampleFacts& sample, SizeAnswer& answer) {
  answer.gbit_per_second = Rounded(answer.batches_per_second * sample.bytes.mean * 8 / 1e9);
  answer.gbit_per_second_worker =
      Rounded(answer.gbit_per_second / static_cast<double>(answer.workers));
  answer.gbit_per_second_consumer = Rounded(answer.gbit_per_second / request.gpus);
}

void AnswerMemory(const SizeRequest& request, const SizeFacts& facts, SizeAnswer& answer) {
  const SampleFacts& sample = facts.sample;
  answer.consumer_bytes = Rounded(std::max(facts.prefetch_bytes, 2 * sample.bytes.largest));
  answer.building_bytes =
      Rounded(request.worker_cores * (sample.builder_bytes + sample.bytes.largest));
  answer.plugin_bytes =
      Rounded(static_cast<double>(answer.processes_per_worker) * facts.python_process_bytes);
  answer.pause_bytes = Rounded(kPauseSeconds / request.step_seconds * sample.bytes.mean);
  answer.ahead_of_consumer_bytes =
      std::clamp(answer.pause_bytes, Rounded(2 * sample.bytes.largest), answer.consumer_bytes);
  answer.ahead_bytes =
      Rounded(request.gpus * answer.ahead_of_consumer_bytes / static_cast<double>(answer.workers));
  answer.worker_bytes =
      Rounded(sample.base_bytes + answer.building_bytes + answer.plugin_bytes + answer.ahead_bytes);
  const double wanted = std::max(answer.worker_bytes, kBatchShare * answer.ahead_bytes);
  answer.memory_limit =
      static_cast<std::uint64_t>(kLimitStepBytes * std::ceil(wanted / kLimitStepBytes));
}

void AnswerDisk(const SizeFacts& facts, SizeAnswer& answer) {
  const auto batches = static_cast<double>(facts.epoch_batches);
  answer.epoch_seconds = Rounded(batches / answer.batches_per_second);
  answer.share_bytes = Rounded(facts.dataset_bytes / batches);
  answer.disk_batch_bytes = std::max(answer.share_bytes, facts.sample.storage_bytes.value_or(0));
  answer.disk_epoch_bytes = Rounded(answer.disk_batch_bytes * batches);
  answer.disk_bytes_per_second = Rounded(answer.batches_per_second * answer.disk_batch_bytes);
  answer.disk_bytes_per_second_worker =
      Rounded(answer.disk_bytes_per_second / static_cast<double>(answer.workers));
  answer.cached_bytes =
      Rounded(Rounded(static_cast<double>(answer.memory_limit)) + facts.dataset_bytes);
  answer.fits_host = answer.cached_bytes <= facts.host_memory_bytes;
}

}  // namespace

double Rounded(double number) {
  if (number == 0 || !std::isfinite(number)) return number;
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(number))));
  // Powers of ten are exact up to 10^22, so that 12 does not become 12.000000000000002.
  if (exponent > 3) {
    const double unit = std::pow(10.0, exponent - 3);
    return std::round(number / unit) * unit;
  }
  const double units = std::pow(10.0, 3 - exponent);
  return std::round(number * units) / units;
}

Spread SpreadOf(std::vector<double> values) {
  Spread spread;
  spread.count = values.size();
  if (values.empty()) return spread;
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  spread.mean = Rounded(mean);
  const auto rank = static_cast<std::size_t>(std::ceil(0.99 * count));
  spread.p99 = Rounded(values[rank - 1]);
  spread.largest = Rounded(values.back());
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double error = std::sqrt(squares / (count - 1) / count);
  spread.error = mean > 0 ? Rounded(error / mean) : 0;
  return spread;
}

SizeAnswer AnswerSize(const SizeRequest& request, const SizeFacts& facts) {
  SizeAnswer answer;
  answer.batches_per_second = Rounded(request.gpus / request.step_seconds);
  answer.examples_per_second = Rounded(answer.batches_per_second * facts.sample.examples);
  AnswerCores(request, facts.sample, answer);
  AnswerNetwork(request, facts.sample, answer);
  AnswerMemory(request, facts, answer);
  AnswerDisk(facts, answer);
  return answer;
}

}  // namespace millrace::cli
