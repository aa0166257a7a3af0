#include "common/transport/grpc/grpc_server.h"

#include <algorithm>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "common/transport/grpc/call_gate.h"
#include "common/transport/grpc/grpc_deadline.h"
#include "common/transport/grpc/grpc_served_call.h"
#include "common/transport/grpc/grpc_server_reactors.h"
#include "common/transport/grpc/grpc_status.h"
#include "common/transport/grpc/loopback_guard.h"
#include "common/transport/grpc/peer_name.h"
#include "common/transport/grpc/tls_server_credentials.h"
#include "common/transport/grpc/unfinished_messages.h"
#include "common/transport/wire.h"
#include "millrace/v1/dispatcher.grpc.pb.h"
#include "millrace/v1/worker.grpc.pb.h"

namespace millrace {
namespace {

/// Bytes that gRPC may keep for all peers together. Beyond it gRPC ends streams, also those of
/// honest peers: UnfinishedMessages comes long before that. gRPC keeps some 32 KiB of every
/// connection.
constexpr std::size_t kReceivedBytes = std::size_t{1} << 30;
/// Each Connector has a connection of its own, on which it does a few calls at a time.
constexpr int kMostStreamsOfConnection = 100;
/// For TLS's handshake and HTTP/2's first settings together.
constexpr int kHandshakeMs = 5'000;

/// The calls of a service, which all pass a gate, and whose messages are counted.
class Gated {
 public:
  Gated(std::shared_ptr<CallGate> gate, std::shared_ptr<UnfinishedMessages> unfinished)
      : gate_(std::move(gate)), unfinished_(std::move(unfinished)) {}

 protected:
  /// The peer, or why it is refused. `method`: "Dispatcher/Attach".
  Result<Peer> Admit(const char* method, const grpc::CallbackServerContext& context) const {
    return gate_->Admit(std::string("/millrace.v1.") + method, context);
  }
  /// The same for a call whose only message has come.
  Result<Peer> Admit(const char* method, const grpc::CallbackServerContext& context,
                     const google::protobuf::MessageLite& request) const {
    CountOf(context)->Add(request.ByteSizeLong());
    return Admit(method, context);
  }
  /// For a stream of a peer that was let in, or was not.
  CallWatch WatchOver(const grpc::CallbackServerContext& context, const Result<Peer>& peer) const {
    return {CountOf(context), peer.ok() ? StillAdmits(context, *peer) : nullptr};
  }
  std::function<Status()> StillAdmits(const grpc::CallbackServerContext& context,
                                      const Peer& peer) const {
    return gate_->StillAdmits(context, peer.identity);
  }

 private:
  std::shared_ptr<FinishedMessages> CountOf(const grpc::CallbackServerContext& context) const {
    return unfinished_->CountOf(context.peer());
  }

  const std::shared_ptr<CallGate> gate_;
  const std::shared_ptr<UnfinishedMessages> unfinished_;
};

class DispatcherAdapter final : public v1::Dispatcher::CallbackService, Gated {
 public:
  DispatcherAdapter(std::shared_ptr<DispatcherEndpoint> endpoint, Gated gated)
      : Gated(std::move(gated)), endpoint_(std::move(endpoint)) {}

  grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>* Attach(
      grpc::CallbackServerContext* context) override {
    using C = GrpcServedCall<v1::AttachRequest, v1::AttachRequest, v1::AttachResponse,
                             v1::AttachResponse>;
    const Result<Peer> admitted = Admit("Dispatcher/Attach", *context);
    return C::Begin(admitted, WatchOver(*context, admitted), [&](auto stream, const Peer& peer) {
      return endpoint_->OnAttach(std::move(stream), peer);
    });
  }
  grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>* Work(
      grpc::CallbackServerContext* context) override {
    using C = GrpcServedCall<v1::WorkRequest, v1::WorkRequest, v1::WorkResponse, v1::WorkResponse>;
    const Result<Peer> admitted = Admit("Dispatcher/Work", *context);
    return C::Begin(admitted, WatchOver(*context, admitted), [&](auto stream, const Peer& peer) {
      return endpoint_->OnWork(std::move(stream), peer);
    });
  }
  grpc::ServerBidiReactor<v1::TraceRequest, v1::TraceChunk>* Trace(
      grpc::CallbackServerContext* context) override {
    using C = GrpcServedCall<v1::TraceRequest, v1::TraceRequest, v1::TraceChunk, v1::TraceChunk>;
    const Result<Peer> admitted = Admit("Dispatcher/Trace", *context);
    return C::Begin(admitted, WatchOver(*context, admitted), [&](auto stream, const Peer&) {
      return endpoint_->OnTrace(std::move(stream));
    });
  }
  grpc::ServerWriteReactor<v1::ColumnFragment>* GetColumn(
      grpc::CallbackServerContext* context, const v1::GetColumnRequest* request) override {
    const Result<Peer> peer = Admit("Dispatcher/GetColumn", *context, *request);
    if (!peer.ok()) return new RefusedReactor<v1::ColumnFragment>(peer.status());
    auto found = endpoint_->OnGetColumn(*request);
    if (!found.ok()) return new RefusedReactor<v1::ColumnFragment>(found.status());
    return new FragmentsReactor<v1::ColumnFragment>(*std::move(found), 0);
  }
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::ServiceStatus* response) override {
    return Answer<v1::ServiceStatus>(
        "Dispatcher/GetStatus", context, *request, response,
        [&](const Peer& peer) { return endpoint_->OnGetStatus(peer); });
  }
  grpc::ServerWriteReactor<v1::ServiceStatus>* WatchStatus(
      grpc::CallbackServerContext* context, const v1::GetStatusRequest* request) override {
    Result<Peer> peer = Admit("Dispatcher/WatchStatus", *context, *request);
    if (!peer.ok()) return new RefusedReactor<v1::ServiceStatus>(peer.status());
    double seconds = request->period_seconds();
    if (!(seconds > 0)) seconds = 1;
    seconds = std::clamp(seconds, 0.1, 3600.0);
    return new StatusReactor(endpoint_, *peer, StillAdmits(*context, *peer), seconds);
  }
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context,
                                        const v1::DrainWorkerRequest* request,
                                        v1::DrainWorkerResponse* response) override {
    return Answer<v1::DrainWorkerResponse>(
        "Dispatcher/DrainWorker", context, *request, response,
        [&](const Peer&) { return endpoint_->OnDrainWorker(*request); });
  }
  grpc::ServerUnaryReactor* UndrainWorker(grpc::CallbackServerContext* context,
                                          const v1::UndrainWorkerRequest* request,
                                          v1::UndrainWorkerResponse* response) override {
    return Answer<v1::UndrainWorkerResponse>(
        "Dispatcher/UndrainWorker", context, *request, response,
        [&](const Peer&) { return endpoint_->OnUndrainWorker(*request); });
  }
  grpc::ServerUnaryReactor* EndJob(grpc::CallbackServerContext* context,
                                   const v1::EndJobRequest* request,
                                   v1::EndJobResponse* response) override {
    return Answer<v1::EndJobResponse>(
        "Dispatcher/EndJob", context, *request, response,
        [&](const Peer& peer) { return endpoint_->OnEndJob(*request, peer); });
  }

 private:
  template <class Message, class F>
  grpc::ServerUnaryReactor* Answer(const char* method, grpc::CallbackServerContext* context,
                                   const google::protobuf::MessageLite& request, Message* response,
                                   F f) const {
    const Result<Peer> peer = Admit(method, *context, request);
    Result<Message> result = peer.ok() ? f(*peer) : Result<Message>(peer.status());
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    if (result.ok()) *response = std::move(result).value();
    reactor->Finish(ToGrpcStatus(result.status()));
    return reactor;
  }

  const std::shared_ptr<DispatcherEndpoint> endpoint_;
};

/// Batches travel as raw byte buffers. The other calls of the service are typed.
using WorkerBase = v1::Worker::WithRawCallbackMethod_StreamBatches<
    v1::Worker::WithCallbackMethod_GetStatic<v1::Worker::Service>>;

class WorkerAdapter final : public WorkerBase, Gated {
 public:
  WorkerAdapter(std::shared_ptr<WorkerEndpoint> endpoint, Gated gated)
      : Gated(std::move(gated)), endpoint_(std::move(endpoint)) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StreamBatches(
      grpc::CallbackServerContext* context) override {
    using C = GrpcServedCall<v1::WantList, grpc::ByteBuffer, OutgoingFragment, grpc::ByteBuffer>;
    const Result<Peer> admitted = Admit("Worker/StreamBatches", *context);
    return C::Begin(admitted, WatchOver(*context, admitted), [&](auto stream, const Peer& peer) {
      return endpoint_->OnStreamBatches(std::move(stream), peer);
    });
  }
  grpc::ServerWriteReactor<v1::StaticFragment>* GetStatic(
      grpc::CallbackServerContext* context, const v1::GetStaticRequest* request) override {
    const Result<Peer> peer = Admit("Worker/GetStatic", *context, *request);
    if (!peer.ok()) return new RefusedReactor<v1::StaticFragment>(peer.status());
    Result<StaticBytes> found = endpoint_->OnGetStatic(request->fingerprint(), *peer);
    if (!found.ok()) return new RefusedReactor<v1::StaticFragment>(found.status());
    if (found->digest != request->digest()) {
      return new RefusedReactor<v1::StaticFragment>(NotFound(
          "static tables with digest " + request->digest() + ": this worker has " + found->digest));
    }
    return new FragmentsReactor<v1::StaticFragment>(found->bytes, request->offset());
  }

 private:
  const std::shared_ptr<WorkerEndpoint> endpoint_;
};

std::shared_ptr<CallGate> GateOf(const ServerSecurity& security) {
  std::shared_ptr<AccessPolicy> policy;
  if (security.tls != nullptr) {
    policy = security.policy != nullptr ? security.policy : std::make_shared<CertificatePolicy>();
  }
  return std::make_shared<CallGate>(std::move(policy), security.on_refused_call);
}

class GrpcServerImpl final : public GrpcServer {
 public:
  GrpcServerImpl(std::unique_ptr<grpc::Service> service, std::shared_ptr<CallGate> gate,
                 std::shared_ptr<UnfinishedMessages> unfinished)
      : service_(std::move(service)), gate_(std::move(gate)), unfinished_(std::move(unfinished)) {}
  ~GrpcServerImpl() override {
    if (server_) Shutdown(std::chrono::seconds(0));
  }

  Status Listen(const GrpcServerOptions& options, int max_received_bytes) {
    static const bool health [[maybe_unused]] = [] {
      grpc::EnableDefaultHealthCheckService(true);
      return true;
    }();
    grpc::ServerBuilder builder;
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        CredentialsOf(options.security));
    builder.RegisterService(service_.get());
    builder.SetMaxReceiveMessageSize(max_received_bytes);
    builder.SetMaxSendMessageSize(wire::kMaxControlMessageBytes);
    grpc::ResourceQuota quota("received by " + options.listen);
    quota.Resize(kReceivedBytes);
    builder.SetResourceQuota(quota);
    // Nobody compresses here, and a small message could become a large one.
    for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
      builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
    }
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreamsOfConnection);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 2'000);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    builder.AddChannelArgument(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
    server_ = builder.BuildAndStart();
    if (!server_) {
      return Internal("cannot listen on " + options.listen + ": gRPC could not start a server");
    }
    if (options.security.tls == nullptr && options.security.users) {
      guard_ = std::make_unique<LoopbackGuard>(*options.security.users);
      on_refused_connection_ = options.security.on_refused_connection;
    }
    MILLRACE_ASSIGN_OR_RETURN(
        listener_,
        Listener::Start(
            {.listen = options.listen,
             .opening = options.security.tls != nullptr ? Opening::kTls : Opening::kHttp2,
             .on_connection = [this](int fd, int from) { OnConnection(fd, from); },
             .on_refused = options.security.on_refused_connection}));
    return OkStatus();
  }

  int port() const override { return listener_->port(); }

  void SetDraining() override {
    if (auto* health = server_->GetHealthCheckService()) health->SetServingStatus(false);
  }

  void Shutdown(std::chrono::nanoseconds grace) override {
    SetDraining();
    listener_.reset();
    guard_.reset();
    server_->Shutdown(SecondsFromNow(std::chrono::duration<double>(grace).count()));
    server_->Wait();
    server_.reset();
  }

 private:
  std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const ServerSecurity& security) const {
    if (security.tls == nullptr) return grpc::InsecureServerCredentials();
    const bool tokens = security.policy != nullptr && security.policy->takes_tokens();
    return MakeTlsServerCredentials(security.tls, tokens, gate_);
  }

  void OnConnection(int connection, int listening) {
    const std::string peer = guard_ == nullptr ? std::string() : PeerName(connection);
    if (guard_ != nullptr && guard_->TurnsAway(connection, listening)) {
      if (on_refused_connection_) on_refused_connection_(RefusedConnection::kUser, peer);
      return;
    }
    unfinished_->Watch(connection);
    HandOver(*acceptor_, connection, listening);
  }

  const std::unique_ptr<grpc::Service> service_;
  const std::shared_ptr<CallGate> gate_;
  const std::shared_ptr<UnfinishedMessages> unfinished_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<LoopbackGuard> guard_;       // null: everybody who can connect is served
  OnRefusedConnection on_refused_connection_;  // of the loopback guard
  std::unique_ptr<Listener> listener_;
};

template <class Adapter, class Endpoint>
Result<std::unique_ptr<GrpcServer>> StartService(const GrpcServerOptions& options,
                                                 std::shared_ptr<Endpoint> endpoint,
                                                 int max_received_bytes) {
  const std::shared_ptr<CallGate> gate = GateOf(options.security);
  const auto on_refused = options.security.on_refused_connection;
  const auto unfinished = std::make_shared<UnfinishedMessages>(UnfinishedMessagesOptions{
      .memory = OwnAnonymousMemory, .on_ended = [on_refused](const std::string& peer) {
        if (on_refused) on_refused(RefusedConnection::kUnfinished, peer);
      }});
  auto server = std::make_unique<GrpcServerImpl>(
      std::make_unique<Adapter>(std::move(endpoint), Gated(gate, unfinished)), gate, unfinished);
  MILLRACE_RETURN_IF_ERROR(server->Listen(options, max_received_bytes));
  return std::unique_ptr<GrpcServer>(std::move(server));
}

}  // namespace

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const GrpcServerOptions& options, std::shared_ptr<DispatcherEndpoint> endpoint) {
  return StartService<DispatcherAdapter>(options, std::move(endpoint), wire::kMaxToDispatcherBytes);
}

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options,
                                                      std::shared_ptr<WorkerEndpoint> endpoint) {
  return StartService<WorkerAdapter>(options, std::move(endpoint), wire::kMaxBatchMessageBytes);
}

}  // namespace millrace
