// Measures how long a trainer waits, as its session sees it: for the first batch of a cold daemon
// and of a warm one; for the first batch of a session that resumes far into an epoch; for the step
// over an epoch's end, also in a new session; and the longest wait after one of two workers was
// killed. It runs real processes over gRPC on loopback.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/session.h"
#include "common/command_line/command_line.h"
#include "common/epoch/cursor.h"
#include "tests/bench/daemon.h"
#include "tests/bench/limits.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string dataset;
  std::string millraced = MILLRACE_DAEMON;
  std::uint32_t batch = 512;
  std::uint32_t epochs = 40;    // whose ends are measured
  std::uint32_t sessions = 20;  // new sessions whose first batches and epoch end are measured
  double seconds = 4;           // measured after the kill
  std::uint64_t seed = 1;       // chooses the place to resume at
  bool json = false;
};

class Bench {
 public:
  Bench(const Options& options, fs::path folder)
      : options_(options),
        folder_(std::move(folder)),
        daemons_{options.millraced, options.dataset, folder_},
        report_(options.json) {}

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

  /// Takes the next batch, also over the end of an epoch.
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
    const Daemon serve(daemons_, "serve",
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
    MILLRACE_RETURN_IF_ERROR(Beginnings(serve.address()));
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

  /// Measures the step from an epoch's last batch to the next epoch's first, beside the mean step,
  /// and beside as many steps in the middle of epochs: no step takes exactly the mean time.
  Status EpochEnds(Session& session) {
    std::vector<double> gaps;
    std::vector<double> middles;
    std::uint64_t of_epoch = 0;
    double steps_seconds = 0;
    std::uint64_t steps = 0;
    bool crossed = false;
    auto last = Clock::now();
    for (std::uint32_t ends = 0; ends < options_.epochs;) {
      MILLRACE_ASSIGN_OR_RETURN(const auto batch, session.Next());
      if (!batch) {
        MILLRACE_RETURN_IF_ERROR(session.NextEpoch().status());
        crossed = true;
        of_epoch = 0;
        ++ends;
        continue;
      }
      const double took = Seconds(last);
      last = Clock::now();
      if (++of_epoch == session.spec().steps_per_epoch / 2) middles.push_back(took);
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
    mean_step_ = steps_seconds / static_cast<double>(steps);
    AddSteps("step over an epoch's end", gaps, "epochs");
    if (!middles.empty()) AddSteps("step in the middle of an epoch", middles, "epochs");
    return OkStatus();
  }

  /// Reports median and longest of some steps, beside the mean step. `of`: one of these is measured
  /// in each.
  void AddSteps(const std::string& what, std::vector<double> seconds, const std::string& of) const {
    std::sort(seconds.begin(), seconds.end());
    const std::vector<std::pair<std::string, std::string>> count = {
        {of, std::to_string(seconds.size())}};
    const double mean = mean_step_ * 1e6;
    report_.Add({what + ", median", seconds[seconds.size() / 2] * 1e6, "us",
                 "the mean step within epochs", mean, count});
    report_.Add({what + ", longest", seconds.back() * 1e6, "us", "the mean step within epochs",
                 mean, count});
  }

  /// Measures new sessions, one after another, at a daemon that knows their plan: the time from
  /// Attach to the first batch, and the longest step from there to the second epoch, beside the
  /// mean step. REQUIRES: EpochEnds was called.
  Status Beginnings(const std::string& address) {
    std::vector<double> firsts;
    std::vector<double> longests;
    std::vector<double> over_ends;
    for (std::uint32_t i = 0; i < options_.sessions; ++i) {
      MILLRACE_ASSIGN_OR_RETURN(const auto session,
                                Connect(address, "begins-" + std::to_string(i), ""));
      auto last = Clock::now();
      MILLRACE_RETURN_IF_ERROR(Take(*session));
      firsts.push_back(Seconds(last));
      last = Clock::now();
      double longest = 0;
      const std::uint64_t first_epoch = session->epoch();
      while (session->epoch() == first_epoch) {
        MILLRACE_RETURN_IF_ERROR(Take(*session));
        longest = std::max(longest, Seconds(last));
        over_ends.resize(i + 1);
        over_ends[i] = Seconds(last);
        last = Clock::now();
      }
      longests.push_back(longest);
    }
    AddSteps("first batch after Attach, warm daemon", firsts, "sessions");
    AddSteps("longest step of a session's first epoch", longests, "sessions");
    AddSteps("step over a session's first epoch's end", over_ends, "sessions");
    return OkStatus();
  }

  /// Measures the longest step after one of two workers was killed, beside the mean step before.
  Status LoseWorker() {
    const Daemon dispatcher(
        daemons_, "dispatcher",
        {"dispatcher", "--state", (folder_ / "state2").string(), "--listen", "127.0.0.1:0"});
    const std::vector<std::string> worker = {"worker", "--batch-listen", "127.0.0.1:0",
                                             "--dispatcher", dispatcher.address()};
    Daemon one(daemons_, "one", worker);
    const Daemon two(daemons_, "two", worker);
    MILLRACE_ASSIGN_OR_RETURN(const auto session, Connect(dispatcher.address(), "lossy", ""));
    // Waits until both workers serve and all windows are full.
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
  const Daemons daemons_;
  const Report report_;
  double mean_step_ = 0;  // in seconds, within epochs
};

Status Run(const Options& options) {
  const TemporaryFolder folder;
  const Status status = Bench(options, folder.path()).Run();
  if (!status.ok()) fmt::print(stderr, "{}", DaemonLogs(folder.path()));
  return status;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Options options;
  millrace::CommandLine app(
      "How long a trainer waits: first batch, resume, an epoch's end, a lost worker.", argv[0]);
  app.ShowDefaults();
  app.AddOption("DATASET", &options.dataset, "folder of a dataset").Required();
  app.AddOption("--millraced", &options.millraced, "the daemon's binary").ShowDefault();
  app.AddOption("--batch", &options.batch, "examples a batch").Positive();
  app.AddOption("--epochs", &options.epochs, "ends of epochs to measure").Positive();
  app.AddOption("--sessions", &options.sessions, "new sessions to measure").Positive();
  app.AddOption("--seconds", &options.seconds, "measured after the kill").Positive();
  app.AddOption("--seed", &options.seed, "chooses the order and the step to resume at");
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::Run(options);
  if (!status.ok()) std::fprintf(stderr, "bench_waits: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
