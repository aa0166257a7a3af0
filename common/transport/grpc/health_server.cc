#include "common/transport/grpc/health_server.h"

#include <chrono>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "common/transport/grpc/listen_check.h"

namespace millrace {
namespace {

class HealthServerImpl final : public HealthServer {
 public:
  ~HealthServerImpl() override {
    if (!server_) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  Status Listen(const std::string& listen) {
    MILLRACE_RETURN_IF_ERROR(CheckListen(listen));
    static const bool health [[maybe_unused]] = [] {
      grpc::EnableDefaultHealthCheckService(true);
      return true;
    }();
    grpc::ServerBuilder builder;
    builder.AddListeningPort(listen, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(&others_);
    builder.SetMaxReceiveMessageSize(1 << 16);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    server_ = builder.BuildAndStart();
    if (!server_ || port_ == 0) {
      return AlreadyExists("cannot listen on " + listen + ": gRPC could not start there");
    }
    SetAlive(true);
    SetReady(false);
    return OkStatus();
  }

  int port() const override { return port_; }
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
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace

Result<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& listen) {
  auto server = std::make_unique<HealthServerImpl>();
  MILLRACE_RETURN_IF_ERROR(server->Listen(listen));
  return std::unique_ptr<HealthServer>(std::move(server));
}

}  // namespace millrace
