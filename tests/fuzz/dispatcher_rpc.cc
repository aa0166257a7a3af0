// A dispatcher with hostile consumers, workers and operators: its state machine under any sequence
// of their messages. Afterwards an honest worker and an honest trainer are served as usual.
//
// The argument of an event is the number of a stream, counted from 0 in the order of opening, or it
// has the meaning that PerformEvent gives it.
#include <algorithm>
#include <exception>

#include "common/base/protocol_limits.h"
#include "common/base/protocol_version.h"
#include "common/base/utf8.h"
#include "tests/fuzz/events.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::fuzz {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

enum Kind : std::uint8_t {
  kOpenConsumer,
  kOpenWorker,
  kAttach,
  kWork,
  kBreak,
  kAdvance,  // argument: quarters of a second
  kDrain,
  kEndJob,
  kHoldCompiles,  // argument: 0: compiles are no longer held
  kHoldCommits,
  kStoreFails,
  kDataset,
  kUndrain,
  kKinds,
};

/// Small limits, so that inputs reach them.
DispatcherOptions Limits() {
  DispatcherOptions options;
  options.max_streams = 12;
  options.max_sessions = 6;
  options.max_sessions_of_rank = 3;
  options.max_jobs = 4;
  options.max_workers = 4;
  options.max_plans = 4;
  options.max_pipeline_bytes = 4096;
  options.max_records = 8;
  return options;
}

Result<std::shared_ptr<const PlanFacts>> Compile(const v1::PipelineText& pipeline) {
  try {
    return test::CompileFake(pipeline);
  } catch (const std::exception& e) {  // the text has something else where a number belongs
    return InvalidArgument(e.what());
  }
}

class Hostile {
 public:
  Hostile() : harness_(Limits()) { harness_.hold_compiles = true; }

  void Perform(const Event& event) {
    PerformEvent(event);
    Answer();
    Check();
    // If its term is over, a dispatcher process leads again under a higher term.
    if (!harness_.dispatcher->stepped_down().ok()) Restart();
  }

  void ExpectHonestService() {
    hold_compiles_ = false;
    LackPlugins(false);
    harness_.hold_commits = false;
    harness_.store_error = OkStatus();
    harness_.AnswerCommits();
    for (const StreamId stream : streams_) {
      if (harness_.IsOpen(stream)) harness_.Break(stream);
    }
    harness_.talking.clear();
    harness_.workers.clear();
    Advance(seconds(70));  // until hostile sessions and workers are forgotten
    Check();
    if (!harness_.dispatcher->stepped_down().ok()) Restart();
    Require(harness_.dispatcher->facts().sessions().empty(), "hostile sessions end");
    Require(harness_.dispatcher->facts().workers().empty(), "hostile workers are forgotten");

    harness_.AddWorker("honest");
    test::HelloOptions hello;
    hello.job = "honest job";
    hello.world_size = 1;
    hello.nonce = '\x01';
    const StreamId stream = harness_.Attach(hello);
    harness_.talking.push_back(stream);
    Advance(seconds(15));
    Require(harness_.WelcomeOn(stream) != nullptr,
            "an honest trainer is welcome: " + harness_.WhyOn(stream) +
                harness_.ClosedWith(stream).message());
    harness_.ReportAt(stream, {0, 0});
    Answer();
    Advance(seconds(1));
    Require(harness_.ListOn(stream) == std::vector<std::string>{"honest"},
            "an honest trainer gets an honest worker");
  }

 private:
  StreamId At(std::uint8_t argument) const {
    return argument < streams_.size() ? streams_[argument] : 0;
  }
  template <class M>
  static M Parse(const Event& event) {
    M message;
    static_cast<void>(message.ParsePartialFromString(event.bytes));
    return message;
  }

  void PerformEvent(const Event& event) {
    const StreamId stream = At(event.argument);
    const bool open = stream != 0 && harness_.IsOpen(stream);
    switch (event.kind % kKinds) {
      case kOpenConsumer:
      case kOpenWorker:
        streams_.push_back(harness_.Open(event.kind % kKinds == kOpenWorker));
        return;
      case kAttach:
        if (open) harness_.Send(stream, Parse<v1::AttachRequest>(event));
        return;
      case kWork:
        if (open) harness_.Work(stream, Parse<v1::WorkRequest>(event));
        return;
      case kBreak:
        if (open) harness_.Break(stream);
        return;
      case kAdvance:
        return Advance(milliseconds(250) * (event.argument % 64));
      case kDrain: {
        Actions actions;
        static_cast<void>(harness_.dispatcher->DrainWorker(Parse<v1::DrainWorkerRequest>(event),
                                                           harness_.now, actions));
        return harness_.Do(std::move(actions));
      }
      case kUndrain: {
        Actions actions;
        static_cast<void>(harness_.dispatcher->UndrainWorker(Parse<v1::UndrainWorkerRequest>(event),
                                                             harness_.now, actions));
        return harness_.Do(std::move(actions));
      }
      case kEndJob: {
        Actions actions;
        static_cast<void>(
            harness_.dispatcher->EndJob(Parse<v1::EndJobRequest>(event), harness_.now, actions));
        return harness_.Do(std::move(actions));
      }
      case kHoldCompiles:
        hold_compiles_ = event.argument % 2 != 0;
        damaged_ = event.argument / 4 % 2 != 0;
        return LackPlugins(event.argument / 2 % 2 != 0);
      case kHoldCommits:
        harness_.hold_commits = event.argument % 2 != 0;
        if (!harness_.hold_commits) harness_.AnswerCommits();
        return;
      case kStoreFails:
        harness_.store_error =
            event.argument % 2 != 0 ? Unavailable("the disk is gone") : OkStatus();
        return;
      case kDataset:
        return harness_.Do(
            harness_.dispatcher->OnDataset("stdlib", Parse<v1::DatasetState>(event), harness_.now));
      default:
        return;
    }
  }

  void LackPlugins(bool lacks) {
    if (std::exchange(lacks_plugins_, lacks) == lacks) return;
    // A plugin that comes is opened as a dataset.
    harness_.Do(harness_.dispatcher->OnDataset("plugin:fuzzed", {}, harness_.now));
  }

  /// Like Harness::Advance, with longer steps. They are faster, and short enough that nobody is
  /// late.
  void Advance(Duration d) {
    for (Duration left = d; left > Duration(0); left -= seconds(1)) {
      harness_.now.time = harness_.now.time + std::min<Duration>(left, seconds(1));
      const auto reporting = harness_.workers;
      for (const auto& [stream, request] : reporting) harness_.Work(stream, request);
      for (const StreamId stream : harness_.talking) harness_.Send(stream, {});
      harness_.Do(harness_.dispatcher->OnTick(harness_.now));
      Answer();
    }
  }

  void Answer() {
    while (!hold_compiles_ && !harness_.compiles.empty()) {
      const CompilePlan compile = harness_.compiles.front();
      harness_.compiles.pop_front();
      if (lacks_plugins_ && !compile.answer) {
        Status damage = DataLoss("a.bin is cut off");
        harness_.Do(
            damaged_
                ? harness_.dispatcher->OnDataDamaged(compile.key, damage, {"stdlib"}, harness_.now)
                : harness_.dispatcher->OnPluginsMissing(compile.key, {"stdlib"}, harness_.now));
        continue;
      }
      harness_.Do(harness_.dispatcher->OnPlanCompiled(compile.key, Compile(compile.pipeline),
                                                      harness_.now));
    }
  }

  void Restart() {
    for (const StreamId stream : streams_) harness_.closed.emplace(stream, Cancelled("gone"));
    harness_.Restart();
  }

  void Check() const {
    const DispatcherFacts& facts = harness_.dispatcher->facts();
    const DispatcherOptions& limits = harness_.options;
    Require(facts.streams().size() <= limits.max_streams, "streams are bounded");
    Require(facts.sessions().size() <= limits.max_sessions, "sessions are bounded");
    Require(facts.job_count() <= limits.max_jobs, "jobs are bounded");
    Require(facts.workers().size() <= limits.max_workers, "workers are bounded");
    Require(facts.plans().size() <= limits.max_plans, "plans are bounded");
    Require(facts.writes().size() <= limits.max_jobs + limits.max_records, "writes are bounded");
    const auto& events = harness_.dispatcher->events().events();
    Require(events.size() <= kMaxEvents, "events are bounded");
    for (const PastEvent& event : events) {
      Require(event.what.text.size() <= kMaxEventText && event.what.peer.size() <= kMaxEventPeer,
              "texts of events are bounded");
      Require(IsUtf8(event.what.text) && IsUtf8(event.what.peer), "a status can have every event");
    }
    for (const auto& [id, session] : facts.sessions()) {
      Require(session.samples.size() <= 300, "samples are bounded");
      Require(session.hello.pipeline().yaml().size() <= limits.max_pipeline_bytes,
              "pipelines are bounded");
      if (!session.live) continue;
      for (const SessionId other_id : facts.LiveSessionsOf(session.hello.job())) {
        const SessionFacts* other = facts.FindSession(other_id);
        Require(other != nullptr, "live sessions exist");
        Require(
            other->plan && session.plan && other->plan->fingerprint == session.plan->fingerprint,
            "I3: live sessions of a job have one fingerprint");
        Require(other->hello.world_size() == session.hello.world_size(),
                "I3: live sessions of a job have one world size");
        Require(other_id == id || other->hello.rank() != session.hello.rank() ||
                    other->hello.replica() != session.hello.replica(),
                "I3: a rank and replica has one live session");
      }
    }
    for (const auto& [stream, messages] : harness_.attach) {
      for (const v1::AttachResponse& message : messages) {
        Require(static_cast<std::uint32_t>(message.list().workers_size()) <= kMaxListMembers,
                "lists are bounded");
        Require(!message.has_welcome() || message.has_list(), "a Welcome comes with a list");
        for (const v1::WorkerRef& worker : message.list().workers()) {
          Require(!worker.address().empty(), "a member has an address");
        }
      }
    }
  }

  test::Harness harness_;
  std::vector<StreamId> streams_;
  bool hold_compiles_ = false;
  bool lacks_plugins_ = false;  // workers are asked for plans
  bool damaged_ = false;        // …because data are damaged, and only for those of jobs that run
};

}  // namespace

std::unique_ptr<google::protobuf::Message> NewMessage(std::uint8_t kind) {
  switch (kind % kKinds) {
    case kAttach:
      return std::make_unique<v1::AttachRequest>();
    case kWork:
      return std::make_unique<v1::WorkRequest>();
    case kDrain:
      return std::make_unique<v1::DrainWorkerRequest>();
    case kUndrain:
      return std::make_unique<v1::UndrainWorkerRequest>();
    case kEndJob:
      return std::make_unique<v1::EndJobRequest>();
    case kDataset:
      return std::make_unique<v1::DatasetState>();
    default:
      return nullptr;
  }
}

std::vector<std::string> Seeds() {
  v1::AttachRequest hello;
  *hello.mutable_hello() = test::MakeHello({.world_size = 2});
  v1::AttachRequest second = hello;
  second.mutable_hello()->set_rank(1);
  second.mutable_hello()->set_nonce(std::string(16, 'b'));
  v1::AttachRequest rival = hello;
  rival.mutable_hello()->set_nonce(std::string(16, 'c'));
  rival.mutable_hello()->set_world_size(4);
  rival.mutable_hello()->mutable_start()->set_example(16);
  v1::AttachRequest back = hello;
  back.mutable_hello()->mutable_session()->set_term(100);
  back.mutable_hello()->mutable_session()->set_n(2);
  back.mutable_hello()->set_admitted(true);
  back.mutable_hello()->set_highest_term(100);
  back.mutable_hello()->mutable_pipeline()->set_yaml(test::Yaml("keep=1\n"));

  v1::AttachRequest report;
  report.mutable_report()->mutable_next()->set_example(8);
  report.mutable_report()->set_asks(true);
  report.mutable_report()->set_step_ms(20);
  report.mutable_report()->set_used(9);
  report.mutable_report()->set_due_seconds(0.5);
  report.mutable_report()->mutable_now()->set_cause(v1::WAIT_LEASE);
  v1::Failing& failing = *report.mutable_report()->add_failing();
  failing.mutable_worker()->set_term(100);
  failing.mutable_worker()->set_n(1);
  failing.set_remaining_seconds(3);
  failing.set_reason("no route");
  failing.set_code(15);
  report.mutable_report()->mutable_counters()->set_batches(1);
  v1::AttachRequest wants;
  wants.mutable_report()->mutable_next();
  v1::AttachRequest bye;
  bye.set_bye(true);

  const auto facts = test::CompileFake(hello.hello().pipeline()).value();
  v1::WorkRequest work;
  work.set_protocol(kProtocol);
  work.set_nonce(std::string(16, 'w'));
  work.set_name("w");
  work.mutable_self()->set_address("w:7701");
  work.mutable_self()->set_host_id("h7");
  (*work.mutable_datasets())["stdlib"].set_digest(test::DatasetDigest());
  v1::PlanState& plan = *work.add_plans();
  plan.set_fingerprint(facts->fingerprint().ToString());
  plan.set_phase(v1::READY);
  plan.set_static_digest(std::string(32, '5'));
  work.set_queue_seconds(0.5);
  v1::StageSeconds& stage = *work.add_build();
  stage.set_stage("closure");
  stage.set_seconds(1);
  stage.set_count(10);
  v1::WorkRequest differs = work;
  differs.set_nonce(std::string(16, 'x'));
  v1::DatasetState& other = (*differs.mutable_datasets())["stdlib"];
  other.set_digest(std::string(32, '7'));
  v1::FileEntry& file = *other.add_file_list();
  file.set_name("a.bin");
  file.set_size(10);
  file.set_digest(std::string(16, 'd'));
  v1::DatasetState own = other;
  own.set_digest(test::DatasetDigest());
  own.mutable_file_list(0)->set_size(11);

  v1::DrainWorkerRequest drain;
  drain.set_worker("w");
  v1::UndrainWorkerRequest undrain;
  undrain.set_worker("w");
  v1::EndJobRequest end;
  end.set_job("x");

  // More peers of each kind than the limits allow.
  std::vector<Event> crowd;
  for (std::uint8_t n = 0; n < 8; ++n) {
    crowd.push_back({kOpenConsumer, 0, ""});
    v1::AttachRequest one = hello;
    one.mutable_hello()->set_nonce(std::string(16, static_cast<char>('A' + n)));
    one.mutable_hello()->set_job(std::string(1, static_cast<char>('p' + n / 2)));
    one.mutable_hello()->set_rank(n % 2);
    crowd.push_back(Message(kAttach, n, one));
  }
  for (std::uint8_t n = 0; n < 6; ++n) {
    crowd.push_back({kOpenWorker, 0, ""});
    v1::WorkRequest one = work;
    one.set_nonce(std::string(16, static_cast<char>('A' + n)));
    one.set_name(std::string(1, static_cast<char>('A' + n)));
    crowd.push_back(Message(kWork, static_cast<std::uint8_t>(8 + n), one));
  }

  return {
      WriteEvents(crowd),
      WriteEvents({{kOpenWorker, 0, ""},
                   Message(kWork, 0, work),
                   {kOpenConsumer, 0, ""},
                   Message(kAttach, 1, hello),
                   {kOpenConsumer, 0, ""},
                   Message(kAttach, 2, second),
                   Message(kAttach, 1, wants),
                   Message(kAttach, 1, report),
                   {kAdvance, 4, ""},
                   Message(kAttach, 2, wants),
                   Message(kWork, 0, work),
                   Message(kAttach, 1, bye),
                   Message(kAttach, 2, bye)}),
      WriteEvents({{kOpenConsumer, 0, ""},
                   Message(kAttach, 0, hello),
                   {kOpenConsumer, 0, ""},
                   Message(kAttach, 1, rival),
                   {kAdvance, 60, ""},
                   {kBreak, 0, ""},
                   {kAdvance, 45, ""},
                   {kOpenConsumer, 0, ""},
                   Message(kAttach, 2, back)}),
      WriteEvents({Message(kDataset, 0, own),
                   {kOpenWorker, 0, ""},
                   Message(kWork, 0, differs),
                   Message(kDrain, 0, drain),
                   {kOpenConsumer, 0, ""},
                   Message(kAttach, 1, hello),
                   {kAdvance, 8, ""},
                   Message(kUndrain, 0, undrain),
                   Message(kEndJob, 0, end)}),
      WriteEvents({{kHoldCompiles, 1, ""},
                   {kHoldCommits, 1, ""},
                   {kOpenConsumer, 0, ""},
                   Message(kAttach, 0, back),
                   Message(kAttach, 0, report),
                   {kHoldCompiles, 0, ""},
                   {kAdvance, 4, ""},
                   {kStoreFails, 1, ""},
                   {kHoldCommits, 0, ""},
                   {kAdvance, 20, ""},
                   {kStoreFails, 0, ""},
                   {kAdvance, 20, ""}}),
  };
}

}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  millrace::fuzz::Hostile hostile;
  for (const auto& event : millrace::fuzz::ReadEvents(data, size)) hostile.Perform(event);
  hostile.ExpectHonestService();
  return 0;
}
