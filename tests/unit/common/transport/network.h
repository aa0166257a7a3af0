// Endpoints of a dispatcher and of a worker, and a connector to them, over either network.
#pragma once

#include <catch2/catch.hpp>

#include <chrono>
#include <memory>
#include <string>

#include "common/transport/grpc/grpc_client.h"
#include "common/transport/grpc/grpc_server.h"
#include "tests/support/in_process.h"
#include "tests/unit/common/transport/recorder.h"

namespace millrace::test {

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
    connector->WaitForStreams(Connector::kStreamsEndSeconds);
    if (control) control->Shutdown(std::chrono::seconds(0));
    if (batches) batches->Shutdown(std::chrono::seconds(0));
  }
};

inline v1::AttachRequest Hello(const std::string& job) {
  v1::AttachRequest request;
  request.mutable_hello()->set_job(job);
  return request;
}

inline v1::AttachResponse Heartbeat(std::uint64_t term) {
  v1::AttachResponse response;
  response.set_term(term);
  return response;
}

/// Makes a case run over both networks, one after the other; returns whether it is gRPC's turn.
/// gRPC is left out with the thread sanitizer: Debian's gRPC is not built for it, so that it would
/// report races inside gRPC that do not exist.
inline bool AnyNetwork() {
#ifdef MILLRACE_WITHOUT_GRPC
  return false;
#else
  return GENERATE(false, true);
#endif
}

}  // namespace millrace::test
