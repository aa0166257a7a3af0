#include "client/cli/size/sizing.h"

#include <catch2/catch.hpp>

namespace millrace::cli {
namespace {

/// 8 GPUs that each take a batch of 32 examples and 2 MB in 100 ms.
SizeRequest SizedRequest() {
  return {.gpus = 8, .step_seconds = 0.1, .reserve = 0.25, .worker_cores = 16};
}

SizeFacts SizedFacts() {
  SizeFacts facts;
  facts.sample.cpu = {.count = 400, .mean = 0.2483, .p99 = 0.4, .largest = 0.5, .error = 0.01};
  facts.sample.elapsed_seconds = 0.3;
  facts.sample.examples = 32;
  facts.sample.bytes = {.count = 400, .mean = 2e6, .p99 = 3e6, .largest = 4e6, .error = 0.01};
  facts.sample.builder_bytes = 30e6;
  facts.sample.base_bytes = 100e6;
  facts.sample.storage_bytes = 0;
  facts.epoch_batches = 1000;
  facts.dataset_bytes = 5e9;
  facts.prefetch_bytes = 268.4e6;
  facts.host_memory_bytes = 64e9;
  return facts;
}

SizeFacts FactsWithPython(double seconds) {
  SizeFacts facts = SizedFacts();
  facts.sample.stages = {{"shuffle", 0.001, false},
                         {"python: a", seconds / 2, true},
                         {"python: b", seconds / 2, true},
                         {"batch", 0.01, false}};
  facts.python_process_bytes = 200e6;
  return facts;
}

}  // namespace

TEST_CASE("a spread has the mean, the largest values and the standard error", "[size]") {
  const Spread spread = SpreadOf({4, 2, 6, 8});
  CHECK(spread.count == 4);
  CHECK(spread.mean == 5);
  CHECK(spread.p99 == 8);
  CHECK(spread.largest == 8);
  // The deviation is the root of 20 / 3; halved, and divided by 5: 0.2582.
  CHECK(spread.error == 0.2582);
  std::vector<double> many(200, 1.0);
  many[7] = many[9] = 3;
  many[11] = 50;
  CHECK(SpreadOf(many).p99 == 3);
  CHECK(SpreadOf(many).largest == 50);
}

TEST_CASE("the error of fewer than two values is not known", "[size]") {
  CHECK(SpreadOf({}).count == 0);
  CHECK(SpreadOf({}).error == 1);
  CHECK(SpreadOf({7}).mean == 7);
  CHECK(SpreadOf({7}).error == 1);
  CHECK(SpreadOf({0, 0}).error == 0);
}

TEST_CASE("numbers are rounded to four significant digits", "[size]") {
  CHECK(Rounded(66.66666) == 66.67);
  CHECK(Rounded(123456) == 123500);
  CHECK(Rounded(268435456) == 268400000);
  CHECK(Rounded(0.00123456) == 0.001235);
  CHECK(Rounded(9999.6) == 10000);
  CHECK(Rounded(12) == 12);
  CHECK(Rounded(-1.23456) == -1.235);
  CHECK(Rounded(0) == 0);
}

TEST_CASE("each GPU takes a batch a step", "[size]") {
  const SizeAnswer answer = AnswerSize(SizedRequest(), SizedFacts());
  CHECK(answer.batches_per_second == 80);
  CHECK(answer.examples_per_second == 2560);
}

TEST_CASE("cores are the demand times the CPU time, with the reserve and rounded up", "[size]") {
  const SizeAnswer answer = AnswerSize(SizedRequest(), SizedFacts());
  CHECK(answer.send_seconds == 0.0017);  // 0.1 ms, and 2 MB at 0.8 s/GB
  CHECK(answer.batch_seconds == 0.25);
  CHECK(answer.busy_cores == 20);
  CHECK(answer.cores_with_reserve == 25);
  CHECK(answer.cores == 25);
  // 0.245 and 0.255 s with sending: 19.6 and 20.4 busy cores, 24.5 and 25.5 with the reserve.
  CHECK(answer.cores_low == 25);
  CHECK(answer.cores_high == 26);
  CHECK(answer.workers == 2);
  CHECK(answer.python_processes == 0);
  CHECK(answer.processes_per_worker == 0);
}

TEST_CASE("a training that needs almost nothing gets one core and one worker", "[size]") {
  SizeFacts facts = SizedFacts();
  facts.sample.cpu.mean = 1e-7;
  const SizeAnswer answer = AnswerSize(SizedRequest(), facts);
  CHECK(answer.cores == 1);
  CHECK(answer.cores_low == 1);
  CHECK(answer.workers == 1);
}

TEST_CASE("an exact number of cores is not rounded up", "[size]") {
  SizeRequest request = SizedRequest();
  request.reserve = 0.2;
  CHECK(AnswerSize(request, SizedFacts()).cores ==
        24);  // 20 x 1.2, which is 24.000000000000004 unrounded
  request.worker_cores = 12;
  CHECK(AnswerSize(request, SizedFacts()).workers == 2);
}

TEST_CASE("processes of plugins take cores of their own", "[size]") {
  const SizeAnswer answer = AnswerSize(SizedRequest(), FactsWithPython(0.5));
  CHECK(answer.cores == 25);  // as without them
  CHECK(answer.python_seconds == 0.5);
  CHECK(answer.busy_processes == 40);
  CHECK(answer.processes_with_reserve == 50);
  CHECK(answer.python_processes == 50);
  CHECK(answer.workers == 5);  // 75 cores of 16
  CHECK(answer.processes_per_worker == 10);
  CHECK(answer.plugin_bytes == 2e9);
}

TEST_CASE("the network carries the mean batch", "[size]") {
  const SizeAnswer answer = AnswerSize(SizedRequest(), SizedFacts());
  CHECK(answer.gbit_per_second == 1.28);
  CHECK(answer.gbit_per_second_worker == 0.64);
  CHECK(answer.gbit_per_second_consumer == 0.16);
}

TEST_CASE("a worker's memory has threads, plugins and batches built ahead", "[size]") {
  const SizeAnswer answer = AnswerSize(SizedRequest(), SizedFacts());
  CHECK(answer.consumer_bytes == 268.4e6);
  CHECK(answer.building_bytes == 544e6);  // 16 x (30 + 4) MB
  CHECK(answer.pause_bytes == 200e6);     // 100 batches in 10 s
  CHECK(answer.ahead_of_consumer_bytes == 200e6);
  CHECK(answer.ahead_bytes == 800e6);  // of 4 consumers
  CHECK(answer.worker_bytes == 1444e6);
  CHECK(answer.memory_limit == 3'250'000'000);  // 4 x 800 MB, in steps of 250 MB
  const SizeAnswer python = AnswerSize(SizedRequest(), FactsWithPython(0.5));
  CHECK(python.worker_bytes == 2964e6);  // 100 + 544 + 2000 + 320 MB
  CHECK(python.memory_limit == 3'000'000'000);
}

TEST_CASE("at least two batches, and at most what a consumer receives, are built ahead", "[size]") {
  SizeFacts facts = SizedFacts();
  SizeRequest request = SizedRequest();
  request.step_seconds = 20;
  CHECK(AnswerSize(request, facts).ahead_of_consumer_bytes == 8e6);
  request.step_seconds = 0.01;
  CHECK(AnswerSize(request, facts).ahead_of_consumer_bytes == 268.4e6);
  facts.sample.bytes.largest = 1e9;
  CHECK(AnswerSize(request, facts).consumer_bytes == 2e9);
  CHECK(AnswerSize(request, facts).ahead_of_consumer_bytes == 2e9);
}

TEST_CASE("without a cache an epoch reads the dataset once", "[size]") {
  const SizeAnswer answer = AnswerSize(SizedRequest(), SizedFacts());
  CHECK(answer.epoch_seconds == 12.5);
  CHECK(answer.share_bytes == 5e6);
  CHECK(answer.disk_batch_bytes == 5e6);
  CHECK(answer.disk_epoch_bytes == 5e9);
  CHECK(answer.disk_bytes_per_second == 400e6);
  CHECK(answer.disk_bytes_per_second_worker == 200e6);
}

TEST_CASE("reads of the sample count where they are more than the dataset's share", "[size]") {
  SizeFacts facts = SizedFacts();
  facts.sample.storage_bytes = 7e6;
  CHECK(AnswerSize(SizedRequest(), facts).disk_batch_bytes == 7e6);
  CHECK(AnswerSize(SizedRequest(), facts).disk_bytes_per_second == 560e6);
  facts.sample.storage_bytes = std::nullopt;
  CHECK(AnswerSize(SizedRequest(), facts).disk_batch_bytes == 5e6);
}

TEST_CASE("a host is large enough for the memory limit and the dataset", "[size]") {
  SizeFacts facts = SizedFacts();
  CHECK(AnswerSize(SizedRequest(), facts).cached_bytes == 8.25e9);
  facts.host_memory_bytes = 8.25e9;
  CHECK(AnswerSize(SizedRequest(), facts).fits_host);
  facts.host_memory_bytes = 8.2e9;
  CHECK_FALSE(AnswerSize(SizedRequest(), facts).fits_host);
}

TEST_CASE("twice the GPUs, or half the step, need twice as much", "[size]") {
  for (const double cpu : {0.0007, 0.0123, 0.25, 1.7}) {
    for (const std::uint32_t gpus : {1U, 3U, 8U, 100U}) {
      SizeFacts facts = FactsWithPython(0.03);
      facts.sample.cpu.mean = cpu;
      SizeRequest request = SizedRequest();
      request.gpus = gpus;
      const SizeAnswer one = AnswerSize(request, facts);
      request.gpus = 2 * gpus;
      const SizeAnswer two = AnswerSize(request, facts);
      request.gpus = gpus;
      request.step_seconds /= 2;
      const SizeAnswer fast = AnswerSize(request, facts);
      for (const SizeAnswer& twice : {two, fast}) {
        // Each rounding moves a number by one in two thousand at most.
        CHECK(twice.batches_per_second == Approx(2 * one.batches_per_second).epsilon(0.002));
        CHECK(twice.busy_cores == Approx(2 * one.busy_cores).epsilon(0.002));
        CHECK(twice.busy_processes == Approx(2 * one.busy_processes).epsilon(0.002));
        CHECK(twice.gbit_per_second == Approx(2 * one.gbit_per_second).epsilon(0.002));
        CHECK(twice.disk_bytes_per_second == Approx(2 * one.disk_bytes_per_second).epsilon(0.002));
        CHECK(twice.cores <= 2 * one.cores);
        CHECK(twice.cores + 2 >= 2 * one.cores);
      }
      CHECK(two.gbit_per_second_consumer == Approx(one.gbit_per_second_consumer).epsilon(0.002));
    }
  }
}

TEST_CASE("more of anything never needs less", "[size]") {
  SizeAnswer last = AnswerSize(SizedRequest(), FactsWithPython(0.01));
  for (int i = 2; i < 40; ++i) {
    SizeFacts facts = FactsWithPython(0.01 * i);
    facts.sample.cpu.mean *= i;
    const SizeAnswer answer = AnswerSize(SizedRequest(), facts);
    CHECK(answer.cores >= last.cores);
    CHECK(answer.python_processes >= last.python_processes);
    CHECK(answer.workers >= last.workers);
    CHECK(answer.workers * SizedRequest().worker_cores >= answer.cores + answer.python_processes);
    CHECK((answer.workers - 1) * SizedRequest().worker_cores <
          answer.cores + answer.python_processes);
    CHECK(answer.cores_low <= answer.cores);
    CHECK(answer.cores <= answer.cores_high);
    CHECK(static_cast<double>(answer.memory_limit) >= answer.worker_bytes);
    CHECK(static_cast<double>(answer.memory_limit) >= kBatchShare * answer.ahead_bytes);
    last = answer;
  }
}

}  // namespace millrace::cli
