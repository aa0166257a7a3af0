// Connections to a server that was away, as callers and as the server see them.

#include <catch2/catch.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "common/system/file_descriptor.h"
#include "common/transport/grpc/grpc_client.h"
#include "common/transport/grpc/grpc_server.h"
#include "tests/support/listening_socket.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace {
namespace {

using test::Listen;
using test::Recorder;
using test::TestDispatcher;

/// Closes each connection after its first bytes, and counts them.
class Closer {
 public:
  Closer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address = Listen(socket_.get());
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }

  std::string address;
  std::atomic<int> connections{0};
  std::atomic<int> hellos{0};  // of TLS

 private:
  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd polled{socket_.get(), POLLIN, 0};
      if (poll(&polled, 1, 20) <= 0) continue;
      const FileDescriptor connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char first = 0;
      if (recv(connection.get(), &first, 1, 0) == 1 && first == 0x16) ++hellos;
      ++connections;
    }
  }

  const FileDescriptor socket_;
  std::jthread thread_;
};

constexpr double kSeconds = test::kPatience.count();

/// A connector whose time limits a busy machine does not reach.
std::shared_ptr<Connector> Patient() {
  GrpcClientOptions options;
  options.connect_seconds = options.silence_seconds = kSeconds;
  return MakeGrpcConnector(options);
}

const auto kIgnore = [](const v1::ServiceStatus&) {};

TEST_CASE("a look opens one connection, also the one that finds out why the last one failed",
          "[network][reconnect]") {
  const Closer closer;
  const auto connector = Patient();
  for (int looks = 1; looks <= 6; ++looks) {
    const Status end = connector->WatchStatus(closer.address, 0.1, kIgnore, {});
    CHECK(end.code() == StatusCode::kUnavailable);
    CHECK(closer.connections <= looks);
  }
  CHECK(closer.connections == 6);
  CHECK(closer.hellos == 1);
}

TEST_CASE("a look at several dispatchers opens one connection to each", "[network][reconnect]") {
  const Closer first;
  const Closer second;
  const auto connector = Patient();
  const std::string both = first.address + "," + second.address;
  CHECK_FALSE(connector->WatchStatus(both, 0.1, kIgnore, {}).ok());
  CHECK(first.connections == 1);
  CHECK(second.connections == 1);
}

TEST_CASE("nobody who is away is sent a TLS hello when he is back", "[network][reconnect]") {
  std::string address;
  {
    const Closer closer;
    address = closer.address;
  }
  const auto connector = Patient();
  for (int i = 0; i < 3; ++i) CHECK_FALSE(connector->GetStatus(address, kSeconds).ok());
  std::atomic<int> refused{0};
  GrpcServerOptions options{address};
  options.security.on_refused_connection = [&](RefusedConnection, const std::string&) {
    ++refused;
  };
  const auto server = *GrpcServer::Start(
      options, std::shared_ptr<DispatcherEndpoint>(std::make_shared<TestDispatcher>()));
  CHECK(connector->GetStatus(address, kSeconds).ok());
  CHECK(refused == 0);
  server->Shutdown(std::chrono::seconds(0));
}

TEST_CASE("a look gives up a connection that takes too long, and the next one makes a new one",
          "[network][reconnect]") {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string address = Listen(socket.get());
  GrpcClientOptions options;
  options.connect_seconds = 0.1;
  const auto connector = MakeGrpcConnector(options);
  for (int look = 0; look < 2; ++look) {
    const Status status = connector->GetStatus(address, kSeconds).status();
    CHECK(status.code() == StatusCode::kUnavailable);
    CHECK_THAT(status.message(), Catch::Contains("no connection to " + address + " within 0.1 s"));
    const FileDescriptor connection(accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    CHECK(connection.get() >= 0);
  }
}

/// A dispatcher that goes away and comes back at its address.
struct Restarted {
  std::shared_ptr<TestDispatcher> dispatcher = std::make_shared<TestDispatcher>();
  std::unique_ptr<GrpcServer> server = Start("127.0.0.1:0");
  std::string address = "127.0.0.1:" + std::to_string(server->port());

  std::unique_ptr<GrpcServer> Start(const std::string& at) {
    return *GrpcServer::Start({at}, std::shared_ptr<DispatcherEndpoint>(dispatcher));
  }
  void GoAway() {
    server->Shutdown(std::chrono::seconds(0));
    server.reset();
  }
  void ComeBack() { server = Start(address); }
};

TEST_CASE("the first call after a server's return succeeds, however often it was tried before",
          "[network][reconnect]") {
  Restarted restarted;
  const auto connector = Patient();
  const auto attach = [&] {
    const auto client = std::make_shared<Recorder<v1::AttachResponse>>();
    const auto stream = connector->Attach(restarted.address, client);
    stream->Write({});
    stream->Close(OkStatus());
    return *client->WaitClosed();
  };
  REQUIRE(connector->GetStatus(restarted.address, kSeconds).ok());
  REQUIRE(attach().ok());
  restarted.GoAway();
  for (int i = 0; i < 8; ++i) {
    CHECK(connector->GetStatus(restarted.address, kSeconds).status().code() ==
          StatusCode::kUnavailable);
    CHECK(attach().code() == StatusCode::kUnavailable);
  }
  restarted.ComeBack();
  SECTION("a question") { CHECK(connector->GetStatus(restarted.address, kSeconds).ok()); }
  SECTION("a watch") {
    std::stop_source stop;
    CHECK(connector
              ->WatchStatus(
                  restarted.address, 0.1, [&](const v1::ServiceStatus&) { stop.request_stop(); },
                  stop.get_token())
              .ok());
    CHECK(stop.stop_requested());
  }
  SECTION("a column") {
    v1::GetColumnRequest request;
    request.set_column("nodes");
    CHECK(connector->GetColumn(restarted.address, request, kSeconds, {}).ok());
  }
  SECTION("a stream") { CHECK(attach().ok()); }
  connector->WaitForStreams(Connector::kStreamsEndSeconds);
  restarted.GoAway();
}

}  // namespace
}  // namespace millrace
