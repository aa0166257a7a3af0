// Features that only a real network has: ports, health, errors on the wire.

#include <catch2/catch.hpp>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "common/transport/grpc/health_server.h"
#include "common/transport/grpc/listen_check.h"
#include "millrace/v1/worker.grpc.pb.h"
#include "tests/support/listening_socket.h"
#include "tests/unit/common/transport/network.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace {
namespace {

using test::Network;
using test::Recorder;
using test::TestDispatcher;

TEST_CASE("a status too long for the wire keeps its code, its beginning and its end", "[network]") {
  // Each byte of "é" is sent as three bytes, such as %C3, and must count as three.
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

TEST_CASE("a watch ends when the server goes away, and says so", "[network]") {
  Network network(true);
  const Status end = network.connector->WatchStatus(
      network.control_address, 0.1,
      [&](const v1::ServiceStatus&) { network.control->Shutdown(std::chrono::seconds(0)); }, {});
  CHECK_FALSE(end.ok());
  network.control.reset();
}

TEST_CASE("of a server that accepts and says nothing, watches and tables end and say so",
          "[network]") {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const std::string where = test::Listen(socket);
  const auto connector = MakeGrpcConnector({.silence_seconds = 0.1});
  const Status table = connector->GetStatic(where, "f", std::string(32, '0'), 0.1, {}).status();
  CHECK(table.code() == StatusCode::kDeadlineExceeded);
  CHECK_THAT(table.message(), Catch::Contains("static tables from " + where));
  const Status end = connector->WatchStatus(
      where, 0.05, [](const v1::ServiceStatus&) { FAIL("there is no status"); }, {});
  CHECK(end.code() == StatusCode::kDeadlineExceeded);
  CHECK_THAT(end.message(), Catch::Contains("no status for"));
  close(socket);
}

/// A worker whose tables never end.
class EndlessTables final : public v1::Worker::Service {
 public:
  explicit EndlessTables(std::uint64_t total) : total_(total) {}
  grpc::Status GetStatic(grpc::ServerContext*, const v1::GetStaticRequest*,
                         grpc::ServerWriter<v1::StaticFragment>* writer) override {
    v1::StaticFragment fragment;
    fragment.set_total_bytes(total_);
    fragment.set_data(std::string(1000, 'x'));
    while (writer->Write(fragment)) fragment.set_offset(fragment.offset() + fragment.data().size());
    return grpc::Status::OK;
  }

 private:
  const std::uint64_t total_;
};

TEST_CASE("tables that are larger than they say, or than any may be, are not read on",
          "[network][limits]") {
  const auto [total, said] = GENERATE(
      table<std::uint64_t, const char*>({{2500, "1000 bytes at 2000 of 2500"},
                                         {std::uint64_t{1} << 60, "1000 bytes at 0 of 1152921"}}));
  EndlessTables service(total);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  const Status end =
      MakeGrpcConnector({})
          ->GetStatic("127.0.0.1:" + std::to_string(port), "f", std::string(32, '0'), 60, {})
          .status();
  CHECK(end.code() == StatusCode::kDataLoss);
  CHECK_THAT(end.message(), Catch::Contains(said));
}

/// The ServingStatus that grpc.health.v1.Health/Check gives for a service or for the whole server;
/// -1 if the call failed. The messages are so small that their bytes are written out: field 1.
int CheckHealth(const std::string& address, const std::string& service = "") {
  std::string request;
  if (!service.empty()) {
    request += '\x0a';
    request += static_cast<char>(service.size());
    request += service;
  }
  const grpc::Slice sent(request);
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                          grpc::ByteBuffer(&sent, 1), &queue);
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

TEST_CASE("a health server tells being alive from being ready", "[network]") {
  constexpr int kServing = 1;
  constexpr int kNotServing = 2;
  auto health = HealthServer::Start("127.0.0.1:0");
  REQUIRE(health.ok());
  const std::string address = "127.0.0.1:" + std::to_string((*health)->port());
  CHECK(CheckHealth(address) == kServing);
  CHECK(CheckHealth(address, "liveness") == kServing);
  CHECK(CheckHealth(address, "readiness") == kNotServing);
  (*health)->SetReady(true);
  CHECK(CheckHealth(address, "readiness") == kServing);
  (*health)->SetAlive(false);
  CHECK(CheckHealth(address, "liveness") == kNotServing);
  CHECK(CheckHealth(address) == kNotServing);
  CHECK(CheckHealth(address, "other") == -1);
  CHECK(HealthServer::Start(address).status().code() == StatusCode::kAlreadyExists);
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
  // localhost means 127.0.0.1 or ::1 first, as the machine prefers, so the test takes each in turn.
  for (const std::string host : {"127.0.0.1", "[::1]"}) {
    if (!CheckListen(host + ":0").ok()) continue;  // the machine has no IPv6
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
