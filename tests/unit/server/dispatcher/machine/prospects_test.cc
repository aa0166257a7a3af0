// When a session gives up hope: no worker is left that can serve it.
#include <catch2/catch.hpp>

#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

constexpr auto kDamage = "dataset 'stdlib' has damaged files (b.bin: cut off)";

void FailPlan(Harness& h, StreamId worker, StatusCode code = StatusCode::kDataLoss) {
  v1::PlanState& plan = *h.workers[worker].mutable_plans(0);
  plan.set_phase(v1::FAILED);
  plan.set_error(kDamage);
  plan.set_error_code(static_cast<std::uint32_t>(code));
  h.Work(worker, h.workers[worker]);
}

void AddRefusal(const Harness& h, v1::Report& report, const std::string& name, StatusCode code) {
  v1::Failing& failing = *report.add_failing();
  ToProto(h.dispatcher->facts().FindWorkerByNonce(name + "..............")->id,
          failing.mutable_worker());
  failing.set_reason("batch at 0:0: " + name + " cannot");
  failing.set_code(static_cast<std::uint32_t>(code));
}

v1::Report Wanting(std::uint32_t window) {
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  report.set_window(window);
  return report;
}

TEST_CASE("all ranks of a job end where no worker is left whose files are whole", "[prospects]") {
  Harness h;
  const StreamId w1 = h.AddWorker("w1");
  const StreamId w2 = h.AddWorker("w2");
  const StreamId first = h.Attach(HelloOptions{.rank = 0, .nonce = 'a'});
  const StreamId second = h.Attach(HelloOptions{.rank = 1, .nonce = 'b'});
  FailPlan(h, w1);
  h.Report(first, {0, 0}, 8);
  REQUIRE_FALSE(h.LeasesOn(first).empty());
  for (const auto& lease : h.LeasesOn(first)) CHECK(lease.worker().address() == "w2:7701");
  FailPlan(h, w2);
  h.Report(second, {0, 0}, 8);
  for (const StreamId stream : {first, second}) {
    CHECK(h.ClosedWith(stream).code() == StatusCode::kDataLoss);
    CHECK_THAT(h.ClosedWith(stream).message(), Contains("b.bin"));
    CHECK_THAT(h.ClosedWith(stream).message(), Contains("w1 at w1:7701"));
    CHECK_THAT(h.ClosedWith(stream).message(), Contains("w2 at w2:7701"));
  }
}

TEST_CASE("a refusal for good counts as a damaged worker before the worker reports it",
          "[prospects]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId w2 = h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{});
  v1::Report report = Wanting(8);
  AddRefusal(h, report, "w1", StatusCode::kDataLoss);
  h.Report(stream, report);
  CHECK(h.IsOpen(stream));
  for (const auto& lease : h.LeasesOn(stream)) CHECK(lease.worker().address() == "w2:7701");
  FailPlan(h, w2);
  report.set_window(16);
  h.Report(stream, report);
  CHECK(h.ClosedWith(stream).code() == StatusCode::kDataLoss);
  CHECK_THAT(h.ClosedWith(stream).message(), Contains("w1 cannot"));
}

TEST_CASE("a batch that no worker can ever build ends the job with the reason", "[prospects]") {
  const StatusCode code = GENERATE(StatusCode::kOutOfRange, StatusCode::kInternal);
  Harness h;
  h.AddWorker("w1");
  h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{});
  v1::Report report = Wanting(8);
  AddRefusal(h, report, "w1", code);
  AddRefusal(h, report, "w2", code);
  h.Report(stream, report);
  // A consumer ends only at some codes, and this is one of them.
  CHECK(h.ClosedWith(stream).code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(h.ClosedWith(stream).message(), Contains("w1 cannot"));
}

TEST_CASE("failures that may pass end nothing, and go before those for good", "[prospects]") {
  Harness h;
  h.AddWorker("w1");
  h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  v1::Report report = Wanting(0);
  AddRefusal(h, report, "w1", StatusCode::kDataLoss);
  h.Report(stream, report);
  h.Advance(seconds(1));
  AddRefusal(h, report, "w2", StatusCode::kOk);
  report.set_window(8);
  h.Report(stream, report);
  CHECK(h.IsOpen(stream));
  REQUIRE_FALSE(h.LeasesOn(stream).empty());
  for (const auto& lease : h.LeasesOn(stream)) CHECK(lease.worker().address() == "w2:7701");
}

TEST_CASE("a job waits for workers that may still come to serve it", "[prospects]") {
  Harness h;
  const StreamId w1 = h.AddWorker("w1");
  const StreamId w2 = h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  FailPlan(h, w1);
  v1::WorkRequest& other = h.workers[w2];
  SECTION("one that compiles") { other.mutable_plans(0)->set_phase(v1::COMPILING); }
  SECTION("one that indexes") {
    other.clear_plans();
    other.mutable_datasets()->at("stdlib").clear_digest();
  }
  SECTION("one that was not told of the plan yet") { other.clear_plans(); }
  SECTION("one that is silent, until it is forgotten") {
    h.StopWorker(w2);
    h.Advance(seconds(5));
    h.Report(stream, {0, 0}, 8);
    CHECK(h.IsOpen(stream));
    h.Advance(seconds(60));
    h.Report(stream, {0, 0}, 8);
    CHECK(h.ClosedWith(stream).code() == StatusCode::kDataLoss);
    return;
  }
  h.Work(w2, other);
  h.Report(stream, {0, 0}, 8);
  CHECK(h.IsOpen(stream));
  CHECK(h.LeasesOn(stream).empty());
}

TEST_CASE("a plan that fails of something else than damage lets the job wait", "[prospects]") {
  Harness h;
  const StreamId w1 = h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  FailPlan(h, w1, StatusCode::kFailedPrecondition);
  h.Report(stream, {0, 0}, 8);
  CHECK(h.IsOpen(stream));
  CHECK_THAT(h.WhyOn(stream), Contains("its plan failed"));
}

}  // namespace
}  // namespace millrace::test
