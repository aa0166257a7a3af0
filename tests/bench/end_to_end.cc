// Measures batches from the page cache to expanded batches in a consumer, over gRPC on loopback.
// `millraced serve` is a process of its own; the session is in this process. The same run measures
// what one thread builds with no network, memcpy, and one TCP stream on loopback.

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "client/session.h"
#include "common/base/log.h"
#include "common/batch/batch.h"
#include "common/command_line/command_line.h"
#include "common/system/host.h"
#include "server/catalog/product_kinds.h"
#include "server/plan/plan_library.h"
#include "tests/bench/limits.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string dataset;
  std::string millraced = MILLRACE_DAEMON;
  int threads = 1;
  std::uint32_t batch = 512;
  double seconds = 10;
  std::string global_context = "none";
  bool network = false;
  std::uint32_t consumers = 1;  // ranks; each has a thread
  bool json = false;
};

/// The daemon; it ends together with this object.
class ServeProcess {
 public:
  ServeProcess(const Options& options, const fs::path& folder) {
    const std::string port_file = folder / "address";
    pid_ = fork();
    if (pid_ == 0) {
      const std::string log = folder / "log";
      if (std::freopen(log.c_str(), "w", stderr) == nullptr) _exit(126);
      const std::string state = folder / "state";
      const std::string dataset = "data=" + options.dataset;
      const std::string threads = std::to_string(options.threads);
      execl(options.millraced.c_str(), "millraced", "serve", "--dataset", dataset.c_str(),
            "--state", state.c_str(), "--listen", "127.0.0.1:0", "--batch-listen", "127.0.0.1:0",
            "--threads", threads.c_str(), "--port-file", port_file.c_str(), nullptr);
      _exit(127);
    }
    for (int i = 0; i < 3000 && address_.empty(); ++i) {
      std::ifstream(port_file) >> address_;
      if (address_.empty()) usleep(10'000);
    }
  }
  ~ServeProcess() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  const std::string& address() const { return address_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  std::string address_;
};

struct Rate {
  double examples = 0;  // examples a second
  double bytes = 0;
};

/// CPU seconds of a process, all its threads together.
double CpuSeconds(pid_t pid) {
  clockid_t clock;
  timespec now{};
  if (clock_getcpuclockid(pid, &clock) == 0) clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Builds on one thread, with no network. Each epoch has another order, so that no batch comes
/// twice.
Result<Rate> BuildRate(const Options& options, const std::string& yaml) {
  PlanLibraryOptions library_options;
  library_options.kinds = ProductKinds();
  library_options.datasets["data"] = {options.dataset, {}};
  PlanLibrary library(library_options, MakeNullLogger());
  PipelineSource source;
  source.yaml = yaml;
  MILLRACE_ASSIGN_OR_RETURN(const auto plan, library.Compile(source));
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan->facts().Steps(1));
  const auto scratch = plan->NewScratch();
  Rate total;
  MILLRACE_ASSIGN_OR_RETURN(Position at, steps.Start({0, 0}));
  const auto began = std::chrono::steady_clock::now();
  while (Seconds(began) < options.seconds / 2) {
    MILLRACE_ASSIGN_OR_RETURN(const auto batch,
                              plan->Batch(at.epoch, steps.RankExamples(at, 0), *scratch));
    total.examples += static_cast<double>(batch->examples());
    total.bytes += static_cast<double>(batch->bytes().size());
    at = steps.Next(at);
  }
  const double seconds = Seconds(began);
  return Rate{total.examples / seconds, total.bytes / seconds};
}

/// The figures of one consumer.
struct Consumed {
  Rate rate;
  std::uint64_t checksum = 0;
  double waited = 0;  // share of the time that the loop waited
  // CPU seconds for a million examples; those of all consumers together if there are several.
  double consumer_cpu = 0;
  double worker_cpu = 0;
};

Result<Consumed> Consume(const Options& options, const std::string& yaml, const ServeProcess& serve,
                         std::uint32_t rank) {
  SessionOptions session_options;
  session_options.address = serve.address();
  session_options.job = "bench";
  session_options.pipeline = yaml;
  session_options.shared_memory = !options.network;
  session_options.rank = rank;
  session_options.world_size = options.consumers;
  MILLRACE_ASSIGN_OR_RETURN(const auto session, Session::Connect(session_options));
  Consumed consumed;
  Rate total;
  std::uint64_t warm_up = 50;  // batches; fills connections, windows, page cache
  auto began = std::chrono::steady_clock::now();
  std::uint64_t bytes_before = 0;
  double waited_before = 0;
  double consumer_before = 0;
  double worker_before = 0;
  while (warm_up > 0 || Seconds(began) < options.seconds) {
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, session->Next());
    if (!batch) {
      MILLRACE_ASSIGN_OR_RETURN(const bool more, session->NextEpoch());
      if (!more) break;
      continue;
    }
    // Every tensor is read once, as a trainer would do.
    for (const DeliveredTensor& tensor : batch->tensors()) {
      if (tensor.dtype == DType::kInt32) {
        for (const std::int32_t v : tensor.values<std::int32_t>())
          consumed.checksum += static_cast<std::uint32_t>(v);
      }
    }
    if (warm_up > 0) {
      if (--warm_up == 0) {
        began = std::chrono::steady_clock::now();
        bytes_before = session->stats().bytes;
        waited_before = session->stats().total_waited_seconds();
        consumer_before = CpuSeconds(0);
        worker_before = CpuSeconds(serve.pid());
      }
      continue;
    }
    total.examples += static_cast<double>(batch->examples());
  }
  const double seconds = Seconds(began);
  const SessionStats stats = session->stats();
  consumed.waited = (stats.total_waited_seconds() - waited_before) / seconds;
  consumed.rate = {total.examples / seconds,
                   static_cast<double>(stats.bytes - bytes_before) / seconds};
  const double millions = total.examples / 1e6;
  consumed.consumer_cpu = (CpuSeconds(0) - consumer_before) / millions;
  consumed.worker_cpu = (CpuSeconds(serve.pid()) - worker_before) / millions;
  return consumed;
}

/// Runs all consumers together; each is a rank of one job.
Result<Consumed> StreamRate(const Options& options, const std::string& yaml,
                            const ServeProcess& serve) {
  std::vector<Result<Consumed>> results(options.consumers, Consumed());
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < options.consumers; ++rank) {
      threads.emplace_back([&, rank] { results[rank] = Consume(options, yaml, serve, rank); });
    }
  }
  Consumed sum;
  for (const Result<Consumed>& result : results) {
    MILLRACE_RETURN_IF_ERROR(result.status());
    sum.rate.examples += result->rate.examples;
    sum.rate.bytes += result->rate.bytes;
    sum.checksum += result->checksum;
    sum.waited += result->waited / options.consumers;
    sum.consumer_cpu += result->consumer_cpu / options.consumers / options.consumers;
    sum.worker_cpu += result->worker_cpu / options.consumers / options.consumers;
  }
  return sum;
}

Status Run(const Options& options) {
  const std::string yaml = fmt::format(
      "millrace: 1\ndataset: data\nsource: proof_states\nshuffle: {{seed: 1}}\n"
      "batch: {{size: {}, remainder: drop}}\nfields: {{global_context: {}}}\n",
      options.batch, options.global_context);
  std::string name = (fs::temp_directory_path() / "millrace-bench-XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());

  MILLRACE_ASSIGN_OR_RETURN(const Rate build, BuildRate(options, yaml));
  Consumed stream;
  {
    ServeProcess serve(options, folder);
    MILLRACE_ASSIGN_OR_RETURN(stream, StreamRate(options, yaml, serve));
  }
  fs::remove_all(folder);
  const double memcpy_rate = MemcpyBytesPerSecond();
  const double loopback = LoopbackBytesPerSecond();

  const Report report(options.json);
  report.Note(fmt::format("machine      {} CPUs, {:.0f} GiB", ReadHostLimits().cpus,
                          static_cast<double>(ReadHostLimits().memory_bytes) / (1 << 30)));
  report.Note(
      fmt::format("pipeline     global_context {}, checksum on, expanded; consumers waited "
                  "{:.0f} %",
                  options.global_context, stream.waited * 100));
  const std::string batches = fmt::format("batches of {}", options.batch);
  const std::string fleet = fmt::format("{}, {}, {} worker thread{}, {} consumer{}",
                                        options.network ? "over gRPC" : "in shared memory", batches,
                                        options.threads, options.threads == 1 ? "" : "s",
                                        options.consumers, options.consumers == 1 ? "" : "s");
  report.Add({"end to end " + fleet,
              stream.rate.examples,
              "examples/s",
              "built by one thread without a network",
              build.examples,
              {}});
  report.Add({"packed bytes " + fleet,
              stream.rate.bytes / 1e9,
              "GB/s",
              "one loopback TCP stream, 1 MiB",
              loopback / 1e9,
              {}});
  report.Add({"built by one thread, " + batches,
              build.bytes / 1e9,
              "GB/s",
              "memcpy",
              memcpy_rate / 1e9,
              {}});
  report.Add(
      {"CPU of the worker a million examples " + fleet, stream.worker_cpu, "CPU s", "", 0, {}});
  report.Add(
      {"CPU of consumers a million examples " + fleet, stream.consumer_cpu, "CPU s", "", 0, {}});
  report.Note(fmt::format("checksum     {:016x}", stream.checksum));
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Options options;
  millrace::CommandLine app(
      "End to end over loopback gRPC, beside what one thread builds, memcpy and TCP.", argv[0]);
  app.AddOption("DATASET", &options.dataset, "folder of a dataset").Required();
  app.AddOption("--millraced", &options.millraced, "the daemon's binary").ShowDefault();
  app.AddOption("--threads", &options.threads, "threads of the worker");
  app.AddOption("--batch", &options.batch, "examples a batch");
  app.AddOption("--seconds", &options.seconds, "seconds to measure");
  app.AddOption("--global-context", &options.global_context, "reference, full or none");
  app.AddFlag("--network", options.network, "over loopback gRPC, not through shared memory");
  app.AddOption("--consumers", &options.consumers, "ranks of the job").Between(1, 64);
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::Run(options);
  if (!status.ok()) std::fprintf(stderr, "end_to_end: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
