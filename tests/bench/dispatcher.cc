// The dispatcher at scale. The program measures reports a second (in the state machine on one core,
// and over gRPC), how soon a list of workers comes to a consumer that says it lacks it, how soon
// everyone has its list when all workers come at once, and memory for each peer.

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "common/command_line/command_line.h"
#include "server/dispatcher/machine/dispatcher_machine.h"
#include "server/dispatcher/machine/status.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/dispatcher_fleet.h"
#include "tests/bench/dispatcher_wire.h"
#include "tests/bench/heap.h"

namespace millrace::bench {
namespace {

struct MachineResult {
  double report_seconds = 0;  // CPU time of a consumer's report, and of the list that may answer it
  double events = 0;          // events for each second of CPU time: reports of all peers, ticks
  double attach_seconds = 0;  // CPU time from the first Hello to the last Welcome
  double join_seconds = 0;    // CPU time from the first worker until all consumers have their lists
  double worker_bytes = 0;    // memory for each worker and its places in lists
  double consumer_bytes = 0;  // memory for each consumer without a list
  double status_seconds = 0;  // CPU time to build a status
  double longest_event = 0;   // wall time in seconds
};

/// The state machine, its clock, and a fleet that answers it.
class Machine {
 public:
  explicit Machine(const FleetOptions& options)
      : options_(options), dispatcher_(DispatcherOptions(), 1, {}, now_) {
    for (std::uint32_t c = 0; c < options.consumers; ++c) consumers_.emplace_back(options, c);
    Do(dispatcher_.OnDataset("stdlib", BenchDataset(), now_));
  }

  Result<MachineResult> Run(int rounds) {
    MachineResult result;
    const std::uint64_t empty = Heap::held();
    double before = ThreadCpuSeconds();
    for (std::uint32_t c = 0; c < options_.consumers; ++c) {
      Do(dispatcher_.OnStreamOpened(AttachStream(c), false, now_));
      Do(dispatcher_.OnAttach(AttachStream(c), consumers_[c].Hello(), now_));
    }
    result.attach_seconds = ThreadCpuSeconds() - before;
    MILLRACE_RETURN_IF_ERROR(failure_);
    for (const BenchConsumer& consumer : consumers_) {
      if (!consumer.welcomed()) return Internal("a consumer had no Welcome");
    }
    AllReport(false);
    const std::uint64_t with_consumers = Heap::held();
    result.consumer_bytes = PerPeer(with_consumers - empty - consumer_bytes_, options_.consumers);

    consumer_bytes_ = 0;
    before = ThreadCpuSeconds();
    for (std::uint32_t w = 0; w < options_.workers; ++w) {
      Do(dispatcher_.OnStreamOpened(WorkStream(w), true, now_));
    }
    WorkersReport(0, options_.workers);
    MILLRACE_RETURN_IF_ERROR(Join());
    result.join_seconds = ThreadCpuSeconds() - before;
    AllReport(false);
    result.worker_bytes =
        PerPeer(Heap::held() - with_consumers - consumer_bytes_, options_.workers);
    Heap::Stop();
    for (int tick = 1; tick < kRoundsAList; ++tick) Tick();  // lists may be sent again now

    cpu_ = 0;
    longest_ = 0;
    answers_ = 0;
    std::uint64_t events = 0;
    for (int round = 0; round < rounds; ++round) {
      for (BenchConsumer& consumer : consumers_) consumer.TakeStep();
      const double reports_began = cpu_;
      // Each consumer lacks its list once in five rounds.
      AllReport(true, round % kRoundsAList);
      result.report_seconds += (cpu_ - reports_began) / rounds / options_.consumers;
      // A round is 250 ms: one tick, and reports of a quarter of the workers.
      const std::uint32_t quarter = (options_.workers + 3) / 4;
      const std::uint32_t first = std::min(options_.workers, round % 4 * quarter);
      WorkersReport(first, std::min(options_.workers, first + quarter));
      Tick();
      events += options_.consumers + quarter + 1;
      MILLRACE_RETURN_IF_ERROR(failure_);
    }
    result.events = static_cast<double>(events) / cpu_;
    result.longest_event = longest_;
    const std::uint64_t expected =
        static_cast<std::uint64_t>(rounds / kRoundsAList) * options_.consumers;
    if (answers_ < expected) {
      return Internal(
          fmt::format("{} lists that were lost came again, not {}", answers_, expected));
    }
    const double cpu = ThreadCpuSeconds();
    const v1::ServiceStatus status = BuildStatus(dispatcher_, DispatcherOptions(), now_.time);
    result.status_seconds = ThreadCpuSeconds() - cpu;
    if (status.consumers_size() != static_cast<int>(options_.consumers)) {
      return Internal("the status lacks consumers");
    }
    return result;
  }

 private:
  static StreamId WorkStream(std::uint32_t w) { return 1 + w; }
  StreamId AttachStream(std::uint32_t c) const { return 1 + options_.workers + c; }

  static double PerPeer(std::uint64_t bytes, std::uint32_t peers) {
    return static_cast<double>(bytes) / peers;
  }

  void Tick() {
    now_.time = now_.time + std::chrono::milliseconds(250);
    Timed(1, [&](std::uint32_t) { return dispatcher_.OnTick(now_); });
  }
  /// Until all consumers have their lists.
  Status Join() {
    for (int tick = 0; tick < 40; ++tick) {
      Tick();
      MILLRACE_RETURN_IF_ERROR(failure_);
      if (std::all_of(consumers_.begin(), consumers_.end(), [&](const BenchConsumer& consumer) {
            return consumer.members() == options_.members();
          })) {
        return OkStatus();
      }
      AllReport(false);
      const std::uint32_t quarter = (options_.workers + 3) / 4;
      const std::uint32_t first = std::min(options_.workers, tick % 4 * quarter);
      WorkersReport(first, std::min(options_.workers, first + quarter));
    }
    return Internal("10 s after all workers came a consumer's list lacks some");
  }

  /// Measures `count` events, each of which returns actions; carries out the actions outside the
  /// measured time.
  template <class Event>
  void Timed(std::uint32_t count, const Event& event) {
    std::vector<Actions> actions(count);
    const double cpu = ThreadCpuSeconds();
    auto before = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < count; ++i) {
      actions[i] = event(i);
      const auto after = std::chrono::steady_clock::now();
      longest_ = std::max(longest_, std::chrono::duration<double>(after - before).count());
      before = after;
    }
    cpu_ += ThreadCpuSeconds() - cpu;
    for (Actions& some : actions) Do(std::move(some));
  }

  /// Only a few reports are made at a time, so that they are still in the caches. Reports from the
  /// network are, too: the parser has just read them.
  static constexpr std::uint32_t kAtOnce = 16;

  /// A list is sent again if it was sent a second ago, so after five rounds of 250 ms.
  static constexpr int kRoundsAList = 5;

  /// `losing`: consumers in turn say that their list is lost, those of this `turn` now.
  void AllReport(bool losing, int turn = 0) {
    const auto has_list = [&](std::uint32_t c) {
      return !losing || static_cast<int>(c % kRoundsAList) != turn;
    };
    std::vector<v1::AttachRequest> reports;
    for (std::uint32_t first = 0; first < options_.consumers; first += kAtOnce) {
      const std::uint32_t count = std::min(kAtOnce, options_.consumers - first);
      reports.clear();
      for (std::uint32_t i = 0; i < count; ++i) {
        reports.push_back(consumers_[first + i].Report(has_list(first + i)));
      }
      Timed(count, [&](std::uint32_t i) {
        return dispatcher_.OnAttach(AttachStream(first + i), std::move(reports[i]), now_);
      });
    }
  }
  void WorkersReport(std::uint32_t from, std::uint32_t end) {
    std::vector<v1::WorkRequest> reports;
    for (std::uint32_t first = from; first < end; first += kAtOnce) {
      const std::uint32_t count = std::min(kAtOnce, end - first);
      reports.clear();
      for (std::uint32_t i = 0; i < count; ++i) {
        reports.push_back(MakeWorkReport(first + i, BenchFingerprint()));
      }
      Timed(count, [&](std::uint32_t i) {
        return dispatcher_.OnWork(WorkStream(first + i), reports[i], now_);
      });
    }
  }

  void Do(Actions actions) {
    for (Action& action : actions) {
      if (const auto* send = std::get_if<SendAttach>(&action)) {
        if (send->message.has_list()) ++answers_;
        const std::uint64_t before = Heap::held();
        const auto c = static_cast<std::uint32_t>(send->stream - 1 - options_.workers);
        if (Status status = consumers_[c].Receive(send->message); !status.ok()) failure_ = status;
        consumer_bytes_ += Heap::held() - before;
      } else if (const auto* compile = std::get_if<CompilePlan>(&action)) {
        Do(dispatcher_.OnPlanCompiled(compile->key, MakeBenchCompiler()->Compile(compile->pipeline),
                                      now_));
      } else if (const auto* commit = std::get_if<CommitRecord>(&action)) {
        Do(dispatcher_.OnRecordCommitted(commit->record, OkStatus(), now_));
      } else if (const auto* close = std::get_if<CloseStream>(&action)) {
        if (!close->status.ok()) failure_ = close->status;
      }
    }
  }

  const FleetOptions options_;
  Moment now_{Time{std::chrono::seconds(1000)}, 1'700'000'000};
  DispatcherMachine dispatcher_;
  std::vector<BenchConsumer> consumers_;
  Status failure_;
  double cpu_ = 0;
  double longest_ = 0;
  std::uint64_t answers_ = 0;         // lists that came
  std::uint64_t consumer_bytes_ = 0;  // memory of the made-up consumers themselves
};

class Printer {
 public:
  Printer(const FleetOptions& options, bool json) : options_(options), json_(json) {}

  void Line(const char* name, double value, const char* unit, const char* limit_name = "",
            double limit = 0) const {
    if (json_) {
      fmt::print(R"({{"name":"dispatcher {}","value":{},"unit":"{}","limit_name":"{}","limit":{},)"
                 R"("params":{{"workers":{},"consumers":{},"jobs":{}}}}})"
                 "\n",
                 name, value, unit, limit_name, limit, options_.workers, options_.consumers,
                 options_.jobs);
      return;
    }
    fmt::print("{:<44} {:>14.6g} {:<10}", name, value, unit);
    if (limit > 0) fmt::print(" {} {:g}", limit_name, limit);
    fmt::print("\n");
  }

 private:
  const FleetOptions& options_;
  const bool json_;
};

Status Run(const FleetOptions& options, int rounds, const WireOptions& over_grpc, bool json) {
  const Printer print(options, json);
  // This comes first because it forks, and no threads may run then.
  Result<WireResult> wire = WireResult();
  if (over_grpc.seconds > 0) wire = RunOverGrpc(options, over_grpc);
  if (rounds > 0) {
    Machine machine(options);
    MILLRACE_ASSIGN_OR_RETURN(const MachineResult m, machine.Run(rounds));
    print.Line("report, state machine", m.report_seconds, "CPU s", "at most", 0.0002);
    print.Line("events, state machine", m.events, "1/s");
    print.Line("longest event", m.longest_event, "s");
    print.Line("all attach, state machine", m.attach_seconds, "CPU s");
    print.Line("all workers join, state machine", m.join_seconds, "CPU s");
    print.Line("status", m.status_seconds, "CPU s");
    print.Line("worker, state machine", m.worker_bytes, "B");
    print.Line("consumer, state machine", m.consumer_bytes, "B");
  }
  MILLRACE_RETURN_IF_ERROR(wire.status());
  if (over_grpc.seconds <= 0) return OkStatus();
  print.Line("all attach, gRPC", wire->all_welcome, "s", "at most", 5);
  print.Line("all workers join, gRPC", wire->all_joined, "s", "at most", 10);
  print.Line("reports paced, gRPC", wire->paced_rate, "1/s", "asked for", over_grpc.rate);
  print.Line("lists that answer them, gRPC", wire->answer_rate, "1/s");
  print.Line("answer p50, gRPC", wire->p50, "s");
  print.Line("answer p99, gRPC", wire->p99, "s", "at most", 0.02);
  print.Line("answer worst, gRPC", wire->worst, "s");
  print.Line("report late p99, by the load itself", wire->late_p99, "s");
  print.Line("report late worst, by the load itself", wire->late_worst, "s");
  print.Line("status p50, gRPC", wire->status_p50, "s");
  print.Line("status worst, gRPC", wire->status_worst, "s");
  print.Line("status, gRPC", wire->status_bytes, "B");
  print.Line("dispatcher's CPU while paced", wire->paced_cpu, "cores");
  print.Line("a report, with all else, gRPC", wire->paced_cpu / wire->paced_rate, "CPU s");
  print.Line("CPU of the load while paced", wire->load_cpu, "cores");
  print.Line("CPU of other programs while paced", std::max(0.0, wire->other_cpu), "cores");
  print.Line("worker, gRPC", wire->worker_bytes, "B");
  print.Line("consumer, gRPC", wire->consumer_bytes, "B");
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::FleetOptions options;
  int rounds = 200;
  millrace::bench::WireOptions wire;
  bool json = false;
  millrace::CommandLine app("Reports to a dispatcher with a large fleet, and its lists of workers.",
                            argv[0]);
  app.AddOption("--workers", &options.workers).ShowDefault();
  app.AddOption("--consumers", &options.consumers).ShowDefault();
  app.AddOption("--jobs", &options.jobs).ShowDefault();
  app.AddOption("--rounds", &rounds, "reports of each consumer to the state machine; 0: none")
      .ShowDefault();
  app.AddOption("--rate", &wire.rate, "reports of consumers a second over gRPC").ShowDefault();
  app.AddOption("--seconds", &wire.seconds, "over gRPC; 0: not at all").ShowDefault();
  app.AddOption("--polls", &wire.polls_per_second, "of status a second meanwhile").ShowDefault();
  app.AddFlag("--json", json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::Run(options, rounds, wire, json);
  if (!status.ok()) std::fprintf(stderr, "dispatcher: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
