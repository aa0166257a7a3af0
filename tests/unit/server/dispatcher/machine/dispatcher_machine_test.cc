// Streams and terms: the checks that come before the components of a dispatcher are called.
#include <catch2/catch.hpp>

#include "common/base/protocol_version.h"
#include "harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

TEST_CASE("a consumer that has seen a higher term ends this dispatcher's", "[term]") {
  Harness h;
  const StreamId holder = h.Attach(HelloOptions{});
  v1::Hello hello = MakeHello({.nonce = 'b'});
  hello.set_highest_term(200);
  const StreamId stream = h.Attach(hello);
  for (const StreamId s : {holder, stream}) {
    CHECK(h.ClosedWith(s).code() == StatusCode::kUnavailable);
    CHECK_THAT(h.ClosedWith(s).message(), Contains("term 100 is over") && Contains("term 200"));
  }
  CHECK(h.ClosedWith(h.Open()).code() == StatusCode::kUnavailable);
}

TEST_CASE("a worker that has a number of a higher term ends this dispatcher's", "[term]") {
  Harness h;
  const StreamId stream = h.Open(true);
  v1::WorkRequest request;
  request.set_protocol(kProtocol);
  request.set_nonce(std::string(16, 'w'));
  request.set_name("w1");
  request.mutable_self()->set_address("w1:7701");
  request.mutable_id()->set_term(200);
  request.mutable_id()->set_n(1);
  h.Work(stream, request);
  CHECK(h.ClosedWith(stream).code() == StatusCode::kUnavailable);
  CHECK(h.dispatcher->seen_term() == 200);
}

TEST_CASE("a term can be pushed no further than a year beyond the clock", "[term]") {
  Harness h({}, 1'700'000'000 + 366 * 86'400);  // the highest term that peers can bring about
  v1::Hello hello = MakeHello({});
  hello.set_highest_term(h.dispatcher->facts().term() + 1);
  const StreamId stream = h.Attach(hello);
  CHECK(h.ClosedWith(stream).code() == StatusCode::kFailedPrecondition);
  CHECK(h.dispatcher->stepped_down().ok());
}

TEST_CASE("every message of the dispatcher carries its term", "[term]") {
  Harness h;
  const StreamId worker = h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  h.ReportAt(stream, {0, 0});
  h.Advance(seconds(3));
  for (const auto& message : h.attach[stream]) CHECK(message.term() == 100);
  for (const auto& message : h.work[worker]) CHECK(message.term() == 100);
  CHECK(h.attach[stream].size() >= 4);  // welcome, heartbeats
}

TEST_CASE("a stream that begins without a hello is refused", "[stream][hostile]") {
  Harness h;
  const StreamId stream = h.Open();
  h.ReportAt(stream, {0, 0});
  CHECK_THAT(h.ClosedWith(stream).message(), Contains("no hello"));
}

TEST_CASE("a stream that never says anything is closed", "[stream][hostile]") {
  Harness h;
  const StreamId stream = h.Open();
  h.Advance(seconds(11));
  CHECK(h.ClosedWith(stream).code() == StatusCode::kUnavailable);
}

TEST_CASE("streams beyond the limit are told to come back", "[stream][hostile]") {
  DispatcherOptions options;
  options.max_streams = 2;
  Harness h(options);
  h.Open();
  h.Open();
  CHECK(h.ClosedWith(h.Open()).code() == StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace millrace::test
