// Compares two worker processes with one: how much faster does a pipeline become if closures are
// its bottleneck? The consumer checks the hash of every batch and expands none, so that it needs
// little of the machine.

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "client/device/device.h"
#include "client/session.h"
#include "common/command_line/command_line.h"
#include "common/system/mutex.h"
#include "tests/bench/daemon.h"
#include "tests/bench/limits.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

struct Options {
  std::string dataset;
  std::string millraced = MILLRACE_DAEMON;
  std::uint32_t batch = 64;
  std::uint32_t workers = 2;
  double seconds = 3;  // measured for each fleet
  bool json = false;
};

/// Expands the first batch, and returns its tensors for every later batch.
class FirstBatchDevice final : public Device {
 public:
  std::string_view name() const override { return "host"; }
  Result<std::shared_ptr<const DeliveredBatch>> Expand(
      const std::shared_ptr<const PackedBatch>& packed, const Delivery& delivery,
      RowRange rows) override {
    MutexLock lock(mutex_);
    if (first_ == nullptr) {
      MILLRACE_ASSIGN_OR_RETURN(first_, host_->Expand(packed, delivery, rows));
    }
    return first_;
  }

 private:
  const std::shared_ptr<Device> host_ = MakeHostDevice();
  Mutex mutex_;
  std::shared_ptr<const DeliveredBatch> first_ MILLRACE_GUARDED_BY(mutex_);
};

/// Examples a second from a fleet of `workers` processes with one thread each.
Result<double> Rate(const Options& options, std::uint32_t workers) {
  const TemporaryFolder folder;
  const Daemons daemons{options.millraced, options.dataset, folder.path()};
  const Daemon dispatcher(
      daemons, "dispatcher",
      {"dispatcher", "--state", (folder.path() / "state").string(), "--listen", "127.0.0.1:0"});
  std::vector<std::unique_ptr<Daemon>> fleet;
  for (std::uint32_t i = 0; i < workers; ++i) {
    fleet.push_back(std::make_unique<Daemon>(
        daemons, "worker" + std::to_string(i),
        std::vector<std::string>{"worker", "--batch-listen", "127.0.0.1:0", "--dispatcher",
                                 dispatcher.address(), "--threads", "1"}));
  }
  SessionOptions session_options;
  session_options.address = dispatcher.address();
  session_options.job = "fleet";
  session_options.pipeline = fmt::format(
      "millrace: 1\ndataset: data\nsource: proof_states\nshuffle: {{seed: 1}}\n"
      "closure: {{stop_at_definitions: false}}\nbatch: {{size: {}, remainder: drop}}\n",
      options.batch);
  SessionEnvironment environment;
  environment.device = std::make_shared<FirstBatchDevice>();
  MILLRACE_ASSIGN_OR_RETURN(const auto session, Session::Create(session_options, environment));
  MILLRACE_RETURN_IF_ERROR(session->Attach());
  auto began = std::chrono::steady_clock::now();
  bool warm = false;
  double examples = 0;
  while (!warm || Seconds(began) < options.seconds) {
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, session->Next());
    if (!batch) {
      MILLRACE_RETURN_IF_ERROR(session->NextEpoch().status());
      continue;
    }
    examples += static_cast<double>(batch->info().example_ids.size());
    // By now every worker serves, and all windows are full.
    if (!warm && Seconds(began) > options.seconds / 2) {
      warm = true;
      examples = 0;
      began = std::chrono::steady_clock::now();
    }
  }
  const double rate = examples / Seconds(began);
  return rate;
}

Status Run(const Options& options) {
  MILLRACE_ASSIGN_OR_RETURN(const double one, Rate(options, 1));
  MILLRACE_ASSIGN_OR_RETURN(const double fleet, Rate(options, options.workers));
  Report(options.json)
      .Add({fmt::format("closure-bound, {} worker processes, hashes checked", options.workers),
            fleet,
            "examples/s",
            "one worker process",
            one,
            {{"batch", std::to_string(options.batch)}}});
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Options options;
  millrace::CommandLine app("Several worker processes beside one, if closures are the bottleneck.",
                            argv[0]);
  app.ShowDefaults();
  app.AddOption("DATASET", &options.dataset, "folder of a dataset").Required();
  app.AddOption("--millraced", &options.millraced, "the daemon's binary").ShowDefault();
  app.AddOption("--batch", &options.batch, "examples a batch").Positive();
  app.AddOption("--workers", &options.workers, "in the larger fleet").Between(1, 64);
  app.AddOption("--seconds", &options.seconds, "for each fleet").Positive();
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::Run(options);
  if (!status.ok()) std::fprintf(stderr, "bench_fleet: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
