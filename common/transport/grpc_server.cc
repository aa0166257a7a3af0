#include "common/transport/grpc_server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include "common/base/mutex.h"
#include "common/transport/grpc_status.h"
#include "common/transport/wire.h"
#include "millrace/v1/dispatcher.grpc.pb.h"
#include "millrace/v1/worker.grpc.pb.h"

namespace millrace {
namespace {

template <class Ours, class Grpcs>
struct Codec {
  static Grpcs Encode(Ours message) { return message; }
  static Result<Ours> Decode(Grpcs& message) { return std::move(message); }
};
template <>
struct Codec<OutgoingPart, grpc::ByteBuffer> {
  static grpc::ByteBuffer Encode(OutgoingPart part) { return wire::EncodePart(std::move(part)); }
};
template <>
struct Codec<v1::WantList, grpc::ByteBuffer> {
  static Result<v1::WantList> Decode(grpc::ByteBuffer& buffer) { return wire::DecodeWants(buffer); }
};

/// One served call. It keeps itself alive from Begin to OnDone. At most one write is started at a
/// time, and Finish only after it; both under `mutex_`. Handler calls are kept apart by `calls_`.
template <class In, class GrpcIn, class Out, class GrpcOut>
class ServedCall final : public grpc::ServerBidiReactor<GrpcIn, GrpcOut> {
 public:
  /// `accept` makes the handler of a stream; without one the call is refused.
  template <class Accept>
  static ServedCall* Begin(Accept accept);

  void Write(Out message) {
    MutexLock lock(mutex_);
    if (finished_) return;
    writing_ = true;
    outgoing_ = Codec<Out, GrpcOut>::Encode(std::move(message));
    this->StartWrite(&outgoing_);
  }

  void Close(const Status& status) {
    MutexLock lock(mutex_);
    FinishOnce(status);
  }

  void OnReadDone(bool ok) override {
    Status end;
    if (ok) {
      Result<In> message = Codec<In, GrpcIn>::Decode(incoming_);
      if (message.ok()) {
        {
          MutexLock lock(calls_);
          if (handler_) handler_->OnMessage(std::move(message).value());
        }
        this->StartRead(&incoming_);
        return;
      }
      end = message.status();
    }
    MutexLock lock(mutex_);
    FinishOnce(end);
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      if (finished_) {
        this->Finish(final_);
        return;
      }
    }
    if (!ok) return;  // OnReadDone or OnCancel follows
    MutexLock lock(calls_);
    if (handler_) handler_->OnWriteDone();
  }

  void OnCancel() override {
    MutexLock lock(mutex_);
    cancelled_ = true;
    FinishOnce(Cancelled("the other end cancelled or is gone"));
  }

  void OnDone() override {
    bool cancelled = false;
    {
      MutexLock lock(mutex_);
      cancelled = cancelled_;
    }
    if (handler_) {
      MutexLock lock(calls_);
      handler_->OnClosed(cancelled ? Cancelled("the other end cancelled or is gone") : OkStatus());
    }
    handler_.reset();
    self_.reset();
  }

 private:
  void FinishOnce(const Status& status) MILLRACE_REQUIRES(mutex_) {
    if (finished_) return;
    finished_ = true;
    final_ = ToGrpcStatus(status);
    if (!writing_) this->Finish(final_);
  }

  GrpcIn incoming_;
  Mutex calls_;
  std::shared_ptr<StreamHandler<In>> handler_;  // until OnDone
  Mutex mutex_;
  GrpcOut outgoing_ MILLRACE_GUARDED_BY(mutex_);
  bool writing_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool finished_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool cancelled_ MILLRACE_GUARDED_BY(mutex_) = false;
  grpc::Status final_ MILLRACE_GUARDED_BY(mutex_);
  std::shared_ptr<ServedCall> self_;
};

template <class CallType, class Out>
class ServedStream final : public Stream<Out> {
 public:
  explicit ServedStream(std::shared_ptr<CallType> call) : call_(std::move(call)) {}
  ~ServedStream() override { call_->Close(Cancelled("stream dropped")); }
  void Write(Out message) override { call_->Write(std::move(message)); }
  void Close(const Status& status) override { call_->Close(status); }

 private:
  std::shared_ptr<CallType> call_;
};

template <class In, class GrpcIn, class Out, class GrpcOut>
template <class Accept>
ServedCall<In, GrpcIn, Out, GrpcOut>* ServedCall<In, GrpcIn, Out, GrpcOut>::Begin(Accept accept) {
  auto call = std::make_shared<ServedCall>();
  call->self_ = call;
  {
    const auto stream = std::make_shared<ServedStream<ServedCall, Out>>(call);
    // The handler may write from within accept: its OnWriteDone then waits for `calls_`.
    MutexLock lock(call->calls_);
    call->handler_ = accept(stream);
    if (!call->handler_) {
      call->Close(Unavailable("shutting down"));
      return call.get();
    }
  }
  call->StartRead(&call->incoming_);
  return call.get();
}

/// The parts of a static table, one message after another.
class StaticReactor final : public grpc::ServerWriteReactor<v1::StaticPart> {
 public:
  StaticReactor(std::shared_ptr<const std::string> bytes, std::uint64_t offset)
      : bytes_(std::move(bytes)), offset_(offset) {
    WriteNext();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status::CANCELLED);
    } else {
      WriteNext();
    }
  }
  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    if (offset_ >= bytes_->size()) {
      Finish(grpc::Status::OK);
      return;
    }
    part_.set_total_bytes(bytes_->size());
    part_.set_offset(offset_);
    part_.set_data(bytes_->substr(offset_, wire::kMaxPartBytes));
    offset_ += part_.data().size();
    StartWrite(&part_);
  }

  const std::shared_ptr<const std::string> bytes_;
  std::uint64_t offset_;
  v1::StaticPart part_;
};

/// A reactor that only ends a server-streaming call.
template <class Message>
class RefusedReactor final : public grpc::ServerWriteReactor<Message> {
 public:
  explicit RefusedReactor(const Status& status) { this->Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

/// The status, once a period, until the reader goes away.
class StatusReactor final : public grpc::ServerWriteReactor<v1::ServiceStatus> {
 public:
  StatusReactor(std::shared_ptr<DispatcherEndpoint> endpoint, std::chrono::milliseconds period)
      : endpoint_(std::move(endpoint)), period_(period) {
    WriteOne();
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    if (!ok || cancelled_) {
      FinishOnce(OkStatus());
      return;
    }
    waiting_ = true;
    alarm_.Set(std::chrono::system_clock::now() + period_, [this](bool) {
      {
        MutexLock inner(mutex_);
        waiting_ = false;
        if (cancelled_) {
          FinishOnce(OkStatus());
          return;
        }
      }
      WriteOne();
    });
  }
  void OnCancel() override {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (waiting_) alarm_.Cancel();
  }
  void OnDone() override { delete this; }

 private:
  void WriteOne() {
    Result<v1::ServiceStatus> status = endpoint_->OnGetStatus();
    MutexLock lock(mutex_);
    if (!status.ok()) {
      FinishOnce(status.status());
      return;
    }
    message_ = std::move(status).value();
    StartWrite(&message_);
  }
  void FinishOnce(const Status& status) MILLRACE_REQUIRES(mutex_) {
    if (finished_) return;
    finished_ = true;
    Finish(ToGrpcStatus(status));
  }

  const std::shared_ptr<DispatcherEndpoint> endpoint_;
  const std::chrono::milliseconds period_;
  grpc::Alarm alarm_;
  Mutex mutex_;
  v1::ServiceStatus message_ MILLRACE_GUARDED_BY(mutex_);
  bool waiting_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool cancelled_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool finished_ MILLRACE_GUARDED_BY(mutex_) = false;
};

class DispatcherAdapter final : public v1::Dispatcher::CallbackService {
 public:
  explicit DispatcherAdapter(std::shared_ptr<DispatcherEndpoint> endpoint)
      : endpoint_(std::move(endpoint)) {}

  grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>* Attach(
      grpc::CallbackServerContext* context) override {
    using C =
        ServedCall<v1::AttachRequest, v1::AttachRequest, v1::AttachResponse, v1::AttachResponse>;
    return C::Begin(
        [&](auto stream) { return endpoint_->OnAttach(std::move(stream), context->peer()); });
  }
  grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>* Work(
      grpc::CallbackServerContext* context) override {
    using C = ServedCall<v1::WorkRequest, v1::WorkRequest, v1::WorkResponse, v1::WorkResponse>;
    return C::Begin(
        [&](auto stream) { return endpoint_->OnWork(std::move(stream), context->peer()); });
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
    return new StatusReactor(endpoint_,
                             std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3)));
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

/// Batches go as raw byte buffers; the rest of the service is typed.
using WorkerBase = v1::Worker::WithRawCallbackMethod_StreamBatches<
    v1::Worker::WithCallbackMethod_GetStatic<v1::Worker::Service>>;

class WorkerAdapter final : public WorkerBase {
 public:
  explicit WorkerAdapter(std::shared_ptr<WorkerEndpoint> endpoint)
      : endpoint_(std::move(endpoint)) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StreamBatches(
      grpc::CallbackServerContext* context) override {
    using C = ServedCall<v1::WantList, grpc::ByteBuffer, OutgoingPart, grpc::ByteBuffer>;
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
    return new StaticReactor(found->bytes, request->offset());
  }

 private:
  const std::shared_ptr<WorkerEndpoint> endpoint_;
};

/// gRPC says only that it could not listen; a socket says why.
Status CheckListen(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string::npos) {
    return InvalidArgument("listen address '" + listen + "': expected host:port");
  }
  std::string host = listen.substr(0, colon);
  const std::string port = listen.substr(colon + 1);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (port.empty() || port.size() > 5 || !std::all_of(port.begin(), port.end(), ::isdigit) ||
      std::stoi(port) > 65535) {
    return InvalidArgument("listen address '" + listen +
                           "': expected a port from 0 to 65535, got '" + port + "'");
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list); error != 0) {
    return InvalidArgument("listen address '" + listen + "': " + gai_strerror(error));
  }
  const int socket_fd = socket(list->ai_family, list->ai_socktype | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  int error = 0;
  if (bind(socket_fd, list->ai_addr, list->ai_addrlen) != 0 || ::listen(socket_fd, 1) != 0) {
    error = errno;
  }
  close(socket_fd);
  freeaddrinfo(list);
  switch (error) {
    case 0:
      return OkStatus();
    case EADDRINUSE:
      return AlreadyExists(
          "cannot listen on " + listen +
          ": the port is in use by another process; stop it or choose another port");
    case EACCES:
      return PermissionDenied("cannot listen on " + listen +
                              ": no permission; choose a port above 1023");
    default:
      return InvalidArgument("cannot listen on " + listen + ": " + std::strerror(error));
  }
}

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
    // Without this a second daemon starts on the same port and takes some of its connections.
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
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(grace));
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
