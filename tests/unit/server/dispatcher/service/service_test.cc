// The adapter: streams, threads, the store and the compiler around the state machine.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <stdexcept>

#include "common/base/protocol_version.h"
#include "common/system/mutex.h"
#include "server/dispatcher/service/dispatcher_service.h"
#include "server/dispatcher/service/plan_compiler.h"
#include "tests/support/fake_clock.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

class MemoryStore final : public StateStore {
 public:
  Result<StoredState> Load() override {
    MutexLock lock(mutex_);
    if (!load_error.ok()) return load_error;
    return state_;
  }
  Status CommitTerm(std::uint64_t term) override {
    MutexLock lock(mutex_);
    if (term <= state_.term) return FailedPrecondition("not higher");
    state_.term = term;
    return OkStatus();
  }
  Status CommitJob(std::uint64_t term, const v1::JobRecord& record, std::int64_t) override {
    MutexLock lock(mutex_);
    if (term != state_.term) return FailedPrecondition("another term");
    state_.jobs.push_back(record);
    return OkStatus();
  }
  StoredState state() {
    MutexLock lock(mutex_);
    return state_;
  }
  void SetTerm(std::uint64_t term) {
    MutexLock lock(mutex_);
    state_.term = term;
  }
  Status load_error;

 private:
  Mutex mutex_;
  StoredState state_ MILLRACE_GUARDED_BY(mutex_);
};

class FakeCompiler final : public PlanCompiler {
 public:
  Result<std::shared_ptr<const PlanFacts>> Compile(const v1::PipelineText& pipeline) override {
    ++calls;
    if (throws) throw std::runtime_error("yaml-cpp");
    return CompileFake(pipeline);
  }
  std::atomic<int> calls{0};
  std::atomic<bool> throws{false};
};

/// The network's side of a stream. A write ends when the test calls FinishWrite.
template <class Out>
class FakeStream final : public Stream<Out> {
 public:
  void Write(Out message) override {
    MutexLock lock(mutex_);
    overlaps_ = overlaps_ || writing_;
    writing_ = true;
    written_.push_back(std::move(message));
    changed_.NotifyAll();
  }
  void Close(const Status& status) override {
    MutexLock lock(mutex_);
    closed_ = status;
    changed_.NotifyAll();
  }

  Status WaitForClose() {
    MutexLock lock(mutex_);
    while (!closed_) changed_.Wait(mutex_);
    return *closed_;
  }
  /// Ends the write that is under way; false if there is none.
  bool FinishWrite() {
    MutexLock lock(mutex_);
    return std::exchange(writing_, false);
  }
  bool closed() {
    MutexLock lock(mutex_);
    return closed_.has_value();
  }
  void WaitForWrite() {
    MutexLock lock(mutex_);
    if (!writing_) changed_.WaitFor(mutex_, milliseconds(20));
  }
  bool overlaps() {
    MutexLock lock(mutex_);
    return overlaps_;
  }
  std::vector<Out> written() {
    MutexLock lock(mutex_);
    return written_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Out> written_ MILLRACE_GUARDED_BY(mutex_);
  bool writing_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool overlaps_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::optional<Status> closed_ MILLRACE_GUARDED_BY(mutex_);
};

struct Fixture {
  explicit Fixture(std::uint64_t stored_term = 0) {
    store->SetTerm(stored_term);
    DispatcherOptions options;
    options.tick = milliseconds(5);
    service = DispatcherService::Start(options, store, compiler, clock, MakeNullLogger()).value();
  }
  std::shared_ptr<MemoryStore> store = std::make_shared<MemoryStore>();
  std::shared_ptr<FakeCompiler> compiler = std::make_shared<FakeCompiler>();
  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>();
  std::shared_ptr<DispatcherService> service;
};

v1::AttachRequest HelloRequest(const HelloOptions& options = {}) {
  v1::AttachRequest request;
  *request.mutable_hello() = MakeHello(options);
  return request;
}

/// Lets the network finish writes until `done` is true for the messages written; false if
/// the stream is closed before that.
template <class In, class Out, class Done>
bool PumpUntil(StreamHandler<In>& handler, FakeStream<Out>& stream, Done done) {
  while (!done(stream.written())) {
    if (stream.closed()) return false;
    stream.WaitForWrite();
    if (stream.FinishWrite()) handler.OnWriteDone();
  }
  return true;
}

bool HasWelcome(const std::vector<v1::AttachResponse>& written) {
  return std::any_of(written.begin(), written.end(),
                     [](const auto& message) { return message.has_welcome(); });
}

TEST_CASE("a dispatcher commits a term above the last one and the clock's before it answers",
          "[service][term]") {
  CHECK(Fixture().store->state().term == 1'700'000'000);
  CHECK(Fixture(1'800'000'000).store->state().term == 1'800'000'001);
}

TEST_CASE("a dispatcher whose store cannot be read does not start", "[service][store]") {
  auto store = std::make_shared<MemoryStore>();
  store->load_error = DataLoss("damaged");
  CHECK(DispatcherService::Start({}, store, std::make_shared<FakeCompiler>(),
                                 std::make_shared<FakeClock>(), MakeNullLogger())
            .status() == DataLoss("damaged"));
}

TEST_CASE("a hello over the service ends in a welcome, with the record in the store", "[service]") {
  Fixture f;
  auto stream = std::make_shared<FakeStream<v1::AttachResponse>>();
  auto handler = f.service->OnAttach(stream, {"peer"});
  handler->OnMessage(HelloRequest());
  CHECK(PumpUntil(*handler, *stream, HasWelcome));
  CHECK_FALSE(stream->overlaps());
  REQUIRE(f.store->state().jobs.size() == 1);
  CHECK(f.store->state().jobs[0].name() == "x");
}

TEST_CASE("a dispatcher that hears of a higher term begins a still higher one and serves on",
          "[service][term]") {
  Fixture f;
  const std::uint64_t seen = 1'700'000'500;
  v1::AttachRequest request = HelloRequest();
  request.mutable_hello()->set_highest_term(seen);
  auto first = std::make_shared<FakeStream<v1::AttachResponse>>();
  auto handler = f.service->OnAttach(first, {"peer"});
  handler->OnMessage(request);
  CHECK(first->WaitForClose().code() == StatusCode::kUnavailable);
  std::uint64_t term = 0;
  while (term == 0) {  // it tries until it is let in, as a trainer does
    auto stream = std::make_shared<FakeStream<v1::AttachResponse>>();
    auto again = f.service->OnAttach(stream, {"peer"});
    again->OnMessage(request);
    f.service->Tick();
    if (f.service->term() == seen + 1 && PumpUntil(*again, *stream, HasWelcome)) {
      term = stream->written().back().term();
    }
  }
  CHECK(term == seen + 1);
  CHECK(f.store->state().term == seen + 1);
  REQUIRE_FALSE(f.store->state().jobs.empty());
}

TEST_CASE("the address in status is the one that was told last", "[service]") {
  Fixture f;
  f.service->SetAddress("127.0.0.1:4321");
  CHECK(f.service->OnGetStatus({"peer"})->address() == "127.0.0.1:4321");
}

TEST_CASE("one write is outstanding at a time and what waits becomes one message", "[service]") {
  Fixture f;
  auto stream = std::make_shared<FakeStream<v1::AttachResponse>>();
  auto handler = f.service->OnAttach(stream, {"peer"});
  handler->OnMessage(HelloRequest());
  REQUIRE(PumpUntil(*handler, *stream, HasWelcome));
  stream->FinishWrite();
  handler->OnWriteDone();
  const std::size_t before = stream->written().size();
  // The write of the first heartbeat does not end. The heartbeats of the next seconds wait as one
  // message.
  for (int i = 0; i < 12; ++i) {
    f.clock->Advance(milliseconds(500));
    handler->OnMessage(v1::AttachRequest());
    f.service->Tick();
  }
  CHECK(stream->written().size() == before + 1);
  CHECK_FALSE(stream->overlaps());
  stream->FinishWrite();
  handler->OnWriteDone();
  CHECK(stream->written().size() == before + 2);
}

TEST_CASE("an exception of a compiler ends the session, not the process", "[service]") {
  Fixture f;
  f.compiler->throws = true;
  auto stream = std::make_shared<FakeStream<v1::AttachResponse>>();
  auto handler = f.service->OnAttach(stream, {"peer"});
  handler->OnMessage(HelloRequest());
  CHECK(stream->WaitForClose() == FailedPrecondition("compiling the plan failed: yaml-cpp"));
}

TEST_CASE("what a stream may make others keep is bounded", "[service][stream][hostile]") {
  int notified = 0;
  AttachStream stream(1, std::make_shared<FakeStream<v1::AttachResponse>>(), [&] { ++notified; });
  v1::AttachRequest bye;
  bye.set_bye(true);
  for (int i = 0; i < 1000; ++i) stream.OnMessage(bye);
  const auto inbound = stream.Take();
  CHECK(inbound.messages.size() == AttachStream::kMostWaiting);
  CHECK(inbound.flooded);
  CHECK(notified == 1);
}

TEST_CASE("a stopped dispatcher ends its streams so that peers come back, and answers no more",
          "[service]") {
  Fixture f;
  auto stream = std::make_shared<FakeStream<v1::AttachResponse>>();
  auto handler = f.service->OnAttach(stream, {"peer"});
  handler->OnMessage(HelloRequest());
  REQUIRE(PumpUntil(*handler, *stream, HasWelcome));
  f.service->Stop();
  CHECK(stream->WaitForClose().code() == StatusCode::kUnavailable);
  CHECK(f.service->OnGetStatus({"peer"}).status().code() == StatusCode::kUnavailable);
  CHECK_FALSE(f.store->state().jobs.back().ended());
  f.service.reset();
  handler->OnMessage(v1::AttachRequest());  // the service has gone, unknown to the network
  handler->OnClosed(OkStatus());
}

TEST_CASE("a dispatcher whose time is over handles no event any more, and says who leads",
          "[service][leader]") {
  auto store = std::make_shared<MemoryStore>();
  auto clock = std::make_shared<FakeClock>();
  std::atomic<bool> over{false};
  const Status why = Unavailable("not the leader: other leads");
  DispatcherHooks hooks;
  hooks.may_lead = [&] { return over ? why : OkStatus(); };
  DispatcherOptions options;
  const bool ticks = GENERATE(true, false);  // whether a tick or the event finds it out
  options.tick = ticks ? milliseconds(5) : seconds(1000);
  auto service = DispatcherService::Start(options, store, std::make_shared<FakeCompiler>(), clock,
                                          MakeNullLogger(), hooks)
                     .value();
  auto stream = std::make_shared<FakeStream<v1::AttachResponse>>();
  auto handler = service->OnAttach(stream, {"peer"});
  handler->OnMessage(HelloRequest());
  REQUIRE(PumpUntil(*handler, *stream, HasWelcome));
  auto second = std::make_shared<FakeStream<v1::AttachResponse>>();
  auto second_handler = service->OnAttach(second, {"peer"});
  REQUIRE(service->OnGetStatus({"peer"}).ok());  // both streams are open

  over = true;
  HelloOptions other_job;
  other_job.job = "late";
  if (!ticks) second_handler->OnMessage(HelloRequest(other_job));
  CHECK(stream->WaitForClose() == why);
  CHECK(second->WaitForClose() == why);
  CHECK(second->written().empty());
  auto third = std::make_shared<FakeStream<v1::AttachResponse>>();
  auto third_handler = service->OnAttach(third, {"peer"});
  CHECK(third->WaitForClose().code() == StatusCode::kUnavailable);
  // Its time does not come back. The next leader begins a new term.
  over = false;
  CHECK(service->OnGetStatus({"peer"}).status().code() == StatusCode::kUnavailable);
  CHECK(store->state().jobs.size() == 1);
}

TEST_CASE("a store that cannot go on is reported, and nobody is welcomed on its account",
          "[service][store]") {
  class Broken final : public StateStore {
   public:
    Result<StoredState> Load() override { return StoredState(); }
    Status CommitTerm(std::uint64_t) override { return OkStatus(); }
    Status CommitJob(std::uint64_t, const v1::JobRecord&, std::int64_t) override {
      return Internal("fsync failed");
    }
  };
  std::promise<Status> reported;
  std::atomic<int> reports{0};
  DispatcherHooks hooks;
  hooks.on_broken_store = [&](const Status& why) {
    if (reports++ == 0) reported.set_value(why);
  };
  auto service =
      DispatcherService::Start({}, std::make_shared<Broken>(), std::make_shared<FakeCompiler>(),
                               std::make_shared<FakeClock>(), MakeNullLogger(), hooks)
          .value();
  auto stream = std::make_shared<FakeStream<v1::AttachResponse>>();
  auto handler = service->OnAttach(stream, {"peer"});
  handler->OnMessage(HelloRequest());
  auto told = reported.get_future();
  CHECK(told.get() == Internal("fsync failed"));
  CHECK_FALSE(HasWelcome(stream->written()));
}

TEST_CASE("every event of the loop has its time in the metrics", "[service][metrics]") {
  Fixture f;
  const auto events = [&] {
    MetricSet metrics;
    f.service->AddMetrics(metrics);
    return metrics.histograms(Metric::kEventSeconds).at({}).count();
  };
  const std::uint64_t before = events();
  f.service->Tick();
  CHECK(events() >= before + 2);
}

TEST_CASE("a worker over the service is known to status with its answers", "[service]") {
  Fixture f;
  auto stream = std::make_shared<FakeStream<v1::WorkResponse>>();
  auto handler = f.service->OnWork(stream, {"peer"});
  v1::WorkRequest request;
  request.set_protocol(kProtocol);
  request.set_nonce(std::string(16, 'n'));
  request.set_name("w1");
  request.mutable_self()->set_address("w1:7701");
  handler->OnMessage(request);
  REQUIRE(PumpUntil(*handler, *stream, [](const auto& written) { return !written.empty(); }));
  CHECK(stream->written()[0].term() == f.service->term());
  const auto status = f.service->OnGetStatus({"peer"});
  REQUIRE(status.ok());
  REQUIRE(status->workers_size() == 1);
  CHECK(status->workers(0).name() == "w1");

  v1::DrainWorkerRequest drain;
  drain.set_worker("w2");
  CHECK(f.service->OnDrainWorker(drain).status().code() == StatusCode::kNotFound);
  v1::UndrainWorkerRequest undrain;
  undrain.set_worker("w1");
  CHECK(f.service->OnUndrainWorker(undrain).status().code() == StatusCode::kFailedPrecondition);
  v1::EndJobRequest end;
  end.set_job("x");
  CHECK(f.service->OnEndJob(end, {"peer"}).status().code() == StatusCode::kNotFound);
}

TEST_CASE("reports that wait become the last of them; hello and bye are kept",
          "[service][stream]") {
  v1::AttachRequest first;
  first.mutable_report()->set_used(1);
  v1::AttachRequest second;
  second.mutable_report()->set_used(2);
  CHECK(Coalesce(first, second));
  CHECK(first.report().used() == 2);
  v1::AttachRequest bye;
  bye.set_bye(true);
  CHECK_FALSE(Coalesce(first, bye));
  v1::AttachRequest hello = HelloRequest();
  CHECK_FALSE(Coalesce(hello, second));
}

TEST_CASE("a report that replaces one that waits keeps what was measured", "[service][columns]") {
  v1::WorkRequest first;
  first.add_measured()->mutable_run()->set_first(256);
  first.set_queue_seconds(1);
  v1::WorkRequest second;
  second.add_measured()->mutable_run()->set_first(512);
  CHECK(Coalesce(first, second));
  REQUIRE(first.measured_size() == 2);
  CHECK(first.measured(0).run().first() == 256);
  CHECK(first.measured(1).run().first() == 512);
  CHECK(first.queue_seconds() == 0);
  for (int i = 0; i < 2000; ++i) first.add_measured();
  CHECK_FALSE(Coalesce(first, second));
}

TEST_CASE("a report that replaces one that waits keeps how the process tunes itself",
          "[service][tune]") {
  v1::WorkRequest first;
  first.mutable_tuning()->add_settings()->set_value(1);
  v1::WorkRequest second;
  second.set_queue_seconds(1);
  CHECK(Coalesce(first, second));
  REQUIRE(first.tuning().settings_size() == 1);
  CHECK(first.queue_seconds() == 1);
  v1::WorkRequest newer;
  newer.mutable_tuning()->add_settings()->set_value(2);
  CHECK(Coalesce(first, newer));
  REQUIRE(first.tuning().settings_size() == 1);
  CHECK(first.tuning().settings(0).value() == 2);

  v1::AttachRequest report;
  report.mutable_report()->mutable_tuning()->add_settings()->set_value(3);
  v1::AttachRequest later;
  later.mutable_report()->set_used(4);
  CHECK(Coalesce(report, later));
  CHECK(report.report().used() == 4);
  REQUIRE(report.report().tuning().settings_size() == 1);
}

TEST_CASE("of two lists that wait for a write the later one is sent, and it ends a wait",
          "[service][stream]") {
  v1::AttachResponse first;
  first.set_term(5);
  first.mutable_list()->set_number(1);
  first.mutable_list()->add_workers()->set_address("a");
  v1::AttachResponse second;
  second.set_term(5);
  second.mutable_list()->set_number(2);
  second.mutable_waiting()->set_why("w");
  CoalesceOut(first, std::move(second));
  CHECK(first.list().number() == 2);
  CHECK(first.list().workers().empty());
  CHECK(first.waiting().why() == "w");
  v1::AttachResponse third;
  third.mutable_list()->set_number(3);
  third.mutable_list()->add_workers()->set_address("b");
  CoalesceOut(first, std::move(third));
  REQUIRE(first.list().workers_size() == 1);
  CHECK(first.list().workers(0).address() == "b");
  CHECK_FALSE(first.has_waiting());
}

TEST_CASE("of two welcomes that wait for a write the later one is sent", "[service][stream]") {
  v1::AttachResponse first;
  first.mutable_waiting()->set_why("w");
  first.mutable_welcome()->mutable_spec()->add_tensors()->set_path("a");
  first.mutable_list()->set_number(1);
  v1::AttachResponse second;
  second.mutable_welcome()->mutable_spec()->add_tensors()->set_path("a");
  second.mutable_list()->set_number(2);
  CoalesceOut(first, std::move(second));
  CHECK(first.welcome().spec().tensors_size() == 1);
  CHECK(first.list().number() == 2);
  CHECK_FALSE(first.has_waiting());
}

}  // namespace
}  // namespace millrace::test
