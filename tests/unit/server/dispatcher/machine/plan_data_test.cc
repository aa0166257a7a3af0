// Plans that need several datasets: which workers get them and build for them, and what is said of
// the others.
#include "server/dispatcher/machine/plan_data.h"

#include <catch2/catch.hpp>

#include <string>

#include "server/dispatcher/machine/status.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

const std::string kMix = Yaml("dataset=a,b\n");

v1::DatasetState& DatasetAt(Harness& h, StreamId worker, const std::string& dataset) {
  return (*h.workers[worker].mutable_datasets())[dataset];
}

/// Adds a worker with both datasets that has not compiled the plan.
StreamId AddUnready(Harness& h, const std::string& name) {
  const StreamId worker = h.AddWorker(name, "w", Yaml("seed=1\n"));
  v1::WorkRequest& report = h.workers[worker];
  report.clear_plans();
  report.clear_datasets();
  for (const char* id : {"a", "b"}) {
    (*report.mutable_datasets())[id].set_digest(DatasetDigest(id));
  }
  h.Work(worker, h.workers[worker]);
  return worker;
}

void Tell(Harness& h, StreamId worker) {
  h.Work(worker, h.workers[worker]);
  h.Advance(seconds(1));  // the next heartbeat tells which plans are missing
}

/// What a consumer is told that wants batches now.
std::string WhyNow(Harness& h, StreamId stream) {
  h.ReportAt(stream, {0, 0});
  return h.WhyOn(stream);
}

TEST_CASE("a plan over two datasets goes to workers that have both, and names them",
          "[plan_data]") {
  Harness h;
  const StreamId both = AddUnready(h, "both");
  const StreamId first = AddUnready(h, "first");
  h.workers[first].mutable_datasets()->erase("b");
  Tell(h, first);
  const StreamId second = AddUnready(h, "second");
  h.workers[second].mutable_datasets()->erase("a");
  Tell(h, second);
  h.Attach(HelloOptions{.yaml = kMix});
  REQUIRE(h.LastWork(both).plans_size() == 1);
  const v1::PlanSpec& plan = h.LastWork(both).plans(0);
  REQUIRE(plan.datasets_size() == 2);
  CHECK(plan.datasets(0) == "a");
  CHECK(plan.datasets(1) == "b");
  CHECK(h.LastWork(first).plans_size() == 0);
  CHECK(h.LastWork(second).plans_size() == 0);
}

TEST_CASE("the status of a worker that is ready says which datasets it lacks", "[plan_data]") {
  Harness h;
  const StreamId worker = AddUnready(h, "w1");
  h.workers[worker].mutable_datasets()->erase("b");
  Tell(h, worker);
  const auto why = [&h] {
    return BuildStatus(*h.dispatcher, h.options, h.now.time).workers(0).why();
  };
  CHECK(why().empty());
  const StreamId stream = h.Attach(HelloOptions{.job = "proofs", .yaml = kMix});
  CHECK(why() == "job proofs: its configuration has no dataset b");
  h.Bye(stream);
  CHECK(why().empty());
}

TEST_CASE("each dataset of a plan is asked for with its own digest", "[plan_data]") {
  const std::string other = GENERATE("a", "b");
  Harness h;
  const StreamId worker = AddUnready(h, "w1");
  h.Attach(HelloOptions{.yaml = kMix});
  CHECK(h.LastWork(worker).plans_size() == 1);
  // Both have the digest of the other one, or one has a digest of nothing.
  const std::string digest =
      GENERATE_COPY(DatasetDigest(other == "a" ? "b" : "a"), std::string(32, '0'));
  DatasetAt(h, worker, other).set_digest(digest);
  Tell(h, worker);
  CHECK(h.LastWork(worker).plans_size() == 0);
  DatasetAt(h, worker, other).set_digest(DatasetDigest(other));
  Tell(h, worker);
  CHECK(h.LastWork(worker).plans_size() == 1);
}

TEST_CASE("a job over two datasets waits, told what is missing, until a worker has both",
          "[plan_data]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{.yaml = kMix});
  CHECK_THAT(WhyNow(h, stream),
             Contains("no worker has the datasets a and b: no worker is connected"));
  const StreamId worker = AddUnready(h, "w1");
  h.workers[worker].mutable_datasets()->erase("b");
  Tell(h, worker);
  CHECK_THAT(WhyNow(h, stream),
             Contains("no worker has the datasets a and b: worker w1 at w1:7701: "
                      "its configuration has no dataset b"));
  DatasetAt(h, worker, "b").set_verifying(0.25);
  Tell(h, worker);
  CHECK_THAT(WhyNow(h, stream), Contains("indexing dataset b: 25 %"));
  DatasetAt(h, worker, "b").set_error("no such folder");
  Tell(h, worker);
  CHECK_THAT(WhyNow(h, stream), Contains("dataset b: no such folder"));
  DatasetAt(h, worker, "b").clear_error();
  DatasetAt(h, worker, "b").set_digest(DatasetDigest("another b"));
  Tell(h, worker);
  CHECK_THAT(WhyNow(h, stream), Contains("its copy of dataset b differs"));
  CHECK(h.ListOn(stream).empty());
  DatasetAt(h, worker, "b").set_digest(DatasetDigest("b"));
  Tell(h, worker);
  CHECK_THAT(WhyNow(h, stream), Contains("it has not begun to compile the plan"));
  h.StopWorker(worker);
  h.AddWorker("w2", "w", kMix);
  h.Advance(seconds(1));
  CHECK_FALSE(h.ListOn(stream).empty());
}

TEST_CASE("of several workers the one with most of a plan's datasets is named", "[plan_data]") {
  const bool first_has_less = GENERATE(true, false);
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{.yaml = kMix});
  const StreamId w1 = AddUnready(h, "w1");
  const StreamId w2 = AddUnready(h, "w2");
  h.workers[first_has_less ? w1 : w2].mutable_datasets()->clear();
  h.workers[first_has_less ? w2 : w1].mutable_datasets()->erase("a");
  Tell(h, w1);
  Tell(h, w2);
  CHECK_THAT(WhyNow(h, stream), Contains(first_has_less ? "worker w2 at" : "worker w1 at") &&
                                    Contains("its configuration has no dataset a (and 1 others)"));
  h.workers[first_has_less ? w2 : w1].mutable_datasets()->clear();
  Tell(h, w1);
  Tell(h, w2);
  CHECK_THAT(WhyNow(h, stream), Contains("its configuration has no datasets a and b"));
}

TEST_CASE("a worker that may get every dataset of a plan keeps hope up", "[plan_data][prospects]") {
  Harness h;
  const StreamId failing = h.AddWorker("w1", "w", kMix);
  const StreamId stream = h.Attach(HelloOptions{.yaml = kMix});
  const StreamId other = AddUnready(h, "w2");
  const auto fail = [&] {
    v1::PlanState& plan = *h.workers[failing].mutable_plans(0);
    plan.set_phase(v1::FAILED);
    plan.set_error("dataset 'b' has damaged files");
    plan.set_error_code(static_cast<std::uint32_t>(StatusCode::kDataLoss));
    h.Work(failing, h.workers[failing]);
    h.ReportAt(stream, {0, 0});
  };
  SECTION("it is indexing one of them") {
    DatasetAt(h, other, "b").clear_digest();
    h.Work(other, h.workers[other]);
    fail();
    CHECK(h.IsOpen(stream));
  }
  SECTION("it has other data of one of them") {
    DatasetAt(h, other, "b").set_digest(std::string(32, '0'));
    h.Work(other, h.workers[other]);
    fail();
    CHECK(h.ClosedWith(stream).code() == StatusCode::kDataLoss);
  }
  SECTION("it lacks one of them") {
    h.workers[other].mutable_datasets()->erase("b");
    h.Work(other, h.workers[other]);
    fail();
    CHECK(h.ClosedWith(stream).code() == StatusCode::kDataLoss);
  }
}

TEST_CASE("a plan that nobody uses is forgotten once any of its datasets changes",
          "[plan_data][plans]") {
  const std::string changed = GENERATE("a", "b", "c");
  Harness h;
  h.Bye(h.Attach(HelloOptions{.yaml = kMix}));
  REQUIRE(h.dispatcher->facts().plans().size() == 1);
  v1::DatasetState state;
  state.set_digest(DatasetDigest(changed));
  h.Do(h.dispatcher->OnDataset(changed, state, h.now));
  CHECK(h.dispatcher->facts().plans().size() == 1);
  state.set_digest(DatasetDigest("other data"));
  h.Do(h.dispatcher->OnDataset(changed, state, h.now));
  CHECK(h.dispatcher->facts().plans().size() == (changed == "c" ? 1 : 0));
}

TEST_CASE("a cursor over other data names all datasets of the mix", "[plan_data]") {
  Harness h;
  v1::Hello hello = MakeHello(HelloOptions{.yaml = kMix});
  Fingerprint cursor = CompileFake(hello.pipeline()).value()->order_fingerprint();
  cursor.dataset.low ^= 1;
  hello.set_cursor_fingerprint(cursor.ToString());
  const StreamId stream = h.Attach(hello);
  CHECK_THAT(h.ClosedWith(stream).message(),
             Contains("its datasets have the joint digest " + cursor.dataset.ToHex()) &&
                 Contains("datasets a and b here have"));
}

TEST_CASE("datasets are listed as people list them", "[plan_data]") {
  const auto named = [](const std::string& ids) {
    v1::PipelineText text;
    text.set_yaml(Yaml("dataset=" + ids + "\n"));
    return NameDatasets(*CompileFake(text).value());
  };
  CHECK(named("a") == "dataset a");
  CHECK(named("a,b") == "datasets a and b");
  CHECK(named("a,b,c") == "datasets a, b and c");
}

}  // namespace
}  // namespace millrace::test
