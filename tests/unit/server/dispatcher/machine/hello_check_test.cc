// Tests of what a Hello, a report and a cursor may say.
#include <catch2/catch.hpp>

#include <limits>

#include "common/base/protocol_version.h"
#include "server/dispatcher/machine/hello_check.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

std::string Refusal(const v1::Hello& hello) {
  Harness h;
  const StreamId stream = h.Attach(hello);
  CHECK(h.dispatcher->facts().sessions().empty());
  CHECK(h.ClosedWith(stream).code() == StatusCode::kFailedPrecondition);
  return h.ClosedWith(stream).message();
}

std::string Refusal(const HelloOptions& options) { return Refusal(MakeHello(options)); }

TEST_CASE("a rank beyond the world size is refused with both", "[hello][hostile]") {
  HelloOptions hello;
  hello.rank = 1u << 31;
  CHECK_THAT(Refusal(hello), Contains("rank 2147483648") && Contains("world size 2"));
}

TEST_CASE("a world size of 0 or without bounds is refused", "[hello][hostile]") {
  HelloOptions hello;
  hello.world_size = 0;
  CHECK_THAT(Refusal(hello), Contains("world size 0"));
  hello.world_size = 0xFFFFFFFF;
  CHECK_THAT(Refusal(hello), Contains("world size 4294967295"));
}

TEST_CASE("an empty nonce is refused", "[hello][hostile]") {
  v1::Hello hello = MakeHello({});
  hello.clear_nonce();
  CHECK_THAT(Refusal(hello), Contains("nonce has 0 bytes: expected 16"));
}

TEST_CASE("a job without a name, or with a line break in it, is refused", "[hello][hostile]") {
  HelloOptions hello;
  hello.job = "";
  CHECK_THAT(Refusal(hello), Contains("no name"));
  hello.job = "x\ny";
  CHECK_THAT(Refusal(hello), Contains("control characters"));
}

TEST_CASE("a control character is found wherever it stands, and nothing else is one",
          "[hello][hostile]") {
  for (std::size_t at = 0; at < 21; ++at) {
    for (int c = 0; c < 256; ++c) {
      HelloOptions hello;
      hello.job = std::string(21, at % 2 == 0 ? 'x' : '\xff');
      hello.job[at] = static_cast<char>(c);
      const Status status = CheckHello(MakeHello(hello), DispatcherOptions());
      REQUIRE(status.ok() == (c >= 0x20 && c != 0x7f));
    }
  }
}

TEST_CASE("a pipeline beyond the limit is refused with the numbers", "[hello][hostile]") {
  HelloOptions hello;
  hello.yaml = std::string(70'000, ' ');
  CHECK_THAT(Refusal(hello), Contains("70000 bytes") && Contains("65536"));
}

TEST_CASE("a session number of this term that was not issued here ends the term, not the trainer",
          "[hello]") {
  Harness h;
  v1::Hello hello = MakeHello({});
  ToProto(SessionId({100, 77}), hello.mutable_session());
  const StreamId stream = h.Attach(hello);
  CHECK(h.ClosedWith(stream).code() == StatusCode::kUnavailable);
  CHECK_THAT(h.ClosedWith(stream).message(), Contains("100.77") && Contains("another dispatcher"));
  CHECK(h.dispatcher->facts().sessions().empty());
  CHECK_FALSE(h.dispatcher->stepped_down().ok());
  CHECK(h.dispatcher->seen_term() == 100);  // the next term is higher
}

TEST_CASE("an admitted session without a number is refused", "[hello][hostile]") {
  v1::Hello hello = MakeHello({});
  hello.set_admitted(true);
  CHECK_THAT(Refusal(hello), Contains("without a session number"));
}

TEST_CASE("a term that no clock gives is refused, and the dispatcher goes on", "[hello][hostile]") {
  Harness h;
  v1::Hello hello = MakeHello({});
  hello.set_highest_term(~std::uint64_t{0});
  const StreamId stream = h.Attach(hello);
  CHECK(h.ClosedWith(stream).code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(h.ClosedWith(stream).message(), Contains("cannot be"));
  CHECK(h.dispatcher->stepped_down().ok());
}

TEST_CASE("a fingerprint that is none is refused before it is kept", "[hello][hostile]") {
  v1::Hello hello = MakeHello({});
  hello.set_cursor_fingerprint(std::string(100'000, 'f'));
  CHECK_THAT(Refusal(hello), Contains("100000 bytes"));
}

TEST_CASE("the words of a report are cut before they are kept, and unknown fields dropped",
          "[report][hostile]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  report.add_failing()->set_reason(std::string(1 << 20, 'x'));
  report.mutable_now()->set_stage(std::string(1 << 20, 'y'));
  report.mutable_now()->set_worker_address(std::string(1 << 20, 'z'));
  report.GetReflection()->MutableUnknownFields(&report)->AddLengthDelimited(
      1000, std::string(1 << 20, 'u'));
  h.Report(stream, report);
  REQUIRE(h.IsOpen(stream));
  const SessionFacts& session = h.dispatcher->facts().sessions().begin()->second;
  REQUIRE(session.report);
  CHECK(session.report->ByteSizeLong() < 20'000);
  CHECK(session.report->failing(0).reason().starts_with("xxx"));
}

TEST_CASE("a report with more counts than there are reasons is refused", "[report][hostile]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  for (int i = 0; i < 64; ++i) report.mutable_counters()->add_pieces_lost();
  h.Report(stream, report);
  CHECK(h.IsOpen(stream));
  report.mutable_counters()->add_pieces_lost();
  h.Report(stream, report);
  CHECK_THAT(h.ClosedWith(stream).message(), Contains("65 of lost pieces"));
}

TEST_CASE("trainers of this protocol are welcome, others are told both", "[hello][versions]") {
  v1::Hello hello = MakeHello(HelloOptions{});
  hello.set_protocol(kProtocol);
  CHECK(CheckHello(hello, {}).ok());
  for (const std::uint32_t protocol : {kProtocol - 1, kProtocol + 1}) {
    hello.set_protocol(protocol);
    const Status status = CheckHello(hello, {});
    CHECK(status.code() == StatusCode::kFailedPrecondition);
    CHECK_THAT(status.message(),
               Contains("the trainer speaks protocol " + std::to_string(protocol) +
                        "; this build speaks " + std::to_string(kProtocol) + ": update"));
  }
}

TEST_CASE("a priority outside of its bounds is refused with the numbers", "[hello]") {
  v1::Hello hello = MakeHello(HelloOptions{});
  hello.set_priority(1000);
  CHECK(CheckHello(hello, {}).ok());
  hello.set_priority(1001);
  CHECK_THAT(CheckHello(hello, {}).message(), Contains("1001") && Contains("1000"));
}

TEST_CASE("consumers and jobs beyond their limits are told to come back, those of before stay",
          "[hello][limits]") {
  DispatcherOptions options;
  options.max_sessions = 3;
  options.max_jobs = 2;
  Harness h(options);
  const StreamId first = h.Attach(HelloOptions{.job = "a"});
  h.Attach(HelloOptions{.job = "b", .nonce = 'b'});
  const StreamId third_job = h.Attach(HelloOptions{.job = "c", .nonce = 'c'});
  CHECK(h.ClosedWith(third_job).code() == StatusCode::kResourceExhausted);
  CHECK_THAT(h.ClosedWith(third_job).message(), Contains("2 jobs") && Contains("jobs end"));
  CHECK(h.IsOpen(h.Attach(HelloOptions{.job = "a", .rank = 1, .nonce = 'd'})));
  const StreamId fourth = h.Attach(HelloOptions{.job = "b", .rank = 1, .nonce = 'e'});
  CHECK(h.ClosedWith(fourth).code() == StatusCode::kResourceExhausted);
  CHECK_THAT(h.ClosedWith(fourth).message(), Contains("3 consumers"));
  CHECK(h.IsOpen(first));
  // A known session may come back on another stream.
  h.Break(first);
  CHECK(h.IsOpen(h.Attach(HelloOptions{.job = "a"})));
}

TEST_CASE("workers of this protocol are taken, others are told both", "[work][versions]") {
  v1::WorkRequest request;
  request.set_nonce(std::string(16, 'w'));
  request.mutable_self()->set_address("w1:7701");
  request.set_protocol(kProtocol);
  CHECK(CheckWorkRequest(request).ok());
  for (const std::uint32_t protocol : {kProtocol - 1, kProtocol + 1}) {
    request.set_protocol(protocol);
    CHECK(CheckWorkRequest(request).code() == StatusCode::kFailedPrecondition);
    CHECK_THAT(CheckWorkRequest(request).message(), Contains("worker speaks protocol"));
  }
}

TEST_CASE("what a worker says too long is refused where it names, and cut where it explains",
          "[work][hostile]") {
  v1::WorkRequest good;
  good.set_protocol(kProtocol);
  good.set_nonce(std::string(16, 'w'));
  good.set_name("w1");
  good.mutable_self()->set_address("w1:7701");
  const std::string longest(1 << 20, 'x');
  v1::WorkRequest bad = good;
  SECTION("a version") { bad.set_version(longest); }
  SECTION("a socket") { bad.mutable_self()->set_unix_socket(longest); }
  SECTION("a dataset's id") { (*bad.mutable_datasets())[longest]; }
  SECTION("a dataset's digest") { (*bad.mutable_datasets())["d"].set_digest(longest); }
  SECTION("a file") { (*bad.mutable_datasets())["d"].add_file_list()->set_name(longest); }
  SECTION("a plan") { bad.add_plans()->set_fingerprint(longest); }
  SECTION("a stage") { bad.add_build()->set_stage(longest); }
  SECTION("an object of a plugin") { bad.add_plugins()->set_object(longest); }
  SECTION("plugins without end") {
    for (int i = 0; i < 5000; ++i) bad.add_plugins();
  }
  SECTION("processes without end") {
    for (int i = 0; i < 5000; ++i) bad.add_plugins()->add_processes();
  }
  CHECK(CheckWorkRequest(good).ok());
  CHECK(CheckWorkRequest(bad).code() == StatusCode::kInvalidArgument);
  good.add_plans()->set_error(longest);
  (*good.mutable_datasets())["d"].set_error(longest);
  REQUIRE(CheckWorkRequest(good).ok());
  CHECK(Trimmed(good).ByteSizeLong() < 10'000);
}

TEST_CASE("a world size that does not divide the global size is refused with both", "[hello]") {
  HelloOptions hello;
  hello.yaml = "examples=80\nglobal_size=8\n";
  hello.world_size = 3;
  CHECK_THAT(Refusal(hello), Contains("8") && Contains("3"));
}

TEST_CASE("a start beyond the epoch is refused with the numbers", "[hello]") {
  HelloOptions hello;
  hello.start = {0, 80};
  CHECK_THAT(Refusal(hello), Contains("example 80") && Contains("79"));
}

TEST_CASE("a start with nothing left but a dropped tail is moved to the next epoch", "[hello]") {
  Harness h;
  HelloOptions hello;
  hello.start = {2, 76};
  const StreamId stream = h.Attach(hello);
  REQUIRE(h.WelcomeOn(stream) != nullptr);
  CHECK(FromProto(h.WelcomeOn(stream)->start()) == Position{3, 0});
}

TEST_CASE("a pipeline that cannot be compiled ends the session with its error", "[hello]") {
  HelloOptions hello;
  hello.yaml = "error=pipeline:3:7: expected bfs";
  CHECK(Refusal(hello) == "pipeline:3:7: expected bfs");
}

TEST_CASE("a cursor of another dataset is refused, naming that half", "[hello][cursor]") {
  v1::Hello hello = MakeHello({});
  const auto plan = CompileFake(hello.pipeline()).value();
  Fingerprint cursor = plan->order_fingerprint();
  cursor.dataset.low ^= 1;
  hello.set_cursor_fingerprint(cursor.ToString());
  const std::string message = Refusal(hello);
  CHECK_THAT(message, Contains("its dataset has digest " + cursor.dataset.ToHex()) &&
                          Contains(plan->order_fingerprint().dataset.ToHex()));
  CHECK_THAT(message, !Contains("its pipeline"));
}

TEST_CASE("a cursor of another pipeline names the options where a record is kept",
          "[hello][cursor]") {
  Harness h;
  const StreamId old = h.Attach(HelloOptions{.job = "old", .yaml = Yaml("seed=3\n")});
  h.Bye(old);
  v1::Hello hello = MakeHello({.job = "new", .yaml = Yaml("seed=4\n"), .nonce = 'b'});
  v1::PipelineText text;
  text.set_yaml(Yaml("seed=3\n"));
  hello.set_cursor_fingerprint(CompileFake(text).value()->order_fingerprint().ToString());
  const StreamId stream = h.Attach(hello);
  CHECK_THAT(h.ClosedWith(stream).message(), Contains("seed=3 there, 4 here"));
}

TEST_CASE("a cursor of an unknown pipeline is refused with both digests", "[hello][cursor]") {
  v1::Hello hello = MakeHello({});
  Fingerprint cursor = CompileFake(hello.pipeline()).value()->order_fingerprint();
  cursor.pipeline.low ^= 1;
  hello.set_cursor_fingerprint(cursor.ToString());
  CHECK_THAT(Refusal(hello), Contains("its pipeline has digest " + cursor.pipeline.ToHex()));
}

TEST_CASE("differing options are listed from both sides", "[cursor]") {
  CHECK(DifferentOptions("a=1\nb=2\n", "b=3\nc=4\n") ==
        "a=1 there, default here; b=2 there, 3 here; c default there, 4 here");
  CHECK(DifferentOptions("a=1\n", "a=1").empty());
}

TEST_CASE("reports that no session of the plan can make end it with the numbers",
          "[report][hostile]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{});
  v1::Report report;
  SECTION("next is no step") { ToProto(Position{0, 3}, report.mutable_next()); }
  SECTION("next lies before the start") { ToProto(Position{0, ~0ull}, report.mutable_next()); }
  SECTION("an epoch beyond all") { ToProto(Position{~0ull, 0}, report.mutable_next()); }
  SECTION("more members in use than a list can have") {
    ToProto(Position{0, 0}, report.mutable_next());
    report.set_used(1025);
  }
  SECTION("steps of no time that can be") {
    ToProto(Position{0, 0}, report.mutable_next());
    report.set_step_ms(GENERATE(-1.0, std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()));
  }
  SECTION("a step that is past due for no time that can be") {
    ToProto(Position{0, 0}, report.mutable_next());
    report.set_due_seconds(std::numeric_limits<double>::quiet_NaN());
  }
  SECTION("thousands of failing workers") {
    ToProto(Position{0, 0}, report.mutable_next());
    for (int i = 0; i < 9000; ++i) report.add_failing();
  }
  h.Report(stream, report);
  CHECK(h.ClosedWith(stream).code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(h.ClosedWith(stream).message(), Contains("rank 0 of job x"));
  CHECK(h.dispatcher->facts().sessions().empty());
}

TEST_CASE("an empty report from a session that waited is no position", "[report]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{.start = {2, 16}});
  h.Report(stream, v1::Report());
  CHECK(h.IsOpen(stream));
}

TEST_CASE("the difference may lie beyond the files that a worker lists", "[work][dataset]") {
  const auto file = [](const char* name) {
    v1::FileEntry entry;
    entry.set_name(name);
    return entry;
  };
  v1::DatasetState here;
  *here.add_file_list() = file("a.bin");
  *here.add_file_list() = file("b.bin");
  v1::DatasetState there;
  *there.add_file_list() = file("a.bin");
  there.set_files(1);
  CHECK(FirstDifference(here, there) == "file 'b.bin' is only on the dispatcher");
  there.set_files(2);
  CHECK(FirstDifference(here, there) ==
        "the first 1 files are the same, a later one differs: compare the folders");
  *there.add_file_list() = file("b.bin");
  *there.add_file_list() = file("c.bin");
  there.set_files(4);
  CHECK(FirstDifference(here, there) == "file 'c.bin' is only on the worker");
}

}  // namespace
}  // namespace millrace::test
