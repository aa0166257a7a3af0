// When a session gives up hope: no worker is left that can serve it.
#include <catch2/catch.hpp>

#include <fmt/core.h>

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

/// As above, of a batch that the code of a user fails to build. All of a worker are in one entry.
void AddFailedBatch(const Harness& h, v1::Report& report, const std::string& name, Position at) {
  const WorkerId id = h.dispatcher->facts().FindWorkerByNonce(name + "..............")->id;
  v1::Failing* failing = nullptr;
  for (v1::Failing& known : *report.mutable_failing()) {
    if (WorkerId(FromProto(known.worker())) == id) failing = &known;
  }
  if (failing == nullptr) {
    AddRefusal(h, report, name, StatusCode::kAborted);
    failing = report.mutable_failing(report.failing_size() - 1);
  }
  v1::RefusedBatch& batch = *failing->add_refused();
  ToProto(at, batch.mutable_at());
  batch.set_reason(fmt::format("{} cannot build {}", name, at.example));
}

v1::Report AtBegin() {
  v1::Report report;
  ToProto(Position{0, 0}, report.mutable_next());
  return report;
}

TEST_CASE("all ranks of a job end where no worker is left whose files are whole", "[prospects]") {
  Harness h;
  const StreamId w1 = h.AddWorker("w1");
  const StreamId w2 = h.AddWorker("w2");
  const StreamId first = h.Attach(HelloOptions{.rank = 0, .nonce = 'a'});
  const StreamId second = h.Attach(HelloOptions{.rank = 1, .nonce = 'b'});
  FailPlan(h, w1);
  h.ReportAt(first, {0, 0});
  h.Advance(seconds(1));
  CHECK(h.ListOn(first) == std::vector<std::string>{"w2"});
  FailPlan(h, w2);
  h.ReportAt(second, {0, 0});
  for (const StreamId stream : {first, second}) {
    CHECK(h.ClosedWith(stream).code() == StatusCode::kDataLoss);
    CHECK_THAT(h.ClosedWith(stream).message(), Contains("b.bin"));
    CHECK_THAT(h.ClosedWith(stream).message(), Contains("w1 at w1:7701"));
    CHECK_THAT(h.ClosedWith(stream).message(), Contains("w2 at w2:7701"));
  }
}

TEST_CASE("a reason that several workers have is told once, after all their names", "[prospects]") {
  Harness h;
  const StreamId w1 = h.AddWorker("w1");
  const StreamId w2 = h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{});
  FailPlan(h, w1);
  FailPlan(h, w2);
  h.ReportAt(stream, {0, 0});
  CHECK_THAT(h.ClosedWith(stream).message(),
             Contains(std::string("worker w1 at w1:7701, worker w2 at w2:7701: ") + kDamage) &&
                 !Contains(";"));
}

TEST_CASE("a refusal for good counts as a damaged worker before the worker reports it",
          "[prospects]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId w2 = h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{});
  v1::Report report = AtBegin();
  AddRefusal(h, report, "w1", StatusCode::kDataLoss);
  h.Report(stream, report);
  CHECK(h.IsOpen(stream));
  h.Advance(seconds(1));
  CHECK(h.ListOn(stream) == std::vector<std::string>{"w2"});
  FailPlan(h, w2);
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
  v1::Report report = AtBegin();
  AddRefusal(h, report, "w1", code);
  AddRefusal(h, report, "w2", code);
  h.Report(stream, report);
  // A consumer ends only at some codes, and this is one of them.
  CHECK(h.ClosedWith(stream).code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(h.ClosedWith(stream).message(), Contains("w1 cannot"));
}

TEST_CASE("failures that may pass end nothing, and keep a member in its list", "[prospects]") {
  Harness h;
  h.AddWorker("w1");
  h.AddWorker("w2");
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  v1::Report report = AtBegin();
  AddRefusal(h, report, "w1", StatusCode::kDataLoss);
  h.Report(stream, report);
  h.Advance(seconds(1));
  AddRefusal(h, report, "w2", StatusCode::kOk);
  h.Report(stream, report);
  CHECK(h.IsOpen(stream));
  h.Advance(seconds(1));
  CHECK(h.ListOn(stream) == std::vector<std::string>{"w2"});
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
    h.ReportAt(stream, {0, 0});
    CHECK(h.IsOpen(stream));
    h.Advance(seconds(60));
    h.ReportAt(stream, {0, 0});
    CHECK(h.ClosedWith(stream).code() == StatusCode::kDataLoss);
    return;
  }
  h.Work(w2, other);
  h.ReportAt(stream, {0, 0});
  CHECK(h.IsOpen(stream));
  h.Advance(seconds(1));
  CHECK(h.ListOn(stream).empty());
}

TEST_CASE("a plan that fails of something else than damage lets the job wait", "[prospects]") {
  Harness h;
  const StreamId w1 = h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  FailPlan(h, w1, StatusCode::kFailedPrecondition);
  h.ReportAt(stream, {0, 0});
  CHECK(h.IsOpen(stream));
  CHECK_THAT(h.WhyOn(stream), Contains("its plan failed"));
}

TEST_CASE("a batch that two workers could not build with a user's code ends the job",
          "[prospects][plugin]") {
  Harness h;
  for (const char* name : {"w1", "w2", "w3"}) h.AddWorker(name);
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  v1::Report report = AtBegin();
  AddFailedBatch(h, report, "w1", {0, 8});
  h.Report(stream, report);
  CHECK(h.IsOpen(stream));
  CHECK(h.ListOn(stream).size() == 3);       // it may build the others
  AddFailedBatch(h, report, "w2", {0, 16});  // another batch
  h.Report(stream, report);
  CHECK(h.IsOpen(stream));
  AddFailedBatch(h, report, "w2", {0, 8});
  h.Report(stream, report);
  CHECK(h.ClosedWith(stream).code() == StatusCode::kDataLoss);
  CHECK_THAT(h.ClosedWith(stream).message(), Contains("three tries failed"));
  CHECK_THAT(h.ClosedWith(stream).message(),
             Contains("w1 cannot build 8") && Contains("w2 cannot build 8"));
  CHECK_THAT(h.ClosedWith(stream).message(), !Contains("cannot build 16"));
}

TEST_CASE("workers that fail to build different batches build each other's",
          "[prospects][plugin]") {
  Harness h;  // 80 examples, and steps of 8
  for (const char* name : {"w1", "w2"}) h.AddWorker(name);
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  v1::Report report = AtBegin();
  AddFailedBatch(h, report, "w1", {0, 16});
  AddFailedBatch(h, report, "w2", {0, 40});
  h.Report(stream, report);
  CHECK(h.IsOpen(stream));
  h.Advance(seconds(1));
  CHECK(h.ListOn(stream).size() == 2);
}

TEST_CASE("a batch that the only ready worker failed to build waits for another worker",
          "[prospects][plugin]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId w2 = h.AddWorker("w2");
  h.workers[w2].mutable_plans(0)->set_phase(v1::COMPILING);
  const StreamId stream = h.Attach(HelloOptions{});
  h.talking = {stream};
  h.Work(w2, h.workers[w2]);
  v1::Report report = AtBegin();
  AddFailedBatch(h, report, "w1", {0, 0});
  for (int n = 0; n < 3; ++n) h.Report(stream, report);
  CHECK(h.IsOpen(stream));
  h.Advance(seconds(1));
  h.Report(stream, report);
  CHECK(h.ListOn(stream) == std::vector<std::string>{"w1"});
  CHECK_THAT(h.WhyOn(stream), Contains("have failed to build its next batch"));
  h.workers[w2].mutable_plans(0)->set_phase(v1::READY);
  h.Work(w2, h.workers[w2]);
  CHECK(h.ListOn(stream).size() == 2);
}

TEST_CASE("a batch that the last worker failed to build ends the job", "[prospects][plugin]") {
  Harness h;
  h.AddWorker("w1");
  const StreamId stream = h.Attach(HelloOptions{});
  v1::Report report = AtBegin();
  AddFailedBatch(h, report, "w1", {0, 8});
  h.Report(stream, report);
  CHECK(h.ClosedWith(stream).code() == StatusCode::kDataLoss);
  CHECK_THAT(h.ClosedWith(stream).message(),
             Contains("no worker is left") && Contains("w1 cannot build 8"));
}

}  // namespace
}  // namespace millrace::test
