#include "common/transport/grpc/health_server.h"

#include <chrono>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "common/transport/grpc/listener.h"
#include "common/transport/grpc/loopback_guard.h"

namespace millrace {
namespace {

class HealthServerImpl final : public HealthServer {
 public:
  ~HealthServerImpl() override {
    listener_.reset();
    if (!server_) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  Status Listen(const std::string& listen) {
    static const bool health [[maybe_unused]] = [] {
      grpc::EnableDefaultHealthCheckService(true);
      return true;
    }();
    grpc::ServerBuilder builder;
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    builder.RegisterCallbackGenericService(&others_);
    builder.SetMaxReceiveMessageSize(1 << 16);
    server_ = builder.BuildAndStart();
    if (!server_) {
      return Internal("cannot listen on " + listen + ": gRPC could not start there");
    }
    SetAlive(true);
    SetReady(false);
    MILLRACE_ASSIGN_OR_RETURN(
        listener_, Listener::Start({.listen = listen, .on_connection = [this](int fd, int from) {
                                      HandOver(*acceptor_, fd, from);
                                    }}));
    return OkStatus();
  }

  int port() const override { return listener_->port(); }
  void SetAlive(bool alive) override {
    Set("", alive);
    Set("liveness", alive);
  }
  void SetReady(bool ready) override { Set("readiness", ready); }

 private:
  void Set(const std::string& service, bool serving) {
    server_->GetHealthCheckService()->SetServingStatus(service, serving);
  }

  grpc::CallbackGenericService
      others_;  // answers "unimplemented"; gRPC starts no server without a service
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& listen) {
  auto server = std::make_unique<HealthServerImpl>();
  MILLRACE_RETURN_IF_ERROR(server->Listen(listen));
  return std::unique_ptr<HealthServer>(std::move(server));
}

}  // namespace millrace
