#include "server/dispatcher/service/trace_collector.h"

#include <memory>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "common/transport/convert/spans.h"
#include "server/dispatcher/service/server_stream.h"
#include "tests/support/fake_clock.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A reader of traces, with the chunks that it was sent. Writes end when the test says so.
struct FakeReader final : Stream<v1::TraceChunk> {
  void Write(v1::TraceChunk chunk) override {
    CHECK(!writing);
    writing = true;
    chunks.push_back(std::move(chunk));
  }
  void Close(const Status& status) override { closed = status; }

  std::vector<v1::TraceChunk> chunks;
  std::optional<Status> closed;
  bool writing = false;
};

struct TraceFixture {
  /// A reader that has asked for a trace of `for_seconds`.
  std::shared_ptr<FakeReader> Read(std::uint32_t for_seconds) {
    auto reader = std::make_shared<FakeReader>();
    handlers.push_back(collector->Accept(reader));
    v1::TraceRequest request;
    request.set_seconds(for_seconds);
    handlers.back()->OnMessage(std::move(request));
    return reader;
  }
  /// Lets the newest reader take all chunks that wait.
  void Drain(FakeReader& reader) {
    while (std::exchange(reader.writing, false)) handlers.back()->OnWriteDone();
  }
  std::optional<v1::TraceAsk> Tick(std::size_t peers = 1) { return collector->Tick(facts, peers); }
  v1::TraceReport Report(const v1::TraceAsk& ask, std::size_t spans, bool done = false) {
    v1::TraceReport report;
    report.set_trace(ask.trace());
    report.set_name("peer");
    report.mutable_id()->set_term(1);
    report.mutable_id()->set_n(2);
    report.set_asked(ask.sent());
    report.set_ask_received(ask.sent() + 5'000'000'000);
    report.set_sent(ask.sent() + 5'000'000'000);
    report.set_done(done);
    for (std::size_t i = 0; i < spans; ++i) AppendTo(*report.mutable_spans(), Span{});
    report.mutable_spans()->add_names("tensors: take");
    return report;
  }

  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>();
  std::shared_ptr<TraceCollector> collector =
      std::make_shared<TraceCollector>(clock, "dispatcher:1", "here");
  DispatcherFacts facts;
  std::vector<std::shared_ptr<StreamHandler<v1::TraceRequest>>> handlers;
};

}  // namespace

TEST_CASE("no peer is asked where no trace is taken", "[trace]") {
  TraceFixture f;
  CHECK(!f.Tick());
}

TEST_CASE("peers are asked until the end, and then to stop until they have", "[trace]") {
  TraceFixture f;
  const auto reader = f.Read(2);
  f.Drain(*reader);
  std::optional<v1::TraceAsk> ask = f.Tick();
  REQUIRE(ask);
  CHECK(ask->remaining_ns() == 2'000'000'000);
  f.clock->Advance(milliseconds(1500));
  CHECK(f.Tick()->remaining_ns() == 500'000'000);
  f.clock->Advance(milliseconds(500));
  f.Drain(*reader);
  CHECK(f.Tick()->remaining_ns() == 0);
  f.Drain(*reader);
  CHECK(!reader->closed);
  f.collector->OnReport(v1::TRACE_WORKER, f.Report(*ask, 1, true));
  f.Drain(*reader);
  CHECK(!f.Tick());
  REQUIRE(reader->closed);
  CHECK(reader->closed->ok());
}

TEST_CASE("a peer that never answers does not hold the end up for long", "[trace]") {
  TraceFixture f;
  const auto reader = f.Read(1);
  f.clock->Advance(seconds(1));
  CHECK(f.Tick());
  f.Drain(*reader);
  f.clock->Advance(TraceCollector::kLateness);
  f.Drain(*reader);
  CHECK(!f.Tick());
  REQUIRE(reader->closed);
  CHECK(reader->closed->ok());
}

TEST_CASE("spans are passed on as they come, with whose they are and how its clock is", "[trace]") {
  TraceFixture f;
  const auto reader = f.Read(2);
  const v1::TraceAsk ask = *f.Tick();
  f.clock->Advance(milliseconds(4));
  f.collector->OnReport(v1::TRACE_CONSUMER, f.Report(ask, 3));
  f.Drain(*reader);
  REQUIRE(reader->chunks.size() >= 2);
  CHECK(reader->chunks[0].began() > 0);
  const v1::TraceChunk& chunk = reader->chunks.back();
  CHECK(SpanCount(chunk.spans()) == 3);
  REQUIRE(chunk.spans().names_size() == 1);
  CHECK(chunk.spans().names(0) == "tensors: take");
  CHECK(chunk.process().role() == v1::TRACE_CONSUMER);
  CHECK(chunk.process().name() == "peer");
  CHECK(chunk.process().id().n() == 2);
  CHECK(chunk.process().clock_offset_ns() == 5'000'000'000 - 2'000'000);
  CHECK(chunk.process().clock_error_ns() == 2'000'000);
}

TEST_CASE("spans of no trace that is being taken are for nobody", "[trace]") {
  TraceFixture f;
  v1::TraceAsk other;
  other.set_trace(99);
  f.collector->OnReport(v1::TRACE_WORKER, f.Report(other, 1));
  const auto reader = f.Read(2);
  f.collector->OnReport(v1::TRACE_WORKER, f.Report(other, 1));
  f.Drain(*reader);
  for (const auto& chunk : reader->chunks) CHECK(SpanCount(chunk.spans()) == 0);
}

TEST_CASE("the first chunk of a trace names the dispatcher, whose clock counts", "[trace]") {
  TraceFixture f;
  const auto reader = f.Read(2);
  REQUIRE(reader->chunks.size() == 1);
  CHECK(reader->chunks[0].process().role() == v1::TRACE_DISPATCHER);
  CHECK(reader->chunks[0].process().name() == "dispatcher:1");
  CHECK(reader->chunks[0].process().clock_error_ns() == 0);
}

TEST_CASE("a session is described with its dataset and the kind of it", "[trace]") {
  TraceFixture f;
  test::Harness h;
  h.AddWorker("w");
  const auto describe = [&](const std::string& digest) {
    v1::DatasetState dataset;
    dataset.set_digest(digest);
    dataset.set_kind("graph");
    h.Do(h.dispatcher->OnDataset("papers", dataset, h.now));
    f.collector->Stop(OkStatus());
    const auto reader = f.Read(2);
    f.collector->Tick(h.dispatcher->facts(), 1);
    f.Drain(*reader);
    for (const v1::TraceChunk& chunk : reader->chunks) {
      if (chunk.sessions_size() > 0) return chunk.sessions(0);
    }
    return v1::TraceSession();
  };
  h.hold_compiles = true;
  const StreamId stream = h.Attach(test::HelloOptions{.yaml = test::Yaml("dataset=papers\n")});
  const std::string digest = test::DatasetDigest("papers");
  CHECK(describe(digest).datasets().empty());  // its plan is not compiled yet
  h.AnswerCompiles();
  REQUIRE(h.WelcomeOn(stream) != nullptr);
  const v1::TraceSession session = describe(digest);
  REQUIRE(session.datasets_size() == 1);
  CHECK(session.datasets(0) == "papers");
  REQUIRE(session.kinds_size() == 1);
  CHECK(session.kinds(0) == "graph");
  CHECK(session.steps().size() == 4);
  // The id now stands for another dataset, of which nothing says what kind the job's has.
  CHECK(describe(test::DatasetDigest("others")).datasets(0) == "papers");
  CHECK(describe(test::DatasetDigest("others")).kinds(0).empty());
}

TEST_CASE("a session is described with all datasets of its mix, and the kinds that are known",
          "[trace]") {
  TraceFixture f;
  test::Harness h;
  v1::DatasetState papers;
  papers.set_digest(test::DatasetDigest("papers"));
  papers.set_kind("graph");
  h.Do(h.dispatcher->OnDataset("papers", papers, h.now));
  h.AddWorker("w");
  h.Attach(test::HelloOptions{.yaml = test::Yaml("dataset=stdlib,papers\n")});
  const auto reader = f.Read(2);
  f.collector->Tick(h.dispatcher->facts(), 1);
  f.Drain(*reader);
  const auto chunk = std::find_if(reader->chunks.begin(), reader->chunks.end(),
                                  [](const auto& c) { return c.sessions_size() > 0; });
  REQUIRE(chunk != reader->chunks.end());
  const v1::TraceSession& session = chunk->sessions(0);
  REQUIRE(session.datasets_size() == 2);
  CHECK(session.datasets(0) == "stdlib");
  CHECK(session.datasets(1) == "papers");
  REQUIRE(session.kinds_size() == 2);
  CHECK(session.kinds(0).empty());
  CHECK(session.kinds(1) == "graph");
}

TEST_CASE("a reader that goes away ends its trace", "[trace]") {
  TraceFixture f;
  f.Read(600);
  CHECK(f.Tick()->remaining_ns() > 0);
  f.handlers.back()->OnClosed(Cancelled("gone"));
  const auto ask = f.Tick();
  REQUIRE(ask);
  CHECK(ask->remaining_ns() == 0);
  f.clock->Advance(TraceCollector::kLateness);
  CHECK(!f.Tick());
  CHECK(!f.Read(5)->closed);  // another reader may have a trace now
}

TEST_CASE("one trace is taken at a time, and none for longer than it may", "[trace]") {
  TraceFixture f;
  for (const std::uint32_t wrong : {0u, 601u}) {
    const auto refused = f.Read(wrong);
    REQUIRE(refused->closed);
    CHECK(refused->closed->code() == StatusCode::kInvalidArgument);
    CHECK(refused->closed->message().find("1 to 600") != std::string::npos);
  }
  const auto reader = f.Read(600);
  CHECK(!reader->closed);
  const auto second = f.Read(1);
  REQUIRE(second->closed);
  CHECK(second->closed->code() == StatusCode::kResourceExhausted);
  CHECK(!reader->closed);
  f.collector->Stop(Unavailable("stops"));
  REQUIRE(reader->closed);
  CHECK(reader->closed->code() == StatusCode::kUnavailable);
}

TEST_CASE("a reader that does not read costs a bounded number of chunks, and is told", "[trace]") {
  TraceFixture f;
  const auto reader = f.Read(600);
  const v1::TraceAsk ask = *f.Tick();
  for (int i = 0; i < 1000; ++i) {
    f.collector->OnReport(v1::TRACE_WORKER, f.Report(ask, 10));
  }
  f.Drain(*reader);
  CHECK(reader->chunks.size() < 100);
  f.collector->OnReport(v1::TRACE_WORKER, f.Report(ask, 10));
  std::size_t passed_on = 0;
  for (const auto& chunk : reader->chunks) passed_on += SpanCount(chunk.spans());
  CHECK(reader->chunks.back().process().dropped() + passed_on == 10 * 1001);
}

TEST_CASE("spans beside reports that are made one are all passed on", "[trace][stream]") {
  std::vector<std::uint64_t> seen;
  ServerStream<v1::WorkRequest, v1::WorkResponse> stream(
      1, nullptr, [] {}, [&](const v1::TraceReport& report) { seen.push_back(report.trace()); });
  for (const std::uint64_t trace : {1u, 2u, 3u}) {
    v1::WorkRequest report;
    report.mutable_trace()->set_trace(trace);
    stream.OnMessage(std::move(report));
  }
  CHECK(seen == std::vector<std::uint64_t>{1, 2, 3});
  const auto taken = stream.Take();
  REQUIRE(taken.messages.size() == 1);
  CHECK(!taken.messages[0].has_trace());
}

TEST_CASE("asks that wait for a write keep what else waits, and the newest of them goes",
          "[trace][stream]") {
  v1::WorkResponse waiting;
  waiting.mutable_id()->set_n(3);
  waiting.add_plans()->set_fingerprint("f");
  v1::WorkResponse ask;
  ask.mutable_trace()->set_trace(8);
  ask.mutable_trace()->set_remaining_ns(5);
  CoalesceOut(waiting, v1::WorkResponse(ask));
  CHECK(waiting.plans_size() == 1);
  CHECK(waiting.trace().remaining_ns() == 5);
  v1::WorkResponse plans;
  plans.mutable_id()->set_n(3);
  CoalesceOut(waiting, std::move(plans));
  CHECK(waiting.plans_size() == 0);
  CHECK(waiting.trace().trace() == 8);

  v1::AttachResponse list;
  list.mutable_list()->add_workers();
  list.mutable_trace()->set_remaining_ns(5);
  v1::AttachResponse stop;
  stop.mutable_trace()->set_trace(8);
  CoalesceOut(list, std::move(stop));
  CHECK(list.list().workers_size() == 1);
  CHECK(list.trace().trace() == 8);
  CHECK(list.trace().remaining_ns() == 0);
}

}  // namespace millrace
