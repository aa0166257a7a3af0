#include "common/transport/trace_peer.h"

#include <memory>

#include <catch2/catch.hpp>

#include "common/transport/convert/spans.h"
#include "millrace/v1/dispatcher.pb.h"
#include "tests/support/fake_clock.h"

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

v1::WorkResponse Ask(std::uint64_t trace, Duration remaining, std::uint64_t sent) {
  v1::WorkResponse response;
  response.mutable_trace()->set_trace(trace);
  response.mutable_trace()->set_remaining_ns(static_cast<std::uint64_t>(remaining.count()));
  response.mutable_trace()->set_sent(sent);
  return response;
}

Span SomeSpan(const Tracer& tracer) {
  Span span;
  span.kind = SpanKind::kGather;
  span.begin = tracer.Begin();
  span.lane = 3;
  span.session = SessionId({7, 8});
  span.epoch = 2;
  span.example = 1024;
  span.bytes = 555;
  span.detail = 4;
  return span;
}

}  // namespace

TEST_CASE("a peer that is not asked adds nothing to its messages", "[trace]") {
  TracePeer peer(std::make_shared<FakeClock>(), "me", "host");
  CHECK(!peer.Obey(v1::WorkResponse()));
  v1::WorkRequest report;
  peer.AddTo(report, {1, 2});
  CHECK(!report.has_trace());
}

TEST_CASE("a peer that is asked sends what it recorded, and the times that clocks need",
          "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  TracePeer peer(clock, "me", "host");
  const Time asked = clock->Now();
  CHECK(peer.Obey(Ask(5, seconds(1), 4242)));
  const Span span = SomeSpan(peer.tracer());
  clock->Advance(milliseconds(20));
  peer.tracer().Record(span);
  clock->Advance(milliseconds(30));

  v1::WorkRequest report;
  peer.AddTo(report, {1, 2});
  const v1::TraceReport& trace = report.trace();
  CHECK(trace.trace() == 5);
  CHECK(trace.name() == "me");
  CHECK(trace.host_id() == "host");
  CHECK(trace.id().term() == 1);
  CHECK(trace.id().n() == 2);
  CHECK(trace.asked() == 4242);
  CHECK(trace.ask_received() == static_cast<std::uint64_t>(asked.since_boot.count()));
  CHECK(trace.sent() == trace.ask_received() + 50'000'000);
  CHECK(!trace.done());
  REQUIRE(SpanCount(trace.spans()) == 1);
  const Span got = SpanAt(trace.spans(), 0);
  CHECK(got.kind == span.kind);
  CHECK(got.lane == span.lane);
  CHECK(got.begin == span.begin);
  CHECK(got.end == span.begin + milliseconds(20));
  CHECK(got.session == span.session);
  CHECK(got.epoch == span.epoch);
  CHECK(got.example == span.example);
  CHECK(got.bytes == span.bytes);
  CHECK(got.detail == span.detail);
}

TEST_CASE("after the end a peer says so once, and is silent then", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  TracePeer peer(clock, "me", "host");
  peer.Obey(Ask(5, seconds(1), 1));
  peer.tracer().Record(SomeSpan(peer.tracer()));
  clock->Advance(milliseconds(1));
  peer.Obey(Ask(5, Duration{0}, 2));
  CHECK(!peer.tracer().on());
  v1::AttachRequest last;
  peer.AddTo(last, {1, 2});
  CHECK(last.trace().done());
  CHECK(SpanCount(last.trace().spans()) == 1);
  v1::AttachRequest next;
  peer.AddTo(next, {1, 2});
  CHECK(!next.has_trace());
  peer.Obey(Ask(5, Duration{0}, 3));  // an ask that was still on its way
  peer.AddTo(next, {1, 2});
  CHECK(!next.has_trace());
  peer.Obey(Ask(4, seconds(1), 4));  // another trace, from another dispatcher
  CHECK(peer.tracer().on());
}

TEST_CASE("a message has no more spans than it may", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  TracePeer peer(clock, "me", "host");
  peer.Obey(Ask(5, seconds(1), 1));
  for (std::size_t i = 0; i < TracePeer::kMostInMessage + 10; ++i) {
    peer.tracer().Record(SomeSpan(peer.tracer()));
  }
  v1::WorkRequest first;
  peer.AddTo(first, {1, 2});
  CHECK(SpanCount(first.trace().spans()) == TracePeer::kMostInMessage);
  CHECK(first.ByteSizeLong() < 2'000'000);
  v1::WorkRequest second;
  peer.AddTo(second, {1, 2});
  CHECK(SpanCount(second.trace().spans()) == 10);
}

TEST_CASE("an ask without end ends by itself", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  TracePeer peer(clock, "me", "host");
  v1::WorkResponse ask = Ask(5, seconds(1), 1);
  ask.mutable_trace()->set_remaining_ns(~std::uint64_t{0});
  peer.Obey(ask);
  CHECK(peer.tracer().on());
  clock->Advance(seconds(601));
  v1::WorkRequest report;
  peer.AddTo(report, {1, 2});
  CHECK(report.trace().done());
}

TEST_CASE("columns of different lengths are read as far as all go", "[trace]") {
  v1::Spans columns;
  AppendTo(columns, Span{});
  AppendTo(columns, Span{});
  columns.mutable_bytes()->RemoveLast();
  CHECK(SpanCount(columns) == 1);
  columns.clear_kind();
  CHECK(SpanCount(columns) == 0);
}

}  // namespace millrace
