// Measures what a cache of examples gains: how fast a plan builds batches on one thread without a
// cache, from memory and from disk (with a warm page cache), and how fast one consumer gets them
// through shared memory, without a cache and with one. Every figure has the one without a cache as
// its limit, measured in the same run, in turns.
//
// Every epoch has another order. All examples are in the cache before anything is measured.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "client/session.h"
#include "common/batch/batch.h"
#include "common/command_line/command_line.h"
#include "server/catalog/product_kinds.h"
#include "server/plan/cache/built_examples.h"
#include "server/plan/plan_library.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/daemon.h"
#include "tests/bench/limits.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string dataset;
  std::string millraced = MILLRACE_DAEMON;
  std::string source = "proof_states";
  std::string keys;  // more lines for the pipeline
  std::uint32_t batch = 512;
  int threads = 1;
  double seconds = 1;  // of one turn
  int turns = 5;
  bool json = false;
};

std::string Yaml(const Options& options, const std::string& level) {
  std::string yaml = fmt::format(
      "millrace: 1\ndataset: data\nsource: {}\nshuffle: {{seed: 1}}\n"
      "batch: {{size: {}, remainder: keep}}\n{}\n",
      options.source, options.batch, options.keys);
  if (!level.empty()) yaml += fmt::format("cache: {{examples: {}}}\n", level);
  return yaml;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Builds batch after batch of a plan.
class Builder {
 public:
  /// `examples` may be null.
  static Result<std::unique_ptr<Builder>> Make(const Options& options, const fs::path& folder,
                                               const std::string& level,
                                               std::shared_ptr<BuiltExamples> examples) {
    auto builder = std::make_unique<Builder>();
    PlanLibraryOptions library;
    library.kinds = ProductKinds();
    library.datasets["data"] = {options.dataset, folder / "index"};
    library.examples = std::move(examples);
    builder->library_ = std::make_unique<PlanLibrary>(std::move(library), MakeNullLogger());
    PipelineSource source;
    source.yaml = Yaml(options, level);
    MILLRACE_ASSIGN_OR_RETURN(builder->plan_, builder->library_->Compile(source));
    MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, builder->plan_->facts().Steps(1));
    builder->steps_ = std::make_unique<StepArithmetic>(steps);
    builder->scratch_ = builder->plan_->NewScratch();
    MILLRACE_ASSIGN_OR_RETURN(builder->at_, steps.Start({0, 0}));
    return builder;
  }

  PlanLibrary& library() { return *library_; }
  std::uint64_t checksum() const { return checksum_; }
  Status Epoch() {
    for (const std::uint64_t epoch = at_.epoch; at_.epoch == epoch;) {
      MILLRACE_RETURN_IF_ERROR(Next().status());
    }
    return OkStatus();
  }
  /// Examples a second of the thread's own time, so that others on the machine matter less.
  Result<double> Rate(double seconds) {
    double examples = 0;
    const double began = ThreadCpuSeconds();
    while (ThreadCpuSeconds() - began < seconds) {
      MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t more, Next());
      examples += static_cast<double>(more);
    }
    return examples / (ThreadCpuSeconds() - began);
  }

 private:
  Result<std::uint64_t> Next() {
    MILLRACE_ASSIGN_OR_RETURN(const auto batch,
                              plan_->Batch(at_.epoch, steps_->RankExamples(at_, 0), *scratch_));
    checksum_ += batch->payload_hash().low;
    at_ = steps_->Next(at_);
    return std::uint64_t{batch->info().planned_examples};
  }

  std::unique_ptr<PlanLibrary> library_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<StepArithmetic> steps_;
  std::unique_ptr<BatchScratch> scratch_;
  Position at_;
  std::uint64_t checksum_ = 0;
};

/// A consumer of a daemon of its own, which reads every batch.
class Consumer {
 public:
  static Result<std::unique_ptr<Consumer>> Make(const Options& options, const fs::path& folder,
                                                const std::string& level) {
    const std::string name = level.empty() ? "none" : level;
    auto consumer = std::make_unique<Consumer>();
    consumer->daemon_ = std::make_unique<Daemon>(
        Daemons{options.millraced, options.dataset, folder}, name,
        std::vector<std::string>{"serve", "--listen", "127.0.0.1:0", "--batch-listen",
                                 "127.0.0.1:0", "--state", folder / (name + ".state"), "--threads",
                                 std::to_string(options.threads)});
    SessionOptions session;
    session.address = consumer->daemon_->address();
    session.job = "bench";
    session.pipeline = Yaml(options, level);
    MILLRACE_ASSIGN_OR_RETURN(consumer->session_, Session::Connect(session));
    return consumer;
  }

  std::uint64_t checksum() const { return checksum_; }
  Status Epoch() {
    while (true) {
      MILLRACE_ASSIGN_OR_RETURN(const auto batch, session_->Next());
      if (batch) continue;
      return session_->NextEpoch().status();
    }
  }
  Result<double> Rate(double seconds) {
    double examples = 0;
    const auto began = std::chrono::steady_clock::now();
    while (Seconds(began) < seconds) {
      MILLRACE_ASSIGN_OR_RETURN(const auto batch, session_->Next());
      if (!batch) {
        MILLRACE_RETURN_IF_ERROR(session_->NextEpoch().status());
        continue;
      }
      // Every tensor is read once, as a trainer would do.
      for (const DeliveredTensor& tensor : batch->tensors()) {
        if (tensor.dtype != DType::kInt32) continue;
        for (const std::int32_t v : tensor.values<std::int32_t>()) {
          checksum_ += static_cast<std::uint32_t>(v);
        }
      }
      examples += static_cast<double>(batch->examples());
    }
    return examples / Seconds(began);
  }

 private:
  std::unique_ptr<Daemon> daemon_;
  std::unique_ptr<Session> session_;
  std::uint64_t checksum_ = 0;
};

/// The medians of rates that are measured in turns.
template <class Measured>
Result<std::vector<double>> InTurns(const Options& options,
                                    const std::vector<Measured*>& measured) {
  std::vector<std::vector<double>> rates(measured.size());
  for (int turn = 0; turn < options.turns; ++turn) {
    for (std::size_t i = 0; i < measured.size(); ++i) {
      MILLRACE_ASSIGN_OR_RETURN(const double rate, measured[i]->Rate(options.seconds));
      rates[i].push_back(rate);
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& all : rates) medians.push_back(Median(std::move(all)));
  return medians;
}

void Add(const Report& report, const std::string& name, double cached, double uncached) {
  report.Add({name, cached, "examples/s", "without a cache", uncached, {}});
  report.Note(fmt::format("{}: {:.2f} times", name, cached / uncached));
}

Status MeasurePlans(const Options& options, const fs::path& folder, const Report& report) {
  constexpr std::uint64_t kMemory = std::uint64_t{4} << 30;
  auto in_memory = std::make_shared<BuiltExamples>(kMemory);
  auto on_disk = std::make_shared<BuiltExamples>(
      0,
      std::make_unique<DiskCache>(
          DiskCacheOptions{.folder = folder / "examples", .limit_bytes = kMemory},
          std::make_shared<SystemCacheFiles>(), std::make_shared<SystemClock>(), MakeNullLogger()));
  MILLRACE_ASSIGN_OR_RETURN(const auto none, Builder::Make(options, folder, "", nullptr));
  MILLRACE_ASSIGN_OR_RETURN(const auto memory, Builder::Make(options, folder, "memory", in_memory));
  MILLRACE_ASSIGN_OR_RETURN(const auto disk, Builder::Make(options, folder, "disk", on_disk));
  MILLRACE_RETURN_IF_ERROR(none->Epoch());
  const auto before = std::chrono::steady_clock::now();
  MILLRACE_RETURN_IF_ERROR(memory->Epoch());
  report.Note(fmt::format("first epoch into memory: {:.2f} s, {} examples, {:.1f} MB",
                          Seconds(before), in_memory->stats().builds,
                          static_cast<double>(in_memory->stats().cache.memory.bytes) / 1e6));
  // What waits for a look is limited, so several looks may be needed.
  for (std::uint64_t builds = 1; builds > 0;) {
    const std::uint64_t built = on_disk->stats().builds;
    MILLRACE_RETURN_IF_ERROR(disk->Epoch());
    disk->library().CheckFiles();
    on_disk->Flush();
    builds = on_disk->stats().builds - built;
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<double> rates,
                            InTurns<Builder>(options, {none.get(), memory.get(), disk.get()}));
  Add(report, "cached in memory, one thread", rates[1], rates[0]);
  Add(report, "cached on disk, one thread", rates[2], rates[0]);
  report.Note(fmt::format("checksum {:x}", none->checksum() + memory->checksum()));
  return OkStatus();
}

Status MeasureConsumers(const Options& options, const fs::path& folder, const Report& report) {
  MILLRACE_ASSIGN_OR_RETURN(const auto none, Consumer::Make(options, folder, ""));
  MILLRACE_ASSIGN_OR_RETURN(const auto memory, Consumer::Make(options, folder, "memory"));
  for (Consumer* const consumer : {none.get(), memory.get()}) {
    MILLRACE_RETURN_IF_ERROR(consumer->Epoch());
    MILLRACE_RETURN_IF_ERROR(consumer->Epoch());
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<double> rates,
                            InTurns<Consumer>(options, {none.get(), memory.get()}));
  Add(report,
      fmt::format("cached, end to end in shared memory, {} worker thread{}", options.threads,
                  options.threads == 1 ? "" : "s"),
      rates[1], rates[0]);
  report.Note(fmt::format("checksum {:x}", none->checksum() + memory->checksum()));
  return OkStatus();
}

Status Run(const Options& options) {
  const TemporaryFolder folder;
  const Report report(options.json);
  MILLRACE_RETURN_IF_ERROR(MeasurePlans(options, folder.path(), report));
  const Status status = MeasureConsumers(options, folder.path(), report);
  if (!status.ok()) std::fprintf(stderr, "%s", DaemonLogs(folder.path()).c_str());
  return status;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Options options;
  millrace::CommandLine app("What a cache of examples gains, beside the same without one.",
                            argv[0]);
  app.AddOption("DATASET", &options.dataset, "folder of a dataset").Required();
  app.AddOption("--millraced", &options.millraced, "the daemon's binary").ShowDefault();
  app.AddOption("--source", &options.source, "source of the pipeline");
  app.AddOption("--keys", &options.keys, "more lines of the pipeline");
  app.AddOption("--batch", &options.batch, "examples a batch");
  app.AddOption("--threads", &options.threads, "threads of the workers");
  app.AddOption("--seconds", &options.seconds, "seconds of one turn");
  app.AddOption("--turns", &options.turns, "turns of each figure");
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::Run(options);
  if (!status.ok()) std::fprintf(stderr, "cached: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
