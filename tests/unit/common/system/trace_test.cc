#include "common/system/trace.h"
#include "tests/support/fake_clock.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Span At(Time begin, std::uint64_t example) {
  Span span;
  span.begin = begin;
  span.example = example;
  return span;
}

}  // namespace

TEST_CASE("nothing is recorded where no trace is taken", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  Tracer tracer(clock);
  CHECK(!tracer.on());
  CHECK(tracer.Begin() == Time{});
  tracer.Record(At(clock->Now(), 1));
  CHECK(tracer.Take(10).trace == 0);
}

TEST_CASE("spans are taken in the order of their ends, each once", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  Tracer tracer(clock);
  tracer.Start(7, clock->Now() + seconds(1));
  const Time began = tracer.Begin();
  CHECK(began == clock->Now());
  for (std::uint64_t i = 0; i < 3; ++i) {
    clock->Advance(milliseconds(1));
    tracer.Record(At(began, i));
  }
  Tracer::Taken taken = tracer.Take(2);
  CHECK(taken.trace == 7);
  CHECK(!taken.done);
  REQUIRE(taken.spans.size() == 2);
  CHECK(taken.spans[0].example == 0);
  CHECK(taken.spans[1].example == 1);
  CHECK(taken.spans[1].end == began + milliseconds(2));
  taken = tracer.Take(2);
  REQUIRE(taken.spans.size() == 1);
  CHECK(taken.spans[0].example == 2);
  CHECK(tracer.Take(2).spans.empty());
}

TEST_CASE("operations are recorded with their names, of which there are only so many", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  Tracer tracer(clock);
  tracer.Start(7, clock->Now() + seconds(1));
  Span span = At(clock->Now(), 1);
  span.kind = SpanKind::kOperation;
  span.end = clock->Now();
  for (const char* const name : {"take", "expr", "take"}) tracer.RecordNamed(span, name);
  Tracer::Taken taken = tracer.Take(10);
  REQUIRE(taken.spans.size() == 3);
  CHECK(taken.spans[0].kind == SpanKind::kOperation);
  CHECK(taken.names == std::vector<std::string>{"take", "expr"});
  CHECK(taken.spans[0].detail == 0);
  CHECK(taken.spans[1].detail == 1);
  CHECK(taken.spans[2].detail == 0);

  for (int i = 0; i < 1000; ++i) tracer.RecordNamed(span, "operation " + std::to_string(i));
  taken = tracer.Take(2000);
  CHECK(taken.names.size() == Tracer::kMostNames);
  CHECK(taken.names.back() == "others");
  CHECK(taken.spans.back().detail == Tracer::kMostNames - 1);

  // Another trace has other names.
  tracer.Start(8, clock->Now() + seconds(1));
  tracer.RecordNamed(span, "cast");
  CHECK(tracer.Take(10).names == std::vector<std::string>{"cast"});
}

TEST_CASE("a span whose begin was not recorded is none", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  Tracer tracer(clock);
  const Time began = tracer.Begin();
  tracer.Start(1, clock->Now() + seconds(1));
  tracer.Record(At(began, 1));
  CHECK(tracer.Take(10).spans.empty());
}

TEST_CASE("a span that began in a trace before is none of the next", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  Tracer tracer(clock);
  tracer.Start(1, clock->Now() + seconds(1));
  const Time began = tracer.Begin();
  clock->Advance(milliseconds(1));
  tracer.Start(2, clock->Now() + seconds(1));
  tracer.Record(At(began, 1));
  tracer.Record(At(tracer.Begin(), 2));
  const Tracer::Taken taken = tracer.Take(10);
  REQUIRE(taken.spans.size() == 1);
  CHECK(taken.spans[0].example == 2);
}

TEST_CASE("what does not fit pushes out the oldest, and is counted", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  Tracer tracer(clock, 4);
  tracer.Start(1, clock->Now() + seconds(1));
  for (std::uint64_t i = 0; i < 7; ++i) tracer.Record(At(clock->Now(), i));
  const Tracer::Taken taken = tracer.Take(10);
  CHECK(taken.dropped == 3);
  REQUIRE(taken.spans.size() == 4);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(taken.spans[i].example == 3 + i);
  for (std::uint64_t i = 7; i < 10; ++i) tracer.Record(At(clock->Now(), i));
  CHECK(tracer.Take(10).spans.size() == 3);
}

TEST_CASE("a trace ends by itself, and gives what it has", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  Tracer tracer(clock);
  tracer.Start(1, clock->Now() + seconds(1));
  const Time began = tracer.Begin();
  tracer.Record(At(began, 1));
  tracer.Record(At(began, 2));
  clock->Advance(seconds(2));
  tracer.Record(At(began, 3));  // ends after the trace
  CHECK(!tracer.on());
  Tracer::Taken taken = tracer.Take(1);
  CHECK(taken.spans.size() == 1);
  CHECK(!taken.done);
  taken = tracer.Take(1);
  CHECK(taken.spans.size() == 1);
  CHECK(taken.done);
  CHECK(tracer.Take(1).trace == 0);
  tracer.Start(1, clock->Now() + seconds(1));  // asks for a trace that is over
  CHECK(!tracer.on());
}

TEST_CASE("an idle trace is over when it is looked at after its end", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  Tracer tracer(clock);
  tracer.Start(1, clock->Now() + seconds(1));
  CHECK(!tracer.Take(10).done);
  clock->Advance(seconds(1));
  CHECK(tracer.Take(10).done);
  CHECK(!tracer.on());
}

TEST_CASE("asked again, a trace moves its end; another one begins anew", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  Tracer tracer(clock, 2);
  tracer.Start(1, clock->Now() + seconds(1));
  for (std::uint64_t i = 0; i < 3; ++i) tracer.Record(At(clock->Now(), i));
  tracer.Start(1, clock->Now() + seconds(5));
  clock->Advance(seconds(2));
  CHECK(tracer.on());
  CHECK(tracer.Begin() != Time{});
  tracer.Start(2, clock->Now() + seconds(1));
  const Tracer::Taken taken = tracer.Take(10);
  CHECK(taken.trace == 2);
  CHECK(taken.spans.empty());
  CHECK(taken.dropped == 0);
  tracer.Start(2, clock->Now());
  CHECK(!tracer.on());
}

TEST_CASE("many threads record at once", "[trace]") {
  const auto clock = std::make_shared<FakeClock>();
  Tracer tracer(clock, 1000);
  tracer.Start(1, clock->Now() + seconds(1));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < 500; ++i) tracer.Record(At(tracer.Begin(), i));
    });
  }
  std::size_t taken = 0;
  for (int i = 0; i < 10; ++i) taken += tracer.Take(100).spans.size();
  for (std::thread& thread : threads) thread.join();
  const Tracer::Taken rest = tracer.Take(10'000);
  CHECK(taken + rest.spans.size() + rest.dropped == 2000);
}

}  // namespace millrace
