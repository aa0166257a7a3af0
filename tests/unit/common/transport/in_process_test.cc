#include <catch2/catch.hpp>

#include "tests/support/in_process.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace {
namespace {

using test::Recorder;
using test::TestDispatcher;

TEST_CASE("a killed process breaks its streams in both roles and listens no more", "[in_process]") {
  InProcessNetwork network;
  auto dispatcher = std::make_shared<TestDispatcher>();
  network.AddDispatcher("d:1", dispatcher);
  auto connector = network.MakeConnector("client:1");
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = connector->Attach("d:1", client);
  auto server = dispatcher->attached.Wait();
  const bool kill_client = GENERATE(false, true);
  network.Kill(kill_client ? "client:1" : "d:1");
  CHECK(client->WaitClosed()->code() == StatusCode::kUnavailable);
  CHECK(server.recorder->WaitClosed()->code() == StatusCode::kUnavailable);
  auto again = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up_again = connector->Attach("d:1", again);
  if (!kill_client) CHECK(again->WaitClosed()->code() == StatusCode::kUnavailable);
}

TEST_CASE("a paused process keeps its streams and delivers later what was sent", "[in_process]") {
  InProcessNetwork network;
  auto dispatcher = std::make_shared<TestDispatcher>();
  network.AddDispatcher("d:1", dispatcher);
  auto connector = network.MakeConnector("client:1");
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = connector->Attach("d:1", client);
  auto server = dispatcher->attached.Wait();
  network.SetPaused("d:1", true);
  v1::AttachRequest request;
  request.mutable_hello()->set_job("x");
  up->Write(request);
  network.SetPaused("d:1", false);
  CHECK(server.recorder->Next()->hello().job() == "x");
  CHECK(client->WaitForWrites(1));
}

}  // namespace
}  // namespace millrace
