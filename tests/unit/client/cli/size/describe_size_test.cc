#include "client/cli/size/describe_size.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace millrace::cli {
namespace {

SizeFacts ReportFacts() {
  SizeFacts facts;
  facts.sample.seconds = 4.321;
  facts.sample.cpu = {
      .count = 350, .mean = 0.01231, .p99 = 0.0182, .largest = 0.02, .error = 0.009};
  facts.sample.elapsed_seconds = 0.0125;
  facts.sample.stages = {{"closure", 0.01, false}, {"batch", 0.0002, false}};
  facts.sample.examples = 32;
  facts.sample.bytes = {.count = 350, .mean = 1.235e6, .p99 = 1.8e6, .largest = 2e6, .error = 0.02};
  facts.sample.builder_bytes = 34e6;
  facts.sample.base_bytes = 120e6;
  facts.sample.storage_bytes = 0;
  facts.epoch_batches = 1000;
  facts.dataset_bytes = 5e9;
  facts.prefetch_bytes = 268.4e6;
  facts.host_memory_bytes = 64e9;
  return facts;
}

const SizeRequest kRequest{.gpus = 8, .step_seconds = 0.12, .reserve = 0.25, .worker_cores = 16};

std::string Described(const SizeFacts& facts, const SizeRequest& request = kRequest) {
  return DescribeSize(request, facts, AnswerSize(request, facts));
}

/// Whether the text has the phrase. If not, Catch shows both.
bool Shows(const std::string& text, const std::string& phrase) {
  UNSCOPED_INFO("expected: " << phrase << "\nin: " << text);
  return text.find(phrase) != std::string::npos;
}

}  // namespace

TEST_CASE("the report shows the calculation of each number", "[size]") {
  const std::string text = Described(ReportFacts());
  CHECK(Shows(text,
              "sample         350 batches in 4.321 s on one thread, of 1000 in an epoch of 8 "));
  CHECK(Shows(text,
              "  CPU          12.31 ms a batch mean, 18.2 ms p99; standard error of the mean "
              "0.9 %\n"));
  CHECK(Shows(text,
              "  elapsed      12.5 ms a batch mean, waiting included: closure 10 ms, batch "
              "200 us\n"));
  CHECK(Shows(text, "demand         8 GPUs / 0.12 s a step = 66.67 batches/s\n"));
  CHECK(Shows(text, " 66.67 batches/s x 32 examples = 2133 examples/s\n"));
  CHECK(
      Shows(text, "sending        100 us + 1.235 MB x 0.8 s/GB = 1.088 ms CPU a batch over the "));
  CHECK(Shows(text, "cores          12.31 ms + 1.088 ms = 13.4 ms CPU a batch, built and sent\n"));
  CHECK(Shows(text, " 66.67 batches/s x 13.4 ms CPU = 0.8934 busy cores\n"));
  CHECK(Shows(text, " 0.8934 x 1.25 with the reserve = 1.117, rounded up 2 cores\n"));
  CHECK(Shows(text, " 2 to 2 if the mean is wrong by two standard errors (1.8 %)\n"));
  CHECK(Shows(text, "workers        2 / 16 cores a worker, rounded up = 1 worker\n"));
  CHECK(Shows(text, " at most twice the present ones at once, and to 1024 a consumer\n"));
  CHECK(Shows(text, "66.67 batches/s x 1.235 MB x 8 bits = 0.6587 Gbit/s in total\n"));
  CHECK(Shows(text, " 0.6587 Gbit/s / 8 consumers = 0.08234 Gbit/s a consumer\n"));
  CHECK(Shows(text, "the larger of 268.4 MB prefetched and 2 x 2 MB = 268.4 MB received ahead\n"));
  CHECK(Shows(text, "worker: 16 threads x (34 MB + 2 MB) = 576 MB to build\n"));
  CHECK(Shows(text, "worker: 10 s / 0.12 s x 1.235 MB = 102.9 MB ahead of a consumer\n"));
  CHECK(Shows(text, "worker: 8 consumers x 102.9 MB / 1 worker = 823.2 MB built ahead\n"));
  CHECK(Shows(text, "worker: 120 MB + 576 MB + 823.2 MB = 1.519 GB\n"));
  CHECK(Shows(text,
              "the larger of 1.519 GB and 4 x 823.2 MB, in steps of 250 MB: --memory-limit "
              "3500MB\n"));
  CHECK(Shows(text, "epoch          1000 batches / 66.67 batches/s = 15 s\n"));
  CHECK(Shows(text, "dataset 5 GB / 1000 batches = 5 MB a batch, if each byte is read once\n"));
  CHECK(Shows(text, " 66.67 batches/s x 5 MB = 333.4 MB/s in total if nothing is cached\n"));
  CHECK(Shows(text, "3.5 GB + dataset 5 GB = 8.5 GB: a worker's host that keeps all of it\n"));
  CHECK(Shows(text, "this host has 64 GB: enough"));
  CHECK_FALSE(Shows(text, "noisy"));
  CHECK_FALSE(Shows(text, "processes  "));
  for (const std::string& assumption : SizeAssumptions()) CHECK(Shows(text, assumption + "\n"));
}

TEST_CASE("the report names the processes of plugins apart", "[size]") {
  SizeFacts facts = ReportFacts();
  facts.sample.stages.push_back({"python: a", 0.5, true});
  facts.python_process_bytes = 200e6;
  const std::string text = Described(facts);
  CHECK(Shows(text, "processes      66.67 batches/s x 500 ms in Python = 33.34 busy processes\n"));
  CHECK(Shows(text,
              " 33.34 x 1.25 with the reserve = 41.68, rounded up 42 processes, a core each\n"));
  CHECK(Shows(text, "workers        (2 + 42) / 16 cores a worker, rounded up = 3 workers\n"));
  CHECK(Shows(text, " 42 processes / 3 workers, rounded up = 14 a worker (`processes`)\n"));
  CHECK(Shows(text, "worker: 14 processes x 200 MB = 2.8 GB of plugins\n"));
  CHECK(Shows(text, "worker: 120 MB + 576 MB + 2.8 GB + "));
}

TEST_CASE("the report says how noisy a sample is", "[size]") {
  SizeFacts facts = ReportFacts();
  facts.sample.cpu.error = 0.07;
  const std::string text = Described(facts);
  CHECK(Shows(text, "standard error of the mean 7 %\n"));
  CHECK(Shows(text, "this is noisy"));
  CHECK(Shows(text, " 1 to 2 if the mean is wrong by two standard errors (14 %)\n"));
}

TEST_CASE("the report says what it does not know of the disk", "[size]") {
  SizeFacts facts = ReportFacts();
  CHECK(Shows(Described(facts), "  disk         nothing read: the sample was in the page cache\n"));
  facts.sample.storage_bytes = 7e6;
  CHECK(Shows(Described(facts), "  disk         7 MB a batch read, mean\n"));
  CHECK(Shows(Described(facts), " the sample read more: 7 MB a batch counts\n"));
  facts.sample.storage_bytes = std::nullopt;
  CHECK(Shows(Described(facts), "  disk         reads are not known: the kernel does not tell\n"));
  facts.dataset_bytes = 0;
  CHECK(Shows(Described(facts), "disk           not known: the dataset has no files of its own\n"));
  CHECK_FALSE(Shows(Described(facts), "if nothing is cached"));
}

TEST_CASE("the report says which bound on batches ahead counts", "[size]") {
  SizeRequest slow = kRequest;
  slow.step_seconds = 20;
  CHECK(Shows(Described(ReportFacts(), slow),
              "= 617.5 kB ahead of a consumer, but at least 2 batches: 4 MB"));
  SizeRequest fast = kRequest;
  fast.step_seconds = 0.01;
  CHECK(Shows(Described(ReportFacts(), fast), "but at most what it receives: 268.4 MB\n"));
}

TEST_CASE("a report of very large and very small numbers has no exponents", "[size]") {
  SizeFacts facts = ReportFacts();
  facts.sample.cpu.mean = 1.2e-6;
  facts.dataset_bytes = 3e17;
  SizeRequest request = kRequest;
  for (const auto& [gpus, step] : {std::pair(1U, 900.0), std::pair(1'048'576U, 1e-5)}) {
    request.gpus = gpus;
    request.step_seconds = step;
    const std::string text = Described(facts, request);
    CHECK_FALSE(Shows(text, "e-"));
    CHECK_FALSE(Shows(text, "e+"));
  }
}

TEST_CASE("JSON has the numbers of the report", "[size]") {
  const SizeFacts facts = ReportFacts();
  const SizeAnswer answer = AnswerSize(kRequest, facts);
  const std::string text = SizeJson(kRequest, facts, answer);
  CHECK(text.find('\n') == std::string::npos);
  const auto json = nlohmann::json::parse(text);
  CHECK(json["request"]["gpus"] == 8);
  CHECK(json["request"]["step_seconds"] == 0.12);
  CHECK(json["sample"]["batches"] == 350);
  CHECK(json["sample"]["cpu_seconds"]["mean"] == 0.01231);
  CHECK(json["sample"]["stages"][0]["stage"] == "closure");
  CHECK(json["sample"]["storage_bytes"] == 0);
  CHECK(json["facts"]["epoch_batches"] == 1000);
  CHECK(json["answer"]["cores"] == answer.cores);
  CHECK(json["answer"]["memory_limit_bytes"] == answer.memory_limit);
  CHECK(json["answer"]["fits_host"] == true);
  CHECK(json["assumptions"].size() == SizeAssumptions().size());
}

TEST_CASE("numbers that are not known are null in JSON", "[size]") {
  SizeFacts facts = ReportFacts();
  facts.sample.storage_bytes = std::nullopt;
  facts.dataset_bytes = 0;
  const auto json = nlohmann::json::parse(SizeJson(kRequest, facts, AnswerSize(kRequest, facts)));
  CHECK(json["sample"]["storage_bytes"].is_null());
  CHECK(json["facts"]["dataset_bytes"].is_null());
  CHECK(json["answer"]["disk_bytes_per_second"].is_null());
  CHECK(json["answer"]["fits_host"].is_null());
}

}  // namespace millrace::cli
