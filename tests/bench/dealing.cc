// Measures what a step costs a consumer's state machine: to deal it to one of its workers, to tell
// the worker, and to take the batch. Workers build batches that take as long as those of training
// jobs, so that each of them is asked for a few steps at a time. Time is fake, so that only the
// machine's own work is measured.
//
// The limit is the same for all: a pass over 256 doubles, one for each of the most workers here.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/session/machine/session_machine.h"
#include "common/command_line/command_line.h"
#include "common/transport/convert/steps.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/report.h"

namespace millrace {
namespace {

using client::SessionMachine;
using client::StreamId;

constexpr std::uint64_t kBatchBytes = 1'000'000;
constexpr std::size_t kLimitDoubles = 256;

struct Options {
  std::vector<std::uint64_t> workers = {8, 64, 256};
  std::uint64_t steps = 20'000;
  double batch_ms = 800;
  bool json = false;
};

/// A session with workers that build for it without end. An event is a batch that is built.
class Job {
 public:
  Job(std::uint64_t workers, double batch_ms)
      : batch_(std::chrono::microseconds(static_cast<std::int64_t>(1e3 * batch_ms))) {
    client::SessionMachineOptions options;
    options.address = "dispatcher:1";
    options.hello.set_world_size(1);
    options.hello.set_job("j");
    machine_.emplace(
        options, [] { return 0.5; }, MakeNullLogger());
    machine_->Start(now_);
    Perform();
    v1::AttachResponse message;
    message.set_term(1);
    v1::Welcome& welcome = *message.mutable_welcome();
    ToProto(SessionId({1, 1}), welcome.mutable_session());
    welcome.set_fingerprint(plan_.ToString());
    ToProto(StepOptions{.examples = std::uint64_t{1} << 40, .size = 1, .world_size = 1},
            welcome.mutable_spec()->mutable_steps());
    message.mutable_list()->set_number(1);
    for (std::uint64_t worker = 1; worker <= workers; ++worker) {
      v1::WorkerRef& ref = *message.mutable_list()->add_workers();
      ToProto(WorkerId({1, worker}), ref.mutable_id());
      ref.set_address(fmt::format("worker{}:1", worker));
    }
    machine_->OnAttachMessage(attach_, message, now_);
    Perform();
  }

  /// Runs until the loop has taken so many more steps. Returns CPU seconds.
  double Take(std::uint64_t steps) {
    const std::uint64_t end = machine_->next() + steps;
    const double before = bench::ThreadCpuSeconds();
    while (machine_->next() < end) Step();
    return bench::ThreadCpuSeconds() - before;
  }
  std::size_t workers_used() const { return streams_.size(); }
  const SessionStats stats() const { return machine_->stats(now_); }

 private:
  struct Builder {
    std::optional<std::uint64_t> step;
    Time done;
    std::set<std::uint64_t> wants;
  };

  /// The next thing that happens: a batch is built, or the machine has to tick.
  void Step() {
    Time next = std::min(machine_->NextTick(), spoke_ + std::chrono::seconds(1));
    if (!due_.empty()) next = std::min(next, due_.begin()->first);
    now_ = std::max(now_, next);
    if (now_ >= spoke_ + std::chrono::seconds(1)) SayAll();
    if (machine_->NextTick() <= now_) machine_->Tick(now_);
    while (!due_.empty() && due_.begin()->first <= now_) {
      const StreamId stream = due_.begin()->second;
      due_.erase(due_.begin());
      Bring(stream);
    }
    while (machine_->holds(machine_->next())) machine_->OnTaken(now_);
    machine_->OnLoopAsks(now_);
    Perform();
  }
  void Bring(StreamId stream) {
    Builder& builder = streams_.at(stream);
    const std::uint64_t step = *builder.step;
    builder.step.reset();
    builder.wants.erase(step);
    client::Arrival arrival;
    arrival.at = machine_->steps().At(step);
    arrival.digest = {step, 1};
    arrival.bytes = kBatchBytes;
    arrival.fingerprint = plan_;
    arrival.epoch = arrival.at.epoch;
    arrival.first_example = machine_->steps().Examples(step).first;
    arrival.counts.examples = arrival.planned_examples = 1;
    v1::BatchFragment fragment;
    ToProto(arrival.at, fragment.mutable_at());
    fragment.set_total_bytes(arrival.bytes);
    machine_->OnBatchesFragment(stream, fragment, arrival.bytes, now_);
    machine_->OnBatchesArrival(stream, arrival, now_);
    Begin(stream, builder);
  }
  void Begin(StreamId stream, Builder& builder) {
    if (builder.step || builder.wants.empty()) return;
    builder.step = *builder.wants.begin();
    // No two builds take the same time.
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    builder.done = now_ + batch_ * 9 / 10 + batch_ * static_cast<int>(seed_ >> 56) / 1280;
    due_.emplace(builder.done, stream);
  }
  void Say(StreamId stream) {
    v1::BatchFragment fragment;
    fragment.mutable_alive()->set_slots(2);
    fragment.mutable_alive()->set_batch_ms(1e3 * ToSeconds(batch_));
    fragment.mutable_alive()->set_threads_milli(1000);
    machine_->OnBatchesFragment(stream, fragment, 0, now_);
  }
  void SayAll() {
    spoke_ = now_;
    for (const auto& [stream, builder] : streams_) Say(stream);
    v1::AttachResponse heartbeat;
    heartbeat.set_term(1);
    machine_->OnAttachMessage(attach_, heartbeat, now_);
  }
  void Perform() {
    for (auto actions = machine_->TakeActions(); !actions.empty();
         actions = machine_->TakeActions()) {
      for (const client::Action& action : actions) PerformOne(action);
    }
  }
  void PerformOne(const client::Action& action) {
    if (const auto* opened = std::get_if<client::OpenAttach>(&action)) {
      attach_ = opened->stream;
    } else if (const auto* sent = std::get_if<client::SendAttach>(&action)) {
      machine_->OnAttachWritten(sent->stream, now_);
    } else if (const auto* batches = std::get_if<client::OpenBatches>(&action)) {
      streams_[batches->stream];
      Say(batches->stream);
    } else if (const auto* wants = std::get_if<client::SendWants>(&action)) {
      const auto found = streams_.find(wants->stream);
      if (found == streams_.end()) return;
      Builder& builder = found->second;
      builder.wants.clear();
      for (const v1::Run& run : wants->message.runs()) {
        machine_->steps().ForEach(run, 0, machine_->steps().end(),
                                  [&](std::uint64_t step) { builder.wants.insert(step); });
      }
      machine_->OnBatchesWritten(wants->stream, now_);
      Begin(wants->stream, builder);
    } else if (const auto* close = std::get_if<client::CloseStream>(&action)) {
      streams_.erase(close->stream);
    }
  }

  const Duration batch_;
  const Fingerprint plan_{{1, 2}, {3, 4}};
  Time now_{std::chrono::seconds(1000)};
  Time spoke_ = now_;
  std::optional<SessionMachine> machine_;
  StreamId attach_ = 0;
  std::map<StreamId, Builder> streams_;
  std::multimap<Time, StreamId> due_;
  std::uint64_t seed_ = 1;
};

/// Microseconds of a pass over the doubles.
double LimitMicroseconds(double& checksum) {
  std::vector<double> values(kLimitDoubles);
  std::iota(values.begin(), values.end(), 1);
  constexpr int kPasses = 200'000;
  const double before = bench::ThreadCpuSeconds();
  for (int i = 0; i < kPasses; ++i) {
    values[static_cast<std::size_t>(i) % kLimitDoubles] += 1;
    checksum += *std::min_element(values.begin(), values.end());
  }
  return 1e6 * (bench::ThreadCpuSeconds() - before) / kPasses;
}

int Run(const Options& options) {
  const bench::Report report(options.json);
  report.Note(fmt::format("{} steps of {} ms each, 1 thread", options.steps, options.batch_ms));
  double checksum = 0;
  const double limit = LimitMicroseconds(checksum);
  for (const std::uint64_t workers : options.workers) {
    Job job(workers, options.batch_ms);
    job.Take(std::min(options.steps, 20 * workers));
    const double seconds = job.Take(options.steps);
    if (job.stats().moved_failed > 0 || job.workers_used() < workers) {
      fmt::print(stderr, "{} workers: {} are used, {} steps were moved; expected all and none\n",
                 workers, job.workers_used(), job.stats().moved_failed);
      return 1;
    }
    report.Add({fmt::format("CPU a step, {} workers", workers),
                1e6 * seconds / static_cast<double>(options.steps),
                "us",
                fmt::format("a pass over {} doubles", kLimitDoubles),
                limit,
                {}});
  }
  report.Note(fmt::format("checksum {}", checksum));
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  millrace::CommandLine app("Measures what a step costs a consumer's state machine.", argv[0]);
  app.AddOption("--workers", &options.workers, "workers of the consumer's list").ShowDefault();
  app.AddOption("--steps", &options.steps, "steps measured each").Positive().ShowDefault();
  app.AddOption("--batch-ms", &options.batch_ms, "a batch's building time")
      .Positive()
      .ShowDefault();
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  return millrace::Run(options);
}
