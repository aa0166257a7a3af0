// A worker with hostile consumers and a hostile dispatcher: its state machine under any sequence of
// their messages. The events also say what the builder builds. Afterwards an honest consumer is
// served.
//
// The argument of an event is the number of a stream, counted from 0 in the order of opening, or it
// has the meaning that PerformEvent gives it.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "common/base/protocol_version.h"
#include "common/transport/convert/places.h"
#include "server/worker/machine/worker_machine.h"
#include "tests/fuzz/events.h"
#include "tests/fuzz/fuzz.h"

namespace millrace::fuzz {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

enum Kind : std::uint8_t {
  kOpenStream,
  kWants,
  kSent,
  kCloseStream,
  kWorkResponse,
  kWorkWritten,
  kWorkClosed,
  kPlan,   // argument: which of the waiting plans; an odd one fails
  kBuild,  // argument: size of a batch in hundreds of bytes
  kBuildFails,
  kAdvance,  // argument: quarters of a second
  kBudget,   // argument: thousands of bytes
  kDrain,
  kKinds,
};

constexpr std::uint64_t kBudgetBytes = 10'000;
constexpr std::uint64_t kLargestBatch = 25'600;
constexpr std::size_t kMaxStreams = 6;
constexpr const char* kPlanName = "plan";

class Hostile {
 public:
  Hostile()
      : state_(
            [] {
              WorkerOptions options;
              options.name = "w";
              options.address = "w:1";
              options.host_id = "h";
              options.dispatcher = "d:1,e:1";
              options.memory_bytes = kBudgetBytes;
              options.max_streams = kMaxStreams;
              return options;
            }(),
            std::string(16, 'n'), [] { return 0.5; }, MakeNullLogger()) {
    state_.Start(now_);
    After();
  }

  void Perform(const Event& event) {
    PerformEvent(event);
    After();
  }

  void ExpectHonestService() {
    for (const auto& [id, stream] : std::map(streams_)) {
      if (stream.open) Closed(id);
    }
    After();
    state_.SetMemoryBudget(kBudgetBytes);
    // The worker leaves a dispatcher that says nothing, so the next attempt is the one to answer.
    WorkClosed();
    for (int n = 0; n < 280 && !work_open_; ++n) Advance(milliseconds(250));
    Require(work_open_, "a worker goes back to a dispatcher");
    v1::WorkResponse response;
    response.set_term(state_.term());
    response.mutable_id()->set_term(response.term());
    response.mutable_id()->set_n(1);
    response.add_plans()->set_fingerprint(kPlanName);
    state_.OnWorkResponse(attempt_, response, now_);
    After();
    state_.OnPlan(kPlanName, WorkerMachine::ReadyPlan{nullptr, std::string(32, '5'), kPlanName, ""},
                  now_);
    After();

    const StreamId id = ++last_stream_;
    RequireOk(state_.OnStreamOpened(id, {"honest"}), "a stream of an honest consumer");
    streams_[id].open = true;
    v1::WantList wants;
    wants.set_protocol(kProtocol);
    wants.set_fingerprint(kPlanName);
    wants.set_job("honest job");
    wants.set_credit_bytes(1 << 20);
    wants.set_world_size(1);
    v1::Run& run = *wants.add_runs();
    run.set_stride(8);
    run.set_examples(8);
    run.set_steps(2);
    streams_[id].wants = wants;
    for (const std::uint64_t next : {0, 8}) {  // a worker that drains builds the next batch alone
      streams_[id].wants.mutable_next()->set_example(next);
      state_.OnWants(id, streams_[id].wants, now_);
      After();
      for (int n = 0; n < 20; ++n) {
        Build(1000);
        Sent(id);
        After();
      }
    }
    Require(streams_[id].open && streams_[id].batches == 2, "an honest consumer gets its batches");
  }

 private:
  using StreamId = WorkerMachine::StreamId;
  struct StreamEntry {
    bool open = false;
    bool writing = false;
    bool spoke = false;
    int batches = 0;
    v1::WantList wants;
  };

  template <class M>
  static M Parse(const Event& event) {
    M message;
    static_cast<void>(message.ParsePartialFromString(event.bytes));
    return message;
  }

  void PerformEvent(const Event& event) {
    const StreamId id = event.argument + 1u;
    const auto found = streams_.find(id);
    const bool open = found != streams_.end() && found->second.open;
    switch (event.kind % kKinds) {
      case kOpenStream:
        ++last_stream_;
        streams_[last_stream_].open = state_.OnStreamOpened(last_stream_, {"hostile"}).ok();
        return;
      case kWants:
        if (!open) return;
        found->second.wants = Parse<v1::WantList>(event);
        return state_.OnWants(id, found->second.wants, now_);
      case kSent:
        return Sent(id);
      case kCloseStream:
        if (open) Closed(id);
        return;
      case kWorkResponse:
        return state_.OnWorkResponse(attempt_, Parse<v1::WorkResponse>(event), now_);
      case kWorkWritten:
        if (writing_work_) state_.OnWorkWritten(attempt_, now_);
        writing_work_ = false;
        return;
      case kWorkClosed:
        return WorkClosed();
      case kPlan: {
        if (to_compile_.empty()) return;
        const auto plan =
            std::next(to_compile_.begin(),
                      static_cast<std::ptrdiff_t>(event.argument / 2 % to_compile_.size()));
        const std::string fingerprint = *plan;
        to_compile_.erase(plan);
        if (event.argument % 2 != 0) {
          return state_.OnPlan(fingerprint, DataLoss("a damaged file"), now_);
        }
        return state_.OnPlan(
            fingerprint, WorkerMachine::ReadyPlan{nullptr, std::string(32, '5'), fingerprint, ""},
            now_);
      }
      case kBuild:
        return Build(100u * (event.argument + 1u));
      case kBuildFails:
        if (const auto task = Next())
          state_.OnBuildFailed(*task, OutOfRange("no such place"), now_);
        return;
      case kAdvance:
        return Advance(milliseconds(250) * (event.argument % 64));
      case kBudget:
        state_.SetMemoryBudget(event.argument * 1000u);
        return;
      case kDrain:
        return state_.Drain(now_);
      default:
        return;
    }
  }

  void WorkClosed() {
    if (!std::exchange(work_open_, false)) return;
    state_.OnWorkClosed(attempt_, Unavailable("gone"), now_);
    After();
  }

  void Sent(StreamId id) {
    const auto found = streams_.find(id);
    if (found == streams_.end() || !found->second.open || !found->second.writing) return;
    found->second.writing = false;
    state_.OnSent(id, now_);
  }

  void Closed(StreamId id) {
    streams_[id].open = false;
    state_.OnStreamClosed(id, Cancelled("gone"), now_);
  }

  std::optional<BuildQueue::Task> Next() {
    const std::optional<BuildQueue::Task> task = state_.NextBuild(now_);
    if (!task) return task;
    const StreamEntry& stream = streams_.at(task->stream);
    Require(stream.open, "I6: nothing is built for a stream that is gone");
    bool asked = false;
    for (const v1::Run& run : stream.wants.runs()) {
      const std::uint64_t past = task->at.example - run.position();
      const std::uint64_t step = run.stride() == 0 ? 0 : past / run.stride();
      asked = asked || (run.epoch() == task->at.epoch && task->at.example >= run.position() &&
                        step * run.stride() == past && step < run.steps());
    }
    Require(asked, "I6: nothing is built unasked");
    Require(!state_.draining() || task->at == FromProto(stream.wants.next()),
            "a worker that drains begins nothing but the next batch of a consumer");
    return task;
  }

  void Build(std::uint64_t bytes) {
    if (const auto task = Next()) {
      state_.OnBuilt(*task, nullptr, bytes, 0.01, {{"closure", 0.001}}, now_);
    }
  }

  void Advance(Duration d) {
    for (Duration passed{0}; passed < d; passed += milliseconds(250)) {
      now_ = now_ + milliseconds(250);
      state_.Tick(now_);
      After();
    }
  }

  /// Carries out the machine's actions, and checks its state.
  void After() {
    for (WorkerAction::Any& action : state_.TakeActions()) {
      if (const auto* control = std::get_if<WorkerAction::SendControl>(&action)) {
        Write(control->stream);
        CheckAlive(*control);
      } else if (const auto* batch = std::get_if<WorkerAction::SendBatch>(&action)) {
        Write(batch->stream);
        ++streams_[batch->stream].batches;
      } else if (const auto* close = std::get_if<WorkerAction::CloseStream>(&action)) {
        streams_[close->stream].open = false;
      } else if (const auto* connect = std::get_if<WorkerAction::OpenWork>(&action)) {
        Require(!work_open_, "one stream to a dispatcher");
        work_open_ = true;
        attempt_ = connect->attempt;
        writing_work_ = false;
      } else if (std::holds_alternative<WorkerAction::CloseWork>(action)) {
        work_open_ = false;
      } else if (const auto* report = std::get_if<WorkerAction::SendWork>(&action)) {
        Require(report->attempt == attempt_ && !writing_work_, "one report is written at a time");
        writing_work_ = true;
      } else if (const auto* compile = std::get_if<WorkerAction::CompilePlan>(&action)) {
        to_compile_.insert(compile->spec.fingerprint());
      }
    }
    const auto open = static_cast<std::size_t>(std::count_if(
        streams_.begin(), streams_.end(), [](const auto& stream) { return stream.second.open; }));
    Require(open <= kMaxStreams, "streams are bounded");
    Require(state_.queue().built_bytes() <=
                std::max(state_.queue().memory_budget(), kBudgetBytes) + (1 + open) * kLargestBatch,
            "I5: batches that are built and not sent are bounded");
    Require(state_.queue().kept_bytes() == 0 ||
                state_.queue().built_bytes() + state_.queue().kept_bytes() <=
                    state_.queue().memory_budget(),
            "I5: kept batches fit the budget with those that are built");
    Require(state_.queue().jobs() <= open, "jobs are bounded");
    Require(state_.queue().pending() <= kMaxStreams * BuildQueue::kMaxSteps,
            "batches that wait to be built are bounded");
  }

  /// The first message of a stream is Alive, which keeps the limits of lists.
  void CheckAlive(const WorkerAction::SendControl& send) {
    StreamEntry& stream = streams_[send.stream];
    const v1::Alive& alive = send.message.alive();
    Require(stream.spoke || send.message.has_alive(), "Alive comes first");
    stream.spoke = true;
    if (!send.message.has_alive()) return;
    Require((alive.slots() == 0) == state_.draining(), "a worker has slots unless it drains");
    Require(
        alive.built_size() <= BuildQueue::kMaxRuns && alive.twins_size() <= BuildQueue::kMaxRuns,
        "J5: runs are bounded");
    Require(static_cast<int>(send.builds.size()) == alive.building_size(),
            "each build has its number");
  }

  void Write(StreamId id) {
    StreamEntry& stream = streams_[id];
    Require(stream.open && !stream.writing, "one message is written at a time, on an open stream");
    stream.writing = true;
  }

  WorkerMachine state_;
  Time now_{seconds(1000)};
  std::map<StreamId, StreamEntry> streams_;
  StreamId last_stream_ = 0;
  std::uint64_t attempt_ = 0;
  bool work_open_ = false;
  bool writing_work_ = false;
  std::set<std::string> to_compile_;
};

}  // namespace

std::unique_ptr<google::protobuf::Message> NewMessage(std::uint8_t kind) {
  switch (kind % kKinds) {
    case kWants:
      return std::make_unique<v1::WantList>();
    case kWorkResponse:
      return std::make_unique<v1::WorkResponse>();
    default:
      return nullptr;
  }
}

std::vector<std::string> Seeds() {
  v1::WorkResponse response;
  response.set_term(100);
  response.mutable_id()->set_term(100);
  response.mutable_id()->set_n(1);
  for (const char* name : {kPlanName, "other"}) {
    v1::PlanSpec& plan = *response.add_plans();
    plan.set_fingerprint(name);
    plan.add_datasets("stdlib");
    plan.mutable_pipeline()->set_yaml("millrace: 1");
  }
  v1::WorkResponse drain = response;
  drain.set_drain(true);
  drain.add_list_files("stdlib");
  (*drain.mutable_dataset_differences())["stdlib"] = "a.bin";
  drain.mutable_plans()->RemoveLast();
  v1::WorkResponse undrain = response;
  undrain.set_undrain(true);

  v1::WantList wants;
  wants.set_fingerprint(kPlanName);
  wants.set_protocol(kProtocol);
  wants.set_job("j");
  wants.set_priority(3);
  wants.set_credit_bytes(3000);
  wants.mutable_session()->set_term(100);
  wants.mutable_session()->set_n(7);
  wants.set_asks(true);
  wants.set_world_size(2);
  wants.mutable_until()->set_example(32);
  for (std::uint64_t n = 0; n < 2; ++n) {
    v1::Run& run = *wants.add_runs();
    run.set_position(32 * n);
    run.set_first_example(32 * n);
    run.set_stride(8);
    run.set_examples(4);
    run.set_steps(3);
  }
  v1::WantList later = wants;
  later.mutable_next()->set_example(16);
  later.set_credit_bytes(9000);
  later.mutable_runs()->RemoveLast();
  later.mutable_runs(0)->set_position(16);
  later.mutable_runs(0)->set_first_example(16);
  later.mutable_runs(0)->set_steps(2);
  v1::WantList unknown = wants;
  unknown.set_fingerprint("unknown");

  const Event welcome = Message(kWorkResponse, 0, response);
  return {
      WriteEvents({{kWorkWritten, 0, ""},
                   welcome,
                   {kPlan, 0, ""},
                   {kPlan, 0, ""},
                   {kOpenStream, 0, ""},
                   Message(kWants, 0, wants),
                   {kBuild, 9, ""},
                   {kBuild, 9, ""},
                   {kBuild, 9, ""},
                   {kSent, 0, ""},
                   {kSent, 0, ""},
                   Message(kWants, 0, later),
                   {kBuild, 9, ""},
                   {kSent, 0, ""},
                   {kAdvance, 8, ""},
                   {kCloseStream, 0, ""}}),
      WriteEvents({welcome,
                   {kPlan, 0, ""},
                   {kOpenStream, 0, ""},
                   {kOpenStream, 0, ""},
                   Message(kWants, 0, wants),
                   Message(kWants, 1, wants),
                   {kBuild, 90, ""},
                   {kBuild, 90, ""},
                   {kBudget, 1, ""},
                   {kBuildFails, 0, ""},
                   Message(kWants, 1, later),
                   Message(kWorkResponse, 0, drain),
                   {kSent, 0, ""},
                   Message(kWorkResponse, 0, undrain),
                   {kAdvance, 8, ""},
                   {kPlan, 1, ""},
                   {kBudget, 10, ""},
                   {kBuild, 9, ""}}),
      WriteEvents({{kOpenStream, 0, ""},
                   Message(kWants, 0, unknown),
                   {kSent, 0, ""},
                   {kSent, 0, ""},
                   {kWorkClosed, 0, ""},
                   {kAdvance, 40, ""},
                   welcome,
                   {kDrain, 0, ""},
                   {kOpenStream, 0, ""},
                   Message(kWants, 1, wants)}),
  };
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  millrace::fuzz::Hostile hostile;
  for (const auto& event : millrace::fuzz::ReadEvents(data, size)) hostile.Perform(event);
  hostile.ExpectHonestService();
  return 0;
}
