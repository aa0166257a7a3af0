// Tests of the text in which a worker's state machine describes itself.
#include <catch2/catch.hpp>

#include "common/base/protocol_version.h"
#include "server/worker/machine/worker_machine.h"

namespace millrace {
namespace {

using Catch::Matchers::Contains;

std::string DumpOfWorker() {
  WorkerMachine state(
      {.name = "w", .address = "w:1", .dispatcher = "d:1"}, "nonce", [] { return 0.5; },
      MakeNullLogger());
  Time now{std::chrono::seconds(1)};
  state.Start(now);
  v1::WorkResponse response;
  response.set_term(5);
  response.mutable_id()->set_term(5);
  response.mutable_id()->set_n(2);
  response.add_plans()->set_fingerprint("good");
  response.add_plans()->set_fingerprint("bad");
  state.OnWorkResponse(1, response, now);
  state.OnPlan("good", WorkerMachine::ReadyPlan{nullptr, "digest", "good", ""}, now);
  state.OnPlan("bad", InvalidArgument("no such stage"), now);
  REQUIRE(state.OnStreamOpened(7, {"host3:99"}).ok());
  v1::WantList list;
  list.set_fingerprint("good");
  list.set_protocol(kProtocol);
  list.set_job("train");
  list.set_priority(3);
  v1::Run& run = *list.add_runs();
  run.set_stride(10);
  run.set_examples(10);
  run.set_steps(3);
  state.OnWants(7, list, now);
  state.OnSent(7, now);  // Alive
  const auto task = state.NextBuild(now);
  REQUIRE(task);
  REQUIRE(state.NextBuild(now));
  state.OnBuilt(*task, nullptr, 1000, 0.25, {}, now);  // the consumer's next batch: it is sent
  now = now + std::chrono::milliseconds(500);
  state.Tick(now);
  return state.Dump();
}

TEST_CASE(
    "a dump has plans, streams, what is wanted, built and sent, and is the same for the same "
    "events",
    "[worker][dump]") {
  const std::string dump = DumpOfWorker();
  CHECK(dump == DumpOfWorker());
  CHECK_THAT(dump, Contains("worker 5.2 w at w:1 term 5\n"));
  CHECK_THAT(dump, Contains("dispatcher d:1 attempt 1 open true registered true"));
  CHECK_THAT(dump, Contains("plan bad FAILED"));
  CHECK_THAT(dump, Contains("no such stage"));
  CHECK_THAT(dump, Contains("plan good READY"));
  CHECK_THAT(dump, Contains("stream 7 of host3:99"));
  CHECK_THAT(dump,
             Contains("slots 2 threads 1.000 writes batch control parts 0 wants 0.500 s ago"));
  CHECK_THAT(dump, Contains("job train weight 3"));
  CHECK_THAT(dump, Contains("refused 0: 1 pending, 1 being built, 0 built with 0 bytes, 1 sent"));
}

}  // namespace
}  // namespace millrace
