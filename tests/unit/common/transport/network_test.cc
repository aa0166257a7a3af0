// What both networks promise, run over each of them.

#include <catch2/catch.hpp>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include <netdb.h>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "common/base/hash.h"
#include "common/transport/grpc_client.h"
#include "common/transport/grpc_server.h"
#include "common/transport/in_process.h"
#include "common/transport/listen_check.h"
#include "common/transport/wire.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace {
namespace {

using test::Recorder;
using test::TestDispatcher;
using test::TestWorker;

struct Network {
  std::shared_ptr<TestDispatcher> dispatcher = std::make_shared<TestDispatcher>();
  std::shared_ptr<TestWorker> worker = std::make_shared<TestWorker>();
  std::unique_ptr<InProcessNetwork> in_process;
  std::unique_ptr<GrpcServer> control;
  std::unique_ptr<GrpcServer> batches;
  std::shared_ptr<Connector> connector;
  std::string control_address = "dispatcher:1";
  std::string batch_address = "worker:1";

  explicit Network(bool grpc) {
    if (!grpc) {
      in_process = std::make_unique<InProcessNetwork>();
      in_process->AddDispatcher(control_address, dispatcher);
      in_process->AddWorker(batch_address, worker);
      connector = in_process->MakeConnector("client:1");
      return;
    }
    auto c = GrpcServer::Start({}, std::shared_ptr<DispatcherEndpoint>(dispatcher));
    auto b = GrpcServer::Start({}, std::shared_ptr<WorkerEndpoint>(worker));
    REQUIRE(c.ok());
    REQUIRE(b.ok());
    control = std::move(c).value();
    batches = std::move(b).value();
    control_address = "127.0.0.1:" + std::to_string(control->port());
    batch_address = "127.0.0.1:" + std::to_string(batches->port());
    connector = MakeGrpcConnector({});
  }
  ~Network() {
    if (control) control->Shutdown(std::chrono::seconds(0));
    if (batches) batches->Shutdown(std::chrono::seconds(0));
  }
};

v1::AttachRequest Hello(const std::string& job) {
  v1::AttachRequest request;
  request.mutable_hello()->set_job(job);
  return request;
}

v1::AttachResponse Pulse(std::uint64_t term) {
  v1::AttachResponse response;
  response.set_term(term);
  return response;
}

TEST_CASE("messages go both ways in order, and each write is confirmed", "[network]") {
  Network network(GENERATE(false, true));
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = network.connector->Attach(network.control_address, client);
  auto server = network.dispatcher->attached.Wait();
  REQUIRE(server.stream);
  for (int i = 0; i < 50; ++i) {
    up->Write(Hello("job" + std::to_string(i)));
    server.stream->Write(Pulse(static_cast<std::uint64_t>(i)));
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
  Network network(GENERATE(false, true));
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = network.connector->Attach(network.control_address, client);
  auto server = network.dispatcher->attached.Wait();
  server.stream->Write(Pulse(1));
  REQUIRE(server.recorder->WaitForWrites(1));
  server.stream->Close(Aborted("rank 3 of job x was taken over by host7:4121"));
  CHECK(client->Next()->term() == 1u);
  CHECK(client->WaitClosed() == Aborted("rank 3 of job x was taken over by host7:4121"));
  CHECK(server.recorder->WaitClosed().has_value());
}

TEST_CASE("a status too long for the wire keeps its code, its beginning and its end", "[network]") {
  // Characters that travel as three bytes each count for that.
  const std::string filler = GENERATE("file.bin: damaged; ", "\xC3\xA9");
  std::string message = "dataset 'stdlib' has damaged files (";
  for (int i = 0; i < 5000; ++i) message += filler;
  message += "); to go on write `exclude`";
  Network network(true);
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = network.connector->Attach(network.control_address, client);
  auto server = network.dispatcher->attached.Wait();
  server.stream->Close(DataLoss(message));
  const auto closed = client->WaitClosed();
  REQUIRE(closed);
  CHECK(closed->code() == StatusCode::kDataLoss);
  CHECK(closed->message().starts_with("dataset 'stdlib' has damaged files ("));
  CHECK(closed->message().ends_with("); to go on write `exclude`"));
}

TEST_CASE("a stream that its client drops ends at the server", "[network]") {
  Network network(GENERATE(false, true));
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = network.connector->Attach(network.control_address, client);
  auto server = network.dispatcher->attached.Wait();
  up.reset();
  CHECK(server.recorder->WaitClosed()->code() == StatusCode::kCancelled);
  CHECK(client->WaitClosed()->code() == StatusCode::kCancelled);
}

TEST_CASE("an address where nobody listens is unavailable", "[network]") {
  const bool grpc = GENERATE(false, true);
  Network network(grpc);
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = network.connector->Attach(grpc ? "127.0.0.1:1" : "nobody:1", client);
  CHECK(client->WaitClosed()->code() == StatusCode::kUnavailable);
  CHECK_FALSE(network.connector->GetStatus(grpc ? "127.0.0.1:1" : "nobody:1", 5).ok());
}

TEST_CASE("an endpoint that shuts down refuses streams as unavailable", "[network]") {
  Network network(GENERATE(false, true));
  network.dispatcher->refuse = true;
  auto client = std::make_shared<Recorder<v1::AttachResponse>>();
  auto up = network.connector->Attach(network.control_address, client);
  CHECK(client->WaitClosed()->code() == StatusCode::kUnavailable);
}

TEST_CASE("batch parts of the largest size arrive with their data", "[network]") {
  Network network(GENERATE(false, true));
  auto client = std::make_shared<Recorder<IncomingPart>>();
  auto up = network.connector->StreamBatches(network.batch_address, client);
  v1::WantList wants;
  wants.set_fingerprint("f");
  up->Write(wants);
  auto server = network.worker->streams.Wait();
  REQUIRE(server.stream);
  CHECK(server.recorder->Next()->fingerprint() == "f");

  auto data = std::make_shared<std::vector<std::byte>>(wire::kMaxPartBytes);
  for (std::size_t i = 0; i < data->size(); ++i) (*data)[i] = static_cast<std::byte>(i % 251);
  for (int i = 0; i < 3; ++i) {
    OutgoingPart out;
    out.part.set_offset(static_cast<std::uint64_t>(i));
    out.data = *data;
    out.owner = data;
    server.stream->Write(std::move(out));
    REQUIRE(server.recorder->WaitForWrites(i + 1));
    auto part = client->Next();
    REQUIRE(part.has_value());
    CHECK(part->part.offset() == static_cast<std::uint64_t>(i));
    std::vector<std::byte> gathered(part->data_bytes());
    wire::GatherInto(*part, gathered);
    CHECK(gathered == *data);
  }
}

TEST_CASE("static tables are fetched whole and held against their digest", "[network]") {
  Network network(GENERATE(false, true));
  std::string bytes(3'000'000, 'x');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  network.worker->tables = {Xxh3(bytes).ToHex(), std::make_shared<const std::string>(bytes)};
  auto got = network.connector->GetStatic(network.batch_address, "known", Xxh3(bytes).ToHex(), 30);
  REQUIRE(got.ok());
  CHECK(*got == bytes);
  CHECK_FALSE(
      network.connector->GetStatic(network.batch_address, "known", std::string(32, '0'), 30).ok());
  CHECK(network.connector->GetStatic(network.batch_address, "other", Xxh3(bytes).ToHex(), 30)
            .status()
            .code() == StatusCode::kNotFound);
}

TEST_CASE("one-shot calls bring answers and errors back", "[network]") {
  Network network(GENERATE(false, true));
  CHECK(network.connector->GetStatus(network.control_address, 30)->version() == "test");
  CHECK(network.connector->EndJob(network.control_address, {}, 30)->sessions() == 3);
  v1::DrainWorkerRequest request;
  request.set_worker("w9");
  const Status status =
      network.connector->DrainWorker(network.control_address, request, 30).status();
  CHECK(status.code() == StatusCode::kNotFound);
  CHECK(status.message().find("no worker w9") != std::string::npos);
}

TEST_CASE("a watched status comes again and again until the watch is stopped", "[network]") {
  Network network(GENERATE(false, true));
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

TEST_CASE("a watch ends when the server goes away, and says so", "[network]") {
  Network network(true);
  const Status end = network.connector->WatchStatus(
      network.control_address, 0.1,
      [&](const v1::ServiceStatus&) { network.control->Shutdown(std::chrono::seconds(0)); }, {});
  CHECK_FALSE(end.ok());
  network.control.reset();
}

/// Answer of grpc.health.v1.Health/Check for the whole server: its ServingStatus, -1 where the call
/// failed. The messages are so small that their bytes are written out: field 1, varint.
int CheckHealth(const std::string& address) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                          grpc::ByteBuffer(nullptr, 0), &queue);
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->StartCall();
  call->Finish(&answer, &status, &queue);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  grpc::Slice slice;
  if (!status.ok() || !answer.DumpToSingleSlice(&slice).ok()) return -1;
  return slice.size() == 2 && slice.begin()[0] == 0x08 ? slice.begin()[1] : -1;
}

TEST_CASE("both servers answer health checks, and say when they drain", "[network]") {
  constexpr int kServing = 1;
  constexpr int kNotServing = 2;
  Network network(true);
  CHECK(CheckHealth(network.control_address) == kServing);
  CHECK(CheckHealth(network.batch_address) == kServing);
  network.control->SetDraining();
  CHECK(CheckHealth(network.control_address) == kNotServing);
  CHECK(CheckHealth(network.batch_address) == kServing);
}

TEST_CASE("a second server on a port is refused and says so", "[network]") {
  Network network(true);
  const std::string taken = network.control_address;
  auto second = GrpcServer::Start({taken}, std::shared_ptr<DispatcherEndpoint>(network.dispatcher));
  REQUIRE_FALSE(second.ok());
  CHECK(second.status().code() == StatusCode::kAlreadyExists);
  CHECK(second.status().message() ==
        "cannot listen on " + taken +
            ": the port is in use by another process; stop it or choose another port");
}

TEST_CASE("a name is refused when the port is taken at any of its addresses", "[network]") {
  // localhost is 127.0.0.1 or ::1 first, whichever the machine prefers: each is taken in turn.
  for (const std::string host : {"127.0.0.1", "[::1]"}) {
    if (!CheckListen(host + ":0").ok()) continue;  // a machine without IPv6
    auto first = GrpcServer::Start(
        {host + ":0"}, std::shared_ptr<DispatcherEndpoint>(std::make_shared<TestDispatcher>()));
    REQUIRE(first.ok());
    const std::string name = "localhost:" + std::to_string((*first)->port());
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    REQUIRE(getaddrinfo("localhost", "0", &hints, &list) == 0);
    bool has = false;
    for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
      has = has || (a->ai_family == AF_INET6) == (host[0] == '[');
    }
    freeaddrinfo(list);
    if (has) CHECK(CheckListen(name).code() == StatusCode::kAlreadyExists);
  }
}

TEST_CASE("listen addresses that make no sense are refused with the reason", "[network]") {
  for (const std::string address :
       {"127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000", "nowhere.invalid:1"}) {
    auto server = GrpcServer::Start(
        {address}, std::shared_ptr<DispatcherEndpoint>(std::make_shared<TestDispatcher>()));
    REQUIRE_FALSE(server.ok());
    CHECK(server.status().code() == StatusCode::kInvalidArgument);
    CHECK(server.status().message().find(address) != std::string::npos);
  }
}

}  // namespace
}  // namespace millrace
