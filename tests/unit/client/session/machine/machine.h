// A session's state machine that a test drives by hand. Time is fake, and the test looks at each
// action.
#pragma once

#include <map>
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
inline Arrival ArrivalOf(const RankSteps& steps, std::uint64_t step, std::uint64_t bytes = 1000) {
  Arrival a;
  a.at = steps.At(step);
  a.digest = {step + 1, 99};
  a.bytes = bytes;
  a.fingerprint = kPlan;
  a.epoch = a.at.epoch;
  a.first_example = steps.Examples(step).first;
  a.planned_examples = steps.Examples(step).count;
  a.counts.examples = a.planned_examples;
  return a;
}

/// What a worker says of itself.
struct Word {
  std::uint32_t slots = 8;
  double batch_ms = 10;
  double threads = 1;
  std::uint32_t split = 1;
  std::vector<std::uint64_t> built;
  std::vector<std::uint64_t> twins;
  std::vector<std::uint64_t> building;
  std::string stage;  // of what it builds
  std::uint32_t batches_before = 0;
  std::optional<std::uint32_t> turn_ms = {};
  std::optional<std::uint32_t> wants_age_ms = {};  // unset: the last list came at once
};

/// The steps of the session that a list asks for, in its order.
inline std::vector<std::uint64_t> StepsOf(const RankSteps& steps, const v1::WantList& wants) {
  std::vector<std::uint64_t> asked;
  for (const v1::Run& run : wants.runs()) {
    steps.ForEach(run, 0, steps.end(), [&](std::uint64_t step) { asked.push_back(step); });
  }
  return asked;
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
    std::string host_id = "trainer";
    std::uint64_t window_units = 0;
  };

  Machine() : Machine(Options()) {}
  explicit Machine(const Options& given) : options(given) {
    SessionMachineOptions state_options;
    state_options.address = options.address;
    state_options.prefetch_bytes = options.prefetch_bytes;
    state_options.tune = options.tune;
    state_options.read_timeout = options.read_timeout;
    state_options.hello.set_job("j");
    state_options.hello.set_host_id(options.host_id);
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
    ToProto(SessionId({term, 1}), welcome.mutable_session());
    welcome.set_fingerprint(plan.ToString());
    ToProto(options.start, welcome.mutable_start());
    ToProto(options.steps, welcome.mutable_spec()->mutable_steps());
    welcome.mutable_spec()->set_max_batch_bytes(options.max_batch_bytes);
    welcome.mutable_spec()->set_window_units(options.window_units);
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

  void Heartbeat() {
    v1::AttachResponse message;
    message.set_term(term);
    state->OnAttachMessage(attach, message, now);
  }

  /// Lets time pass. Meanwhile the dispatcher heartbeats and takes reports, and workers take want
  /// lists and repeat their last words twice a second. Returns the last report.
  v1::Report PassAttached(Duration d) {
    v1::Report last;
    const Time end = now + d;
    while (now < end) {
      Pass(std::min(end - now, 100 * kMs));
      for (SendAttach& send : Take<SendAttach>()) {
        last = send.message.report();
        state->OnAttachWritten(send.stream, now);
      }
      WriteWants();
      if (now.since_boot / (500 * kMs) != spoke_at) {
        spoke_at = now.since_boot / (500 * kMs);
        const std::map<std::uint64_t, Word> said = words;
        for (const auto& [worker, word] : said) Say(worker, word);
      }
      Heartbeat();
    }
    return last;
  }
  /// Acknowledges the writes of all want lists, which stay to be looked at.
  void WriteWants() {
    for (Action& action : state->TakeActions()) pending.push_back(std::move(action));
    std::set<StreamId> told;
    for (const Action& action : pending) {
      if (const auto* wants = std::get_if<SendWants>(&action)) told.insert(wants->stream);
    }
    for (const StreamId stream : told) state->OnBatchesWritten(stream, now);
  }

  /// Takes all want lists, acknowledges their writes, and forgets them, until there are no more.
  void TakeWants() {
    for (auto sent = Take<SendWants>(); !sent.empty(); sent = Take<SendWants>()) {
      for (const SendWants& wants : sent) state->OnBatchesWritten(wants.stream, now);
    }
  }

  // Workers have numbers from 1 on; their addresses are workerN:1.
  static WorkerId IdOf(std::uint64_t worker) { return WorkerId({10, worker}); }
  /// The dispatcher lists these workers, in this order.
  void List(const std::vector<std::uint64_t>& workers) {
    v1::AttachResponse message;
    message.set_term(term);
    message.mutable_list()->set_number(++list_number);
    for (const std::uint64_t worker : workers) {
      v1::WorkerRef& ref = *message.mutable_list()->add_workers();
      ToProto(IdOf(worker), ref.mutable_id());
      ref.set_address("worker" + std::to_string(worker) + ":1");
      ref.set_host_id(on_trainers_host.contains(worker) ? options.host_id : "other");
    }
    listed = workers;
    state->OnAttachMessage(attach, message, now);
  }
  /// The session's stream to a worker; 0: it has none.
  StreamId StreamTo(std::uint64_t worker) const {
    const WorkerLink* const link = state->workers().Find(IdOf(worker));
    return link == nullptr ? 0 : link->stream.id;
  }
  /// A worker says something, and repeats it from then on.
  void Say(std::uint64_t worker, const Word& word = {}) {
    words[worker] = word;
    v1::BatchFragment fragment;
    *fragment.mutable_alive() = AliveOf(word);
    const WorkerLink* const link = state->workers().Find(IdOf(worker));
    if (!word.wants_age_ms && link != nullptr && link->stream.told != Time{}) {
      fragment.mutable_alive()->set_wants_age_ms(
          static_cast<std::uint32_t>((now - link->stream.told) / kMs));
    }
    state->OnBatchesFragment(StreamTo(worker), fragment, 0, now);
  }
  v1::Alive AliveOf(const Word& word) const {
    v1::Alive alive;
    alive.set_slots(word.slots);
    alive.set_batch_ms(word.batch_ms);
    alive.set_threads_milli(static_cast<std::uint32_t>(1000 * word.threads));
    alive.set_split(word.split);
    alive.set_batches_before(word.batches_before);
    alive.set_wants_age_ms(word.wants_age_ms.value_or(0));
    if (word.turn_ms) alive.set_turn_ms(*word.turn_ms);
    for (const std::uint64_t step : word.built) *alive.add_built() = RunOf(step);
    for (const std::uint64_t step : word.twins) *alive.add_twins() = RunOf(step);
    for (const std::uint64_t step : word.building) {
      v1::Building& building = *alive.add_building();
      ToProto(state->steps().At(step), building.mutable_at());
      building.set_stage(word.stage);
    }
    return alive;
  }
  v1::Run RunOf(std::uint64_t step) const { return state->steps().RunAt(step, 1); }
  /// The dispatcher lists one more worker, which says this word. Returns the stream to it.
  StreamId Join(std::uint64_t worker, const Word& word = {}) {
    std::vector<std::uint64_t> workers = listed;
    workers.push_back(worker);
    List(workers);
    Say(worker, word);
    return StreamTo(worker);
  }
  /// The dispatcher lists workers 1 and 2, which say these words. Returns the streams to them.
  std::pair<StreamId, StreamId> JoinBoth(const Word& first = {}, const Word& second = {}) {
    List({1, 2});
    Say(1, first);
    Say(2, second);
    return {StreamTo(1), StreamTo(2)};
  }
  /// The worker says nothing any more.
  void Silence(std::uint64_t worker) { words.erase(worker); }
  /// The stream to a worker breaks, and the worker says nothing any more.
  void Break(std::uint64_t worker, const Status& why = Unavailable("reset")) {
    words.erase(worker);
    state->OnBatchesClosed(StreamTo(worker), why, now);
  }
  /// The steps that a worker is asked for.
  std::set<std::uint64_t> AskedOf(std::uint64_t worker) const {
    return state->asks().Of(IdOf(worker)).steps;
  }
  void Refuse(std::uint64_t worker, std::optional<std::uint64_t> step, StatusCode code,
              const std::string& why = "no") {
    v1::BatchFragment fragment;
    fragment.mutable_refused()->set_code(static_cast<std::uint32_t>(code));
    fragment.mutable_refused()->set_message(why);
    if (step) ToProto(state->steps().At(*step), fragment.mutable_refused()->mutable_at());
    state->OnBatchesFragment(StreamTo(worker), fragment, 0, now);
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

  /// Brings a batch: first as a single fragment, then as a whole.
  Verdict Arrive(StreamId stream, const Arrival& arrival, std::uint64_t credit_used = 0) {
    v1::BatchFragment fragment;
    ToProto(arrival.at, fragment.mutable_at());
    fragment.set_total_bytes(arrival.bytes);
    fragment.set_credit_used(credit_used);
    state->OnBatchesFragment(stream, fragment, arrival.bytes, now);
    return state->OnBatchesArrival(stream, arrival, now);
  }
  Verdict Arrive(StreamId stream, std::uint64_t step, std::uint64_t bytes = 1000) {
    return Arrive(stream, ArrivalOf(state->steps(), step, bytes));
  }
  void TakeBatch() { state->OnTaken(now); }

  Options options;
  std::shared_ptr<RecordingLogger> logger = std::make_shared<RecordingLogger>();
  std::optional<SessionMachine> state;
  std::vector<Action> pending;
  Time now{kSecond};
  std::uint64_t term = 10;
  StreamId attach = 0;
  std::uint64_t list_number = 0;
  std::vector<std::uint64_t> listed;
  std::set<std::uint64_t> on_trainers_host;
  std::map<std::uint64_t, Word> words;  // the last one of each worker that speaks
  std::int64_t spoke_at = 0;
};

/// A session over one long epoch.
inline Machine::Options LongEpoch() {
  Machine::Options options;
  options.steps = {.examples = 10'000'000, .size = 5, .world_size = 2};
  options.prefetch_bytes = 1'000'000;
  return options;
}

}  // namespace millrace::client
