#include "common/transport/grpc/loopback_guard.h"

#include <unistd.h>

#include <grpcpp/generic/async_generic_service.h>

#include <string>
#include <utility>

#include "common/transport/grpc/grpc_status.h"

namespace millrace {
namespace {

/// Connections that are answered in a second. Each lives for a little more than one.
constexpr int kMostInSecond = 16;
constexpr int kAnswerMs = 1'000;

Status Refusal(const LocalUsers& users) {
  return PermissionDenied(
      "this daemon serves " + users.ToString() +
      " on loopback, and this process is another user's: run it as one of them, or connect with a "
      "certificate to a daemon that was started with --tls");
}

}  // namespace

/// Ends every call with the refusal.
class LoopbackGuard::Answers final : public grpc::CallbackGenericService {
 public:
  explicit Answers(const Status& refusal) : refusal_(ToGrpcStatus(refusal)) {}

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(const grpc::Status& refusal) { Finish(refusal); }
    void OnDone() override { delete this; }
  };
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor(refusal_);
  }

  const grpc::Status refusal_;
};

void HandOver(grpc::experimental::ExternalConnectionAcceptor& acceptor, int connection,
              int listening) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listening;
  parameters.fd = connection;
  acceptor.HandleNewConnection(&parameters);
}

LoopbackGuard::LoopbackGuard(const LocalUsers& users)
    : users_(users), answers_(std::make_unique<Answers>(Refusal(users))) {
  grpc::ServerBuilder builder;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(answers_.get());
  builder.SetMaxReceiveMessageSize(0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kAnswerMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, kAnswerMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kAnswerMs / 4);
  server_ = builder.BuildAndStart();
}

LoopbackGuard::~LoopbackGuard() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

bool LoopbackGuard::TurnsAway(int connection, int listening) {
  const Result<uid_t> user = UserOfPeer(connection);
  if (user.ok() && users_.May(*user)) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    in_second_ = 0;
  }
  if (!user.ok() || server_ == nullptr || ++in_second_ > kMostInSecond) {
    close(connection);
  } else {
    HandOver(*acceptor_, connection, listening);
  }
  return true;
}

}  // namespace millrace
