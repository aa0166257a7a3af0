// What a trainer waits for, from the session's side: the first batch of a cold daemon, the first
// batch of a session that resumes far into an epoch, the step over an epoch's end, and the longest
// wait after one of two workers was killed. Real processes, loopback gRPC.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "client/session.h"
#include "common/epoch/cursor.h"
#include "tests/bench/limits.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string dataset;
  std::string millraced;
  std::uint32_t batch = 512;
  std::uint32_t epochs = 40;  // whose ends are measured
  double seconds = 4;         // after the kill
  std::uint64_t seed = 1;     // of the place to resume at
  bool json = false;
};

/// A daemon of one role, killed with its owner.
class Daemon {
 public:
  Daemon(const Options& options, const fs::path& folder, const std::string& name,
         std::vector<std::string> arguments) {
    const fs::path port_file = folder / (name + ".address");
    const std::vector<std::string> common = {"--dataset", "data=" + options.dataset, "--port-file",
                                             port_file.string()};
    arguments.insert(arguments.end(), common.begin(), common.end());
    arguments.insert(arguments.begin(), options.millraced);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string log = folder / (name + ".log");
      if (std::freopen(log.c_str(), "w", stderr) == nullptr) _exit(126);
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    // Short waits: this is part of what is measured.
    for (int i = 0; i < 60'000 && address_.empty(); ++i) {
      std::ifstream(port_file) >> address_;
      if (address_.empty()) usleep(500);
    }
  }
  ~Daemon() { Kill(); }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  const std::string& address() const { return address_; }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  std::string address_;
};

class Bench {
 public:
  Bench(const Options& options, fs::path folder)
      : options_(options), folder_(std::move(folder)), report_(options.json) {}

  Status Run() {
    MILLRACE_RETURN_IF_ERROR(ServeOne());
    return LoseWorker();
  }

 private:
  using Clock = std::chrono::steady_clock;

  Result<std::unique_ptr<Session>> Connect(const std::string& address, const std::string& job,
                                           const std::string& cursor) const {
    SessionOptions options;
    options.address = address;
    options.job = job;
    options.cursor = cursor;
    options.pipeline = fmt::format(
        "millrace: 1\ndataset: data\nsource: proof_states\nshuffle: {{seed: {}}}\n"
        "batch: {{size: {}, remainder: drop}}\n",
        options_.seed, options_.batch);
    return Session::Connect(options);
  }

  /// The next batch, over epochs' ends.
  static Status Take(Session& session) {
    for (;;) {
      MILLRACE_ASSIGN_OR_RETURN(const auto batch, session.Next());
      if (batch) return OkStatus();
      MILLRACE_ASSIGN_OR_RETURN(const bool more, session.NextEpoch());
      if (!more) return OutOfRange("the session has no further epoch");
    }
  }

  Status ServeOne() {
    auto began = Clock::now();
    const Daemon serve(options_, folder_, "serve",
                       {"serve", "--state", (folder_ / "state").string(), "--listen", "127.0.0.1:0",
                        "--batch-listen", "127.0.0.1:0"});
    std::string far;
    {
      MILLRACE_ASSIGN_OR_RETURN(const auto session, Connect(serve.address(), "first", ""));
      MILLRACE_RETURN_IF_ERROR(Take(*session));
      report_.Add(
          {"first batch, from the start of a cold daemon", Seconds(began) * 1e3, "ms", "", 0, {}});
      MILLRACE_RETURN_IF_ERROR(EpochEnds(*session));
      MILLRACE_ASSIGN_OR_RETURN(far, FarCursor(*session));
    }
    began = Clock::now();
    MILLRACE_ASSIGN_OR_RETURN(const auto session, Connect(serve.address(), "resumed", far));
    MILLRACE_RETURN_IF_ERROR(Take(*session));
    report_.Add(
        {"first batch after resuming at a random step", Seconds(began) * 1e3, "ms", "", 0, {}});
    return OkStatus();
  }

  /// A cursor at a random step of a random later epoch.
  Result<std::string> FarCursor(const Session& session) const {
    MILLRACE_ASSIGN_OR_RETURN(Cursor cursor, Cursor::Parse(session.cursor()));
    std::mt19937_64 random(options_.seed);
    const std::uint64_t steps = session.spec().steps_per_epoch;
    for (CursorEntry& entry : cursor.entries) {
      entry.position = {1'000 + random() % 1'000'000, random() % steps * options_.batch};
    }
    return cursor.ToString();
  }

  /// The step from an epoch's last batch to the next one's first, beside the mean step.
  Status EpochEnds(Session& session) {
    std::vector<double> gaps;
    double steps_seconds = 0;
    std::uint64_t steps = 0;
    bool crossed = false;
    auto last = Clock::now();
    for (std::uint32_t ends = 0; ends < options_.epochs;) {
      MILLRACE_ASSIGN_OR_RETURN(const auto batch, session.Next());
      if (!batch) {
        MILLRACE_RETURN_IF_ERROR(session.NextEpoch().status());
        crossed = true;
        ++ends;
        continue;
      }
      const double took = Seconds(last);
      last = Clock::now();
      if (crossed) {
        gaps.push_back(took);
        crossed = false;
      } else {
        steps_seconds += took;
        ++steps;
      }
    }
    if (gaps.empty() || steps == 0)
      return OutOfRange("no epoch has two steps: use a smaller --batch");
    std::sort(gaps.begin(), gaps.end());
    const double mean = steps_seconds / static_cast<double>(steps) * 1e6;
    const std::string ends = std::to_string(gaps.size());
    report_.Add({"step over an epoch's end, median",
                 gaps[gaps.size() / 2] * 1e6,
                 "us",
                 "the mean step within epochs",
                 mean,
                 {{"epochs", ends}}});
    report_.Add({"step over an epoch's end, longest",
                 gaps.back() * 1e6,
                 "us",
                 "the mean step within epochs",
                 mean,
                 {{"epochs", ends}}});
    return OkStatus();
  }

  /// The longest step after one of two workers was killed, beside the mean step before.
  Status LoseWorker() {
    const Daemon dispatcher(
        options_, folder_, "dispatcher",
        {"dispatcher", "--state", (folder_ / "state2").string(), "--listen", "127.0.0.1:0"});
    const std::vector<std::string> worker = {"worker", "--batch-listen", "127.0.0.1:0",
                                             "--dispatcher", dispatcher.address()};
    Daemon one(options_, folder_, "one", worker);
    const Daemon two(options_, folder_, "two", worker);
    MILLRACE_ASSIGN_OR_RETURN(const auto session, Connect(dispatcher.address(), "lossy", ""));
    // Both workers serve, and windows are full.
    const auto begun = Clock::now();
    std::uint64_t steps = 0;
    while (Seconds(begun) < options_.seconds / 2) {
      MILLRACE_RETURN_IF_ERROR(Take(*session));
      ++steps;
    }
    const double mean = Seconds(begun) / static_cast<double>(steps) * 1e3;
    one.Kill();
    double longest = 0;
    for (auto killed = Clock::now(), last = killed; Seconds(killed) < options_.seconds;) {
      MILLRACE_RETURN_IF_ERROR(Take(*session));
      longest = std::max(longest, Seconds(last));
      last = Clock::now();
    }
    report_.Add({"longest step after one of two workers is killed",
                 longest * 1e3,
                 "ms",
                 "the mean step before",
                 mean,
                 {}});
    return OkStatus();
  }

  const Options options_;
  const fs::path folder_;
  const Report report_;
};

Status Run(const Options& options) {
  std::string name = (fs::temp_directory_path() / "millrace-bench-XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  const Status status = Bench(options, folder).Run();
  if (!status.ok()) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".log") continue;
      std::ifstream log(entry.path());
      fmt::print(stderr, "--- {}\n{}\n", entry.path().filename().string(),
                 std::string(std::istreambuf_iterator<char>(log), {}));
    }
  }
  fs::remove_all(folder);
  return status;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Options options;
  CLI::App app("What a trainer waits for: first batch, resume, an epoch's end, a lost worker.");
  app.option_defaults()->always_capture_default();
  app.add_option("DATASET", options.dataset, "folder of a dataset")->required();
  app.add_option("--millraced", options.millraced, "the daemon's binary")
      ->default_val(MILLRACE_DAEMON);
  app.add_option("--batch", options.batch, "examples a batch")->check(CLI::PositiveNumber);
  app.add_option("--epochs", options.epochs, "ends of epochs to measure")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "to watch after the kill")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "of the order and of the step to resume at");
  app.add_flag("--json", options.json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);
  const millrace::Status status = millrace::bench::Run(options);
  if (!status.ok()) std::fprintf(stderr, "bench_waits: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
