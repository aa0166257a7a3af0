// The promises of both networks, tested over each of them.

#include <catch2/catch.hpp>

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/transport/wire.h"
#include "tests/unit/common/transport/network.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace {
namespace {

using test::AnyNetwork;
using test::Heartbeat;
using test::Hello;
using test::Network;
using test::Recorder;

TEST_CASE("messages go both ways in order, and each write is confirmed", "[network]") {
  Network network(AnyNetwork());
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = network.connector->Attach(network.control_address, client);
  auto server = network.dispatcher->attached.Wait();
  REQUIRE(server.stream);
  for (int i = 0; i < 50; ++i) {
    up->Write(Hello("job" + std::to_string(i)));
    server.stream->Write(Heartbeat(static_cast<std::uint64_t>(i)));
    CHECK(client->WaitForWrites(i + 1));
    CHECK(server.recorder->WaitForWrites(i + 1));
    CHECK(server.recorder->Next()->hello().job() == "job" + std::to_string(i));
    CHECK(client->Next()->term() == static_cast<std::uint64_t>(i));
  }
  up->Close(OkStatus());
  CHECK(server.recorder->WaitClosed() == OkStatus());
  CHECK(client->WaitClosed() == OkStatus());
  CHECK(client->calls_ok());
  CHECK(server.recorder->calls_ok());
}

TEST_CASE("a client learns the status with which the server closes, after all messages",
          "[network]") {
  Network network(AnyNetwork());
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = network.connector->Attach(network.control_address, client);
  auto server = network.dispatcher->attached.Wait();
  server.stream->Write(Heartbeat(1));
  REQUIRE(server.recorder->WaitForWrites(1));
  server.stream->Close(Aborted("rank 3 of job x was taken over by host7:4121"));
  CHECK(client->Next()->term() == 1u);
  CHECK(client->WaitClosed() == Aborted("rank 3 of job x was taken over by host7:4121"));
  CHECK(server.recorder->WaitClosed().has_value());
}

TEST_CASE("a stream that its client drops ends at the server", "[network]") {
  Network network(AnyNetwork());
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = network.connector->Attach(network.control_address, client);
  auto server = network.dispatcher->attached.Wait();
  up.reset();
  CHECK(server.recorder->WaitClosed()->code() == StatusCode::kCancelled);
  CHECK(client->WaitClosed()->code() == StatusCode::kCancelled);
}

TEST_CASE("an address where nobody listens is unavailable", "[network]") {
  const bool grpc = AnyNetwork();
  Network network(grpc);
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = network.connector->Attach(grpc ? "127.0.0.1:1" : "nobody:1", client);
  CHECK(client->WaitClosed()->code() == StatusCode::kUnavailable);
  CHECK_FALSE(network.connector->GetStatus(grpc ? "127.0.0.1:1" : "nobody:1", 5).ok());
}

TEST_CASE("an endpoint that shuts down refuses streams as unavailable", "[network]") {
  Network network(AnyNetwork());
  network.dispatcher->refuse = true;
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = network.connector->Attach(network.control_address, client);
  CHECK(client->WaitClosed()->code() == StatusCode::kUnavailable);
}

TEST_CASE("batch fragments of the largest size arrive with their data", "[network]") {
  Network network(AnyNetwork());
  auto client = std::make_shared<Recorder<IncomingFragment>>();
  auto up = network.connector->StreamBatches(network.batch_address, client);
  v1::WantList wants;
  wants.set_fingerprint("f");
  up->Write(wants);
  auto server = network.worker->streams.Wait();
  REQUIRE(server.stream);
  CHECK(server.recorder->Next()->fingerprint() == "f");

  auto data = std::make_shared<std::vector<std::byte>>(wire::kMaxFragmentBytes);
  for (std::size_t i = 0; i < data->size(); ++i) (*data)[i] = static_cast<std::byte>(i % 251);
  for (int i = 0; i < 3; ++i) {
    OutgoingFragment out;
    out.message.set_offset(static_cast<std::uint64_t>(i));
    out.data = *data;
    out.owner = data;
    server.stream->Write(std::move(out));
    REQUIRE(server.recorder->WaitForWrites(i + 1));
    auto fragment = client->Next();
    REQUIRE(fragment.has_value());
    CHECK(fragment->message.offset() == static_cast<std::uint64_t>(i));
    std::vector<std::byte> gathered(fragment->data_bytes());
    wire::GatherInto(*fragment, gathered);
    CHECK(gathered == *data);
  }
}

TEST_CASE("static tables are fetched whole and held against their digest", "[network]") {
  Network network(AnyNetwork());
  std::string bytes(3'000'000, 'x');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  network.worker->tables = {Xxh3(bytes).ToHex(), std::make_shared<const std::string>(bytes)};
  auto got =
      network.connector->GetStatic(network.batch_address, "known", Xxh3(bytes).ToHex(), 30, {});
  REQUIRE(got.ok());
  CHECK(*got == bytes);
  CHECK_FALSE(
      network.connector->GetStatic(network.batch_address, "known", std::string(32, '0'), 30, {})
          .ok());
  CHECK(network.connector->GetStatic(network.batch_address, "other", Xxh3(bytes).ToHex(), 30, {})
            .status()
            .code() == StatusCode::kNotFound);
}

TEST_CASE("a column of several fragments comes whole", "[network]") {
  Network network(AnyNetwork());
  network.dispatcher->column.resize(wire::kMaxFragmentBytes * 2 + 5);
  for (std::size_t i = 0; i < network.dispatcher->column.size(); ++i) {
    network.dispatcher->column[i] = static_cast<char>(i * 11);
  }
  v1::GetColumnRequest request;
  request.set_column("nodes");
  auto got = network.connector->GetColumn(network.control_address, request, 30, {});
  REQUIRE(got.ok());
  CHECK(*got == network.dispatcher->column);
  request.set_column("edges");
  got = network.connector->GetColumn(network.control_address, request, 30, {});
  CHECK(got.status().code() == StatusCode::kNotFound);
  CHECK(got.status().message().find("no column edges") != std::string::npos);
}

TEST_CASE("one-shot calls bring answers and errors back", "[network]") {
  Network network(AnyNetwork());
  CHECK(network.connector->GetStatus(network.control_address, 30)->version() == "test");
  CHECK(network.connector->EndJob(network.control_address, {}, 30)->sessions() == 3);
  v1::DrainWorkerRequest request;
  request.set_worker("w9");
  const Status status =
      network.connector->DrainWorker(network.control_address, request, 30).status();
  CHECK(status.code() == StatusCode::kNotFound);
  CHECK(status.message().find("no worker w9") != std::string::npos);
  v1::UndrainWorkerRequest undrain;
  undrain.set_worker("w8");
  const Status unknown =
      network.connector->UndrainWorker(network.control_address, undrain, 30).status();
  CHECK(unknown.code() == StatusCode::kNotFound);
  CHECK(unknown.message().find("no worker w8") != std::string::npos);
}

TEST_CASE("a watched status comes again and again until the watch is stopped", "[network]") {
  Network network(AnyNetwork());
  std::stop_source stop;
  int seen = 0;
  const Status end = network.connector->WatchStatus(
      network.control_address, 0.1,
      [&](const v1::ServiceStatus& status) {
        CHECK(status.version() == "test");
        if (++seen == 3) stop.request_stop();
      },
      stop.get_token());
  CHECK(end == OkStatus());
  CHECK(seen == 3);
}

}  // namespace
}  // namespace millrace
