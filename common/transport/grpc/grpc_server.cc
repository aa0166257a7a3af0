#include "common/transport/grpc/grpc_server.h"

#include <algorithm>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "common/transport/grpc/grpc_deadline.h"
#include "common/transport/grpc/grpc_served_call.h"
#include "common/transport/grpc/grpc_server_reactors.h"
#include "common/transport/grpc/grpc_status.h"
#include "common/transport/grpc/listen_check.h"
#include "common/transport/wire.h"
#include "millrace/v1/dispatcher.grpc.pb.h"
#include "millrace/v1/worker.grpc.pb.h"

namespace millrace {
namespace {

class DispatcherAdapter final : public v1::Dispatcher::CallbackService {
 public:
  explicit DispatcherAdapter(std::shared_ptr<DispatcherEndpoint> endpoint)
      : endpoint_(std::move(endpoint)) {}

  grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>* Attach(
      grpc::CallbackServerContext* context) override {
    using C = GrpcServedCall<v1::AttachRequest, v1::AttachRequest, v1::AttachResponse,
                             v1::AttachResponse>;
    return C::Begin(
        [&](auto stream) { return endpoint_->OnAttach(std::move(stream), context->peer()); });
  }
  grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>* Work(
      grpc::CallbackServerContext* context) override {
    using C = GrpcServedCall<v1::WorkRequest, v1::WorkRequest, v1::WorkResponse, v1::WorkResponse>;
    return C::Begin(
        [&](auto stream) { return endpoint_->OnWork(std::move(stream), context->peer()); });
  }
  grpc::ServerBidiReactor<v1::TraceRequest, v1::TraceChunk>* Trace(
      grpc::CallbackServerContext*) override {
    using C = GrpcServedCall<v1::TraceRequest, v1::TraceRequest, v1::TraceChunk, v1::TraceChunk>;
    return C::Begin([&](auto stream) { return endpoint_->OnTrace(std::move(stream)); });
  }
  grpc::ServerWriteReactor<v1::ColumnPart>* GetColumn(
      grpc::CallbackServerContext*, const v1::GetColumnRequest* request) override {
    auto found = endpoint_->OnGetColumn(*request);
    if (!found.ok()) return new RefusedReactor<v1::ColumnPart>(found.status());
    return new PartsReactor<v1::ColumnPart>(*std::move(found), 0);
  }
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest*,
                                      v1::ServiceStatus* response) override {
    return Answer(context, endpoint_->OnGetStatus(), response);
  }
  grpc::ServerWriteReactor<v1::ServiceStatus>* WatchStatus(
      grpc::CallbackServerContext*, const v1::GetStatusRequest* request) override {
    double seconds = request->period_seconds();
    if (!(seconds > 0)) seconds = 1;
    seconds = std::clamp(seconds, 0.1, 3600.0);
    return new StatusReactor(endpoint_, seconds);
  }
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context,
                                        const v1::DrainWorkerRequest* request,
                                        v1::DrainWorkerResponse* response) override {
    return Answer(context, endpoint_->OnDrainWorker(*request), response);
  }
  grpc::ServerUnaryReactor* EndJob(grpc::CallbackServerContext* context,
                                   const v1::EndJobRequest* request,
                                   v1::EndJobResponse* response) override {
    return Answer(context, endpoint_->OnEndJob(*request), response);
  }

 private:
  template <class Message>
  static grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                          Result<Message> result, Message* response) {
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

class WorkerAdapter final : public WorkerBase {
 public:
  explicit WorkerAdapter(std::shared_ptr<WorkerEndpoint> endpoint)
      : endpoint_(std::move(endpoint)) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StreamBatches(
      grpc::CallbackServerContext* context) override {
    using C = GrpcServedCall<v1::WantList, grpc::ByteBuffer, OutgoingPart, grpc::ByteBuffer>;
    return C::Begin([&](auto stream) {
      return endpoint_->OnStreamBatches(std::move(stream), context->peer());
    });
  }
  grpc::ServerWriteReactor<v1::StaticPart>* GetStatic(
      grpc::CallbackServerContext*, const v1::GetStaticRequest* request) override {
    Result<StaticBytes> found = endpoint_->OnGetStatic(request->fingerprint());
    if (!found.ok()) return new RefusedReactor<v1::StaticPart>(found.status());
    if (found->digest != request->digest()) {
      return new RefusedReactor<v1::StaticPart>(NotFound(
          "static tables with digest " + request->digest() + ": this worker has " + found->digest));
    }
    return new PartsReactor<v1::StaticPart>(found->bytes, request->offset());
  }

 private:
  const std::shared_ptr<WorkerEndpoint> endpoint_;
};

class GrpcServerImpl final : public GrpcServer {
 public:
  GrpcServerImpl(std::unique_ptr<grpc::Service> service) : service_(std::move(service)) {}
  ~GrpcServerImpl() override {
    if (server_) Shutdown(std::chrono::seconds(0));
  }

  Status Listen(const GrpcServerOptions& options, int max_message_bytes) {
    MILLRACE_RETURN_IF_ERROR(CheckListen(options.listen));
    static const bool health [[maybe_unused]] = [] {
      grpc::EnableDefaultHealthCheckService(true);
      return true;
    }();
    grpc::ServerBuilder builder;
    builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(service_.get());
    builder.SetMaxReceiveMessageSize(max_message_bytes);
    builder.SetMaxSendMessageSize(max_message_bytes);
    // Without this, a second daemon could start on the same port and take some of the connections.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 2'000);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    builder.AddChannelArgument(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
    server_ = builder.BuildAndStart();
    if (!server_ || port_ == 0) {
      return AlreadyExists("cannot listen on " + options.listen + ": gRPC could not start there");
    }
    return OkStatus();
  }

  int port() const override { return port_; }

  void SetDraining() override {
    if (auto* health = server_->GetHealthCheckService()) health->SetServingStatus(false);
  }

  void Shutdown(std::chrono::nanoseconds grace) override {
    SetDraining();
    server_->Shutdown(SecondsFromNow(std::chrono::duration<double>(grace).count()));
    server_->Wait();
    server_.reset();
  }

 private:
  const std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

Result<std::unique_ptr<GrpcServer>> StartService(const GrpcServerOptions& options,
                                                 std::unique_ptr<grpc::Service> service,
                                                 int max_message_bytes) {
  auto server = std::make_unique<GrpcServerImpl>(std::move(service));
  MILLRACE_RETURN_IF_ERROR(server->Listen(options, max_message_bytes));
  return std::unique_ptr<GrpcServer>(std::move(server));
}

}  // namespace

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const GrpcServerOptions& options, std::shared_ptr<DispatcherEndpoint> endpoint) {
  return StartService(options, std::make_unique<DispatcherAdapter>(std::move(endpoint)),
                      wire::kMaxControlMessageBytes);
}

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options,
                                                      std::shared_ptr<WorkerEndpoint> endpoint) {
  return StartService(options, std::make_unique<WorkerAdapter>(std::move(endpoint)),
                      wire::kMaxBatchMessageBytes);
}

}  // namespace millrace
