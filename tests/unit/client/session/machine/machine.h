// A session's state machine that a test drives by hand. Time is fake, and the test looks at each
// action.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/session/machine/session_machine.h"
#include "common/transport/convert/steps.h"

namespace millrace::client {

/// Keeps log lines, so that a test can check what only an operator is told.
class RecordingLogger final : public Logger {
 public:
  void Log(LogLevel level, std::string_view event,
           std::initializer_list<LogField> fields) override {
    std::string line(event);
    for (const LogField& field : fields) line += " " + std::string(field.key) + "=" + field.value;
    lines.emplace_back(level, std::move(line));
  }
  bool Has(LogLevel level, const std::string& text) const {
    for (const auto& [l, line] : lines) {
      if (l == level && line.find(text) != std::string::npos) return true;
    }
    return false;
  }
  std::vector<std::pair<LogLevel, std::string>> lines;
};

inline constexpr Duration kMs = std::chrono::milliseconds(1);
inline constexpr Duration kSecond = std::chrono::seconds(1);

inline const Fingerprint kPlan{{1, 2}, {3, 4}};
inline const Fingerprint kOtherPlan{{1, 2}, {3, 5}};

/// The arrival of a correct batch of a step.
inline Arrival ArrivalOf(const RankSteps& steps, std::uint64_t step, Number lease,
                         std::uint64_t bytes = 1000) {
  Arrival a;
  a.lease = lease;
  a.at = steps.At(step);
  a.digest = {step + 1, 99};
  a.bytes = bytes;
  a.fingerprint = kPlan;
  a.epoch = a.at.epoch;
  a.first_example = steps.Examples(step).first;
  a.planned_examples = steps.Examples(step).count;
  a.examples = a.planned_examples;
  return a;
}

class Machine {
 public:
  struct Options {
    StepOptions steps{.examples = 100, .size = 5, .world_size = 2};
    std::uint32_t rank = 1;
    std::uint32_t epochs = 0;
    std::uint32_t priority = 1;
    Position start;
    std::uint64_t prefetch_bytes = 100'000;
    bool tune = false;
    std::uint64_t max_batch_bytes = 1000;  // the dispatcher's estimate
    double random = 0.5;
    Duration read_timeout{0};
    std::string address = "dispatcher:1";
  };

  Machine() : Machine(Options()) {}
  explicit Machine(const Options& given) : options(given) {
    SessionMachineOptions state_options;
    state_options.address = options.address;
    state_options.prefetch_bytes = options.prefetch_bytes;
    state_options.tune = options.tune;
    state_options.read_timeout = options.read_timeout;
    state_options.hello.set_job("j");
    state_options.hello.set_rank(options.rank);
    state_options.hello.set_world_size(options.steps.world_size);
    state_options.hello.set_epochs(options.epochs);
    state_options.hello.set_priority(options.priority);
    ToProto(options.start, state_options.hello.mutable_start());
    state.emplace(
        state_options, [this] { return this->options.random; }, logger);
    state->Start(now);
  }

  /// Returns all actions of this kind since the last call for it. Actions of other kinds stay.
  template <class A>
  std::vector<A> Take() {
    for (Action& action : state->TakeActions()) pending.push_back(std::move(action));
    std::vector<A> taken;
    std::vector<Action> rest;
    for (Action& action : pending) {
      if (auto* wanted = std::get_if<A>(&action)) {
        taken.push_back(std::move(*wanted));
      } else {
        rest.push_back(std::move(action));
      }
    }
    pending = std::move(rest);
    return taken;
  }
  template <class A>
  std::optional<A> TakeLast() {
    std::vector<A> all = Take<A>();
    if (all.empty()) return std::nullopt;
    return std::move(all.back());
  }

  /// Lets time pass as the session's thread would, with a tick whenever one is due.
  void Pass(Duration d) {
    const Time end = now + d;
    while (now < end) {
      now = std::min(end, std::max(state->NextTick(), now + Duration(1)));
      state->Tick(now);
    }
  }

  v1::Welcome WelcomeMessage(const Fingerprint& plan = kPlan) const {
    v1::Welcome welcome;
    ToProto(Number{term, 1}, welcome.mutable_session());
    welcome.set_fingerprint(plan.ToString());
    ToProto(options.start, welcome.mutable_start());
    ToProto(options.steps, welcome.mutable_spec()->mutable_steps());
    welcome.mutable_spec()->set_max_batch_bytes(options.max_batch_bytes);
    return welcome;
  }

  /// Acknowledges the write of Hello, and brings the Welcome.
  void Welcome() {
    attach = TakeLast<OpenAttach>()->stream;
    state->OnAttachWritten(attach, now);
    v1::AttachResponse message;
    message.set_term(term);
    *message.mutable_welcome() = WelcomeMessage();
    state->OnAttachMessage(attach, message, now);
  }

  void Pulse() {
    v1::AttachResponse message;
    message.set_term(term);
    state->OnAttachMessage(attach, message, now);
  }

  /// Lets time pass. Meanwhile the dispatcher pulses and takes reports, and workers take the want
  /// lists that the test has not taken. Returns the last report.
  v1::Report PassAttached(Duration d) {
    v1::Report last;
    const Time end = now + d;
    while (now < end) {
      Pass(std::min(end - now, 100 * kMs));
      for (SendAttach& send : Take<SendAttach>()) {
        last = send.message.report();
        state->OnAttachWritten(send.stream, now);
      }
      std::set<StreamId> told;
      for (const Action& action : pending) {
        if (const auto* wants = std::get_if<SendWants>(&action)) told.insert(wants->stream);
      }
      for (const StreamId stream : told) state->OnBatchesWritten(stream, now);
      Pulse();
    }
    return last;
  }

  v1::Lease LeaseOf(std::uint64_t n, std::uint64_t first_step, std::uint32_t batches,
                    std::uint64_t worker, bool copy = false) const {
    Lease lease;
    lease.id = {term, n};
    lease.shard.at = state->steps().At(first_step);
    lease.shard.stride = state->steps().arithmetic().stride();
    const ExampleRange range = state->steps().Examples(first_step);
    lease.shard.first_example = range.first;
    lease.shard.examples = range.count;
    lease.shard.batches = batches;
    lease.worker = {{term, worker}, "worker" + std::to_string(worker) + ":1", ""};
    lease.copy = copy;
    v1::Lease proto;
    ToProto(lease, &proto);
    return proto;
  }
  void Give(const std::vector<v1::Lease>& leases) {
    v1::AttachResponse message;
    message.set_term(term);
    for (const v1::Lease& lease : leases) *message.add_leases() = lease;
    state->OnAttachMessage(attach, message, now);
  }
  /// Gives one lease. Returns the stream that it opens, or 0.
  StreamId GiveOne(std::uint64_t n, std::uint64_t first_step, std::uint32_t batches,
                   std::uint64_t worker) {
    Give({LeaseOf(n, first_step, batches, worker)});
    const auto open = TakeLast<OpenBatches>();
    return open ? open->stream : 0;
  }

  /// Returns the last want list of a stream, and acknowledges its write.
  std::optional<v1::WantList> Wants(StreamId stream) {
    std::optional<v1::WantList> last;
    std::vector<SendWants> others;
    for (SendWants& send : Take<SendWants>()) {
      if (send.stream == stream) {
        last = std::move(send.message);
      } else {
        others.push_back(std::move(send));
      }
    }
    for (SendWants& send : others) pending.emplace_back(std::move(send));
    if (last) state->OnBatchesWritten(stream, now);
    return last;
  }

  /// Brings a batch: first as a single part, then as a whole.
  Verdict Arrive(StreamId stream, const Arrival& arrival, std::uint64_t credit_used = 0) {
    v1::BatchPart part;
    ToProto(arrival.lease, part.mutable_lease());
    ToProto(arrival.at, part.mutable_at());
    part.set_total_bytes(arrival.bytes);
    part.set_credit_used(credit_used);
    state->OnBatchesPart(stream, part, arrival.bytes, now);
    return state->OnBatchesArrival(stream, arrival, now);
  }
  Verdict Arrive(StreamId stream, std::uint64_t step, std::uint64_t lease,
                 std::uint64_t bytes = 1000) {
    return Arrive(stream, ArrivalOf(state->steps(), step, {term, lease}, bytes));
  }
  void TakeBatch() { state->OnTaken(now); }

  Options options;
  std::shared_ptr<RecordingLogger> logger = std::make_shared<RecordingLogger>();
  std::optional<SessionMachine> state;
  std::vector<Action> pending;
  Time now{kSecond};
  std::uint64_t term = 10;
  StreamId attach = 0;
};

inline std::uint64_t TotalRoom(const v1::WantList& wants) {
  std::uint64_t room = 0;
  for (const v1::Want& want : wants.wants()) room += want.room();
  return room;
}

}  // namespace millrace::client
