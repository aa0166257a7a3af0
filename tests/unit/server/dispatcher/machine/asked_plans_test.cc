// Plans that the dispatcher cannot compile, because it lacks a plugin or its data are damaged:
// workers are asked for them.
#include <catch2/catch.hpp>

#include <string>

#include "common/transport/convert/places.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::test {
namespace {

using Catch::Contains;

const std::string kPlugin = "plugin:asr";

/// A dispatcher that lacks the plugin.
struct Asking : Harness {
  Asking() { hold_compiles = true; }

  /// Answers a compilation as a process without the plugin does.
  void Lack() {
    REQUIRE(compiles.size() == 1);
    REQUIRE_FALSE(compiles.front().answer);
    const std::string key = compiles.front().key;
    compiles.clear();
    Do(dispatcher->OnPluginsMissing(key, {kPlugin}, now));
  }
  /// Reads the answer of a worker, as the plan that the pipeline is in these tests.
  void Read() {
    REQUIRE(compiles.size() == 1);
    REQUIRE(compiles.front().answer);
    const CompilePlan compile = compiles.front();
    compiles.clear();
    Do(dispatcher->OnPlanCompiled(compile.key, CompileFake(compile.pipeline), now));
  }
  StreamId AddWith(const std::string& name, bool has_plugin) {
    const StreamId worker = AddWorker(name);
    v1::WorkRequest& report = workers[worker];
    report.clear_plans();
    if (has_plugin) {
      (*report.mutable_datasets())[kPlugin].set_digest(std::string(32, '4'));
    }
    Work(worker, report);
    return worker;
  }
  StreamId Consumer() {
    const StreamId stream = Attach(HelloOptions{.world_size = 1});
    talking.push_back(stream);
    return stream;
  }
  /// The name under which a worker is asked; empty if it is asked nothing.
  std::string Question(StreamId worker) {
    for (const v1::PlanSpec& spec : LastWork(worker).plans()) {
      if (spec.asked()) return spec.fingerprint();
    }
    return {};
  }
  void Answer(StreamId worker, const std::string& question) {
    v1::WorkRequest report = workers[worker];
    v1::PlanAnswer& answer = *report.add_answers();
    answer.set_question(question);
    answer.mutable_outline()->set_fingerprint("theirs");
    Work(worker, report);
  }
  /// Lets the worker report for good that it cannot compile the plan.
  void Fail(StreamId worker, StatusCode code, const std::string& why) {
    v1::PlanState& state = *workers[worker].add_plans();
    state.set_fingerprint(Question(worker));
    state.set_phase(v1::FAILED);
    state.set_error_code(static_cast<std::uint32_t>(code));
    state.set_error(why);
    Work(worker, workers[worker]);
  }
};

TEST_CASE("a worker that has the plugin is asked, and its answer admits the job", "[asked_plans]") {
  Asking h;
  const StreamId without = h.AddWith("w1", false);
  const StreamId with = h.AddWith("w2", true);
  const StreamId consumer = h.Consumer();
  h.Lack();
  CHECK(h.Question(without).empty());
  const std::string question = h.Question(with);
  REQUIRE_FALSE(question.empty());
  h.Advance(seconds(1));
  CHECK(h.WhyOn(consumer) ==
        "the dispatcher has no plugin:asr, and asks worker w2: it compiles the plan");
  h.Answer(with, question);
  h.Read();
  CHECK(h.WelcomeOn(consumer) != nullptr);
  h.Advance(seconds(1));
  CHECK(h.Question(with).empty());
}

TEST_CASE("a worker that comes later is asked too", "[asked_plans]") {
  Asking h;
  const StreamId consumer = h.Consumer();
  h.Lack();
  h.Advance(seconds(30));
  CHECK(h.WhyOn(consumer) ==
        "the dispatcher has no plugin:asr, and no worker is connected that could have it");
  const StreamId worker = h.AddWith("w1", true);
  CHECK_FALSE(h.Question(worker).empty());
}

TEST_CASE("an answer to an earlier question counts for nothing", "[asked_plans]") {
  Asking h;
  const StreamId worker = h.AddWith("w1", true);
  h.Consumer();
  h.Lack();
  const std::string first = h.Question(worker);
  h.Do(h.dispatcher->OnDataset("other", {}, h.now));  // plans are tried again
  h.Lack();
  CHECK(h.Question(worker) != first);
  h.Answer(worker, first);
  CHECK(h.compiles.empty());
  h.Answer(worker, h.Question(worker));
  CHECK(h.compiles.size() == 1);
  h.Answer(worker, first);
  CHECK(h.compiles.size() == 1);
}

TEST_CASE("columns that a worker lacks are measured, and then it is asked again", "[asked_plans]") {
  Asking h;
  const StreamId worker = h.AddWith("w1", true);
  const StreamId consumer = h.Consumer();
  h.Lack();
  const std::string first = h.Question(worker);
  h.Answer(worker, first);
  REQUIRE(h.compiles.size() == 1);
  const std::string key = h.compiles.front().key;
  h.compiles.clear();
  h.Do(h.dispatcher->OnColumnsMissing(key, Harness::Want("mel.length"), h.now));
  CHECK(h.Question(worker).empty());
  h.Advance(seconds(1));
  CHECK_THAT(h.WhyOn(consumer), Contains("measuring column mel.length"));
  while (h.finishes.empty()) REQUIRE_FALSE(h.Measure(worker).empty());
  h.Do(h.dispatcher->OnColumnsKept(h.finishes[0].key, OkStatus(), h.now));
  h.Lack();
  CHECK_FALSE(h.Question(worker).empty());
  CHECK(h.Question(worker) != first);
}

TEST_CASE("a job ends if all workers with the plugin fail to compile", "[asked_plans]") {
  Asking h;
  const StreamId one = h.AddWith("w1", true);
  const StreamId two = h.AddWith("w2", true);
  h.AddWith("w3", false);
  const StreamId consumer = h.Consumer();
  h.Lack();
  h.Fail(one, StatusCode::kFailedPrecondition, "plugin asr:Corpus: no such name");
  h.Advance(seconds(20));
  CHECK(h.IsOpen(consumer));
  const bool for_good = GENERATE(true, false);
  if (for_good) {
    h.Fail(two, StatusCode::kFailedPrecondition, "plugin asr:Corpus: no such name");
  } else {
    h.Fail(two, StatusCode::kUnavailable, "dataset 'speech' is being opened");
  }
  h.Advance(seconds(2));
  if (for_good) {
    CHECK(h.ClosedWith(consumer) ==
          FailedPrecondition("worker w1 and 1 others: plugin asr:Corpus: no such name"));
  } else {
    CHECK_THAT(h.WhyOn(consumer), Contains("asks worker w2: dataset 'speech' is being opened"));
  }
}

TEST_CASE("a job ends if no worker has the plugin, once all have had time to come back",
          "[asked_plans]") {
  Asking h;
  h.AddWith("w1", false);
  const StreamId consumer = h.Consumer();
  h.Lack();
  h.Advance(seconds(5));
  CHECK(h.WhyOn(consumer) == "the dispatcher has no plugin:asr, and none of 1 workers has it");
  h.Advance(seconds(7));
  CHECK(h.ClosedWith(consumer).code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(h.ClosedWith(consumer).message(), Contains("--plugin asr=FOLDER"));
}

TEST_CASE("a plan of workers that have changed the plugin since is not given to a new job",
          "[asked_plans]") {
  Asking h;
  const StreamId worker = h.AddWith("w1", true);
  const StreamId consumer = h.Consumer();
  h.Lack();
  h.Answer(worker, h.Question(worker));
  h.Read();
  REQUIRE(h.WelcomeOn(consumer) != nullptr);
  const bool used = GENERATE(true, false);
  if (!used) h.Bye(consumer);
  // The plans of these tests are over stdlib.
  (*h.workers[worker].mutable_datasets())["stdlib"].set_digest(std::string(32, '9'));
  h.Work(worker, h.workers[worker]);
  h.Attach(HelloOptions{.job = "y", .world_size = 1, .nonce = 'b'});
  CHECK(h.compiles.size() == (used ? 0 : 1));
}

/// A dispatcher that began anew over damaged data, while a job of an earlier one runs.
struct Damaged : Asking {
  explicit Damaged(bool job_runs = true) {
    hold_compiles = false;
    first = AddWorker("w1");
    const StreamId consumer = Consumer();
    REQUIRE(WelcomeOn(consumer) != nullptr);
    session = SessionOn(consumer);
    if (!job_runs) {
      Bye(consumer);
      talking.clear();
    }
    const v1::WorkRequest report = workers[first];
    workers.clear();
    talking.clear();
    hold_compiles = true;
    Restart();
    first = Back("w1", report.datasets().at("stdlib").digest());
  }

  /// A worker with the dataset of the plans, before it has a plan.
  StreamId Back(const std::string& name, const std::string& digest) {
    const StreamId worker = AddWorker(name);
    workers[worker].clear_plans();
    (*workers[worker].mutable_datasets())["stdlib"].set_digest(digest);
    Work(worker, workers[worker]);
    return worker;
  }
  StreamId ComeBack() {
    v1::Hello hello = MakeHello(HelloOptions{.world_size = 1});
    ToProto(session, hello.mutable_session());
    hello.set_admitted(true);
    const StreamId stream = Attach(hello);
    talking.push_back(stream);
    return stream;
  }
  /// Answers a compilation as a process does whose copy of the dataset is damaged.
  void Damage() {
    REQUIRE_FALSE(compiles.empty());
    REQUIRE_FALSE(compiles.front().answer);
    const std::string key = compiles.front().key;
    compiles.pop_front();
    Do(dispatcher->OnDataDamaged(key, DataLoss("a.bin is cut off"), {"stdlib"}, now));
  }
  void AnswerAs(StreamId worker, const std::string& fingerprint) {
    v1::WorkRequest report = workers[worker];
    v1::PlanAnswer& answer = *report.add_answers();
    answer.set_question(Question(worker));
    answer.mutable_outline()->set_fingerprint(fingerprint);
    Work(worker, report);
  }
  static std::string OfTheJob() {
    v1::PipelineText text;
    text.set_yaml(Yaml());
    return (*CompileFake(text))->fingerprint().ToString();
  }

  StreamId first = 0;
  SessionId session;
};

TEST_CASE("a job of an earlier dispatcher goes on with workers if this one's data are damaged",
          "[asked_plans]") {
  Damaged h;
  h.Damage();
  const StreamId consumer = h.ComeBack();
  h.Advance(seconds(1));
  CHECK(h.WhyOn(consumer) ==
        "the dispatcher's data are damaged (a.bin is cut off), and asks worker w1: it compiles the "
        "plan");
  REQUIRE_FALSE(h.Question(h.first).empty());
  h.AnswerAs(h.first, Damaged::OfTheJob());
  h.Read();
  CHECK(h.WelcomeOn(consumer) != nullptr);
  h.Advance(seconds(30));
  CHECK(h.IsOpen(consumer));
}

TEST_CASE("a job that no earlier dispatcher began is refused if data are damaged",
          "[asked_plans]") {
  Damaged h(/*job_runs=*/false);
  CHECK(h.compiles.empty());
  const StreamId consumer = h.Attach(HelloOptions{.job = "new", .world_size = 1, .nonce = 'n'});
  h.Damage();
  CHECK(h.ClosedWith(consumer) == DataLoss("a.bin is cut off"));
}

TEST_CASE("the answer of a worker with other data is not taken for the plan of a job",
          "[asked_plans]") {
  Damaged h;
  const StreamId other = h.Back("w2", std::string(32, '9'));
  h.Damage();
  const StreamId consumer = h.ComeBack();
  h.AnswerAs(other, "of other data");
  CHECK(h.compiles.empty());
  h.Advance(seconds(5));
  h.AnswerAs(other, "of other data");
  CHECK(h.compiles.empty());
  CHECK(h.IsOpen(consumer));
  // If the right one does not come, the job is told what is wrong with the one that there is.
  h.Advance(seconds(6));
  h.AnswerAs(other, "of other data");
  CHECK(h.compiles.size() == 1);
}

TEST_CASE("a job ends if the data of the dispatcher and of all workers are damaged",
          "[asked_plans]") {
  Damaged h;
  const StreamId two = h.Back("w2", DatasetDigest());
  h.Damage();
  const StreamId consumer = h.ComeBack();
  h.Fail(h.first, StatusCode::kDataLoss, "b.bin is cut off");
  SECTION("the other one is not back yet") {
    h.Fail(two, StatusCode::kDataLoss, "c.bin is cut off");
    h.Advance(seconds(5));
    CHECK(h.IsOpen(consumer));
    h.Advance(seconds(7));
    CHECK(h.ClosedWith(consumer).code() == StatusCode::kDataLoss);
    CHECK(h.ClosedWith(consumer).message() ==
          "no worker is left that can serve the plan: worker w1 at w1:7701: b.bin is cut off; "
          "worker w2 at w2:7701: c.bin is cut off; the dispatcher: a.bin is cut off");
  }
  SECTION("one cannot open its copy") {
    v1::DatasetState& state = (*h.workers[two].mutable_datasets())["stdlib"];
    state.clear_digest();
    state.set_error("no index");
    h.Work(two, h.workers[two]);
    h.Advance(seconds(12));
    CHECK_THAT(h.ClosedWith(consumer).message(),
               Contains("worker w2 at w2:7701: dataset stdlib: no index"));
  }
  SECTION("one may serve it") {
    h.Advance(seconds(30));
    CHECK(h.IsOpen(consumer));
  }
  SECTION("one serves the plan still, though its dataset lies elsewhere by now") {
    v1::PlanState& ready = *h.workers[two].add_plans();
    ready.set_fingerprint(Damaged::OfTheJob());
    ready.set_phase(v1::READY);
    h.Fail(two, StatusCode::kDataLoss, "c.bin is cut off");
    h.Advance(seconds(30));
    CHECK(h.IsOpen(consumer));
  }
  SECTION("one lacks the dataset") {
    h.workers[two].clear_datasets();
    h.Work(two, h.workers[two]);
    h.Advance(seconds(12));
    CHECK(h.ClosedWith(consumer).code() == StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace millrace::test
