// Tests of which plans are compiled, compiled again and kept.
#include <catch2/catch.hpp>

#include "harness.h"
#include "server/dispatcher/machine/plan_requests.h"

namespace millrace::test {
namespace {

using Catch::Contains;

TEST_CASE("one pipeline is compiled once for all its ranks", "[plans]") {
  Harness h;
  h.hold_compiles = true;
  h.Attach(HelloOptions{.rank = 0, .nonce = 'a'});
  h.Attach(HelloOptions{.rank = 1, .nonce = 'b'});
  CHECK(h.compiles.size() == 1);
}

TEST_CASE("a plan that waited for a dataset is compiled as soon as one is open", "[plans]") {
  Harness h;
  h.hold_compiles = true;
  h.Attach(HelloOptions{.yaml = Yaml("later=dataset 'stdlib' is being opened\n")});
  REQUIRE(h.compiles.size() == 1);
  h.AnswerCompiles();
  REQUIRE(h.compiles.empty());
  h.Do(h.dispatcher->OnDataset("stdlib", v1::DatasetState(), h.now));
  CHECK(h.compiles.size() == 1);
}

TEST_CASE("a plan that cannot be compiled yet is tried again", "[plans]") {
  Harness h;
  const StreamId stream = h.Attach(HelloOptions{.yaml = Yaml("later=the index is being built\n")});
  CHECK_THAT(h.WhyOn(stream), Contains("the index is being built"));
  h.hold_compiles = true;
  h.talking = {stream};
  h.Advance(seconds(4));
  CHECK(h.compiles.size() == 1);
  CHECK(h.IsOpen(stream));
}

TEST_CASE("beyond the limit of plans the one that was needed longest ago goes", "[plans]") {
  DispatcherOptions options;
  options.max_plans = 2;
  Transition transition(options, {Time{seconds(1000)}, 1'700'000'000}, [](const Update&) {});
  WorkerLists lists(transition);
  Sessions sessions(transition, lists);
  ColumnWork columns(transition);
  PlanRequests plans(transition, sessions, columns);
  const auto ask = [&](const char* key) {
    v1::PipelineText text;
    text.set_yaml(Yaml(std::string("name=") + key + "\n"));
    const bool asked = plans.Request(key, text);
    return asked;
  };
  const auto answer = [&](const char* key) {
    plans.OnCompiled(key, CompileFake(transition.facts().FindPlan(key)->pipeline));
    transition.Begin({transition.now() + milliseconds(250), 1'700'000'000});
  };
  REQUIRE(ask("first"));
  REQUIRE(ask("second"));
  CHECK_FALSE(ask("third"));  // both are being compiled
  answer("second");
  answer("first");
  REQUIRE(ask("third"));
  CHECK(transition.facts().FindPlan("second") == nullptr);
  CHECK(transition.facts().FindPlan("first") != nullptr);
  CHECK(transition.TakeTellWorkers());

  // A plan that a session needs stays, however old it is.
  v1::Hello hello = MakeHello(HelloOptions{});
  transition.Apply(
      SessionOpened{SessionId(transition.NewNumber()), hello, "first", 0, transition.now()});
  CHECK_FALSE(ask("fourth"));
  CHECK(transition.facts().FindPlan("first") != nullptr);
}

}  // namespace
}  // namespace millrace::test
