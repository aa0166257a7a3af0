#include "common/transport/grpc/grpc_client.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "common/base/addresses.h"
#include "common/base/hash.h"
#include "common/base/protocol_limits.h"
#include "common/system/mutex.h"
#include "common/system/ticker.h"
#include "common/transport/grpc/grpc_client_call.h"
#include "common/transport/grpc/grpc_deadline.h"
#include "common/transport/grpc/grpc_status.h"
#include "common/transport/wire.h"
#include "millrace/v1/dispatcher.grpc.pb.h"
#include "millrace/v1/worker.grpc.pb.h"

namespace millrace {
namespace {

/// Cancels a call if nothing has come for `seconds`. It may take up to twice that time to notice.
class SilenceLimit {
 public:
  SilenceLimit(grpc::ClientContext& context, double seconds)
      : context_(context),
        seconds_(seconds),
        ticker_(std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3)),
                [this] { Look(); }) {}
  void Heard() { heard_ = true; }
  bool exceeded() const { return exceeded_; }
  double seconds() const { return seconds_; }

 private:
  void Look() {
    if (heard_.exchange(false)) return;
    exceeded_ = true;
    context_.TryCancel();
  }

  grpc::ClientContext& context_;
  const double seconds_;
  std::atomic<bool> heard_{true};
  std::atomic<bool> exceeded_{false};
  Ticker ticker_;  // declared last, because its thread uses the members above
};

/// The bytes that come in parts. `what` names them in messages.
template <class Part>
Result<std::string> ReadParts(grpc::ClientReader<Part>& reader, grpc::ClientContext& context,
                              SilenceLimit& silence, const std::string& what) {
  std::string bytes;
  Part part;
  bool fits = true;
  while (fits && reader.Read(&part)) {
    silence.Heard();
    fits = part.offset() == bytes.size() && part.total_bytes() <= kMaxStaticBytes &&
           bytes.size() + part.data().size() <= part.total_bytes();
    if (fits) bytes += part.data();
  }
  if (!fits) context.TryCancel();
  const Status end = FromGrpcStatus(reader.Finish()).WithContext(what);
  if (silence.exceeded()) {
    return DeadlineExceeded(
        fmt::format("{}: nothing came for {:.1f} s or more", what, silence.seconds()));
  }
  if (!fits) {
    return DataLoss(fmt::format(
        "{}: {} bytes at {} of {}: expected bytes at {}, of at most {} in all", what,
        part.data().size(), part.offset(), part.total_bytes(), bytes.size(), kMaxStaticBytes));
  }
  MILLRACE_RETURN_IF_ERROR(end);
  return bytes;
}

constexpr std::size_t kMostChannels = 64;
constexpr double kLeadsWithinSeconds = 2;

class GrpcConnector final : public Connector {
 public:
  explicit GrpcConnector(const GrpcClientOptions& options) : options_(options) {}

  void WaitForStreams(double timeout_seconds) override { calls_->WaitForNone(timeout_seconds); }

  std::shared_ptr<Stream<v1::AttachRequest>> Attach(
      const std::string& address,
      std::shared_ptr<StreamHandler<v1::AttachResponse>> handler) override {
    using C = GrpcClientCall<v1::AttachRequest, v1::AttachRequest, v1::AttachResponse,
                             v1::AttachResponse>;
    auto stub = std::make_shared<v1::Dispatcher::Stub>(Channel(address));
    auto call = C::Begin(std::move(handler), calls_, [&](grpc::ClientContext& context, C* reactor) {
      stub->async()->Attach(&context, reactor);
    });
    return std::make_shared<GrpcStream<C, v1::AttachRequest>>(std::move(call));
  }

  std::shared_ptr<Stream<v1::WorkRequest>> Work(
      const std::string& address,
      std::shared_ptr<StreamHandler<v1::WorkResponse>> handler) override {
    using C = GrpcClientCall<v1::WorkRequest, v1::WorkRequest, v1::WorkResponse, v1::WorkResponse>;
    auto stub = std::make_shared<v1::Dispatcher::Stub>(Channel(address));
    auto call = C::Begin(std::move(handler), calls_, [&](grpc::ClientContext& context, C* reactor) {
      stub->async()->Work(&context, reactor);
    });
    return std::make_shared<GrpcStream<C, v1::WorkRequest>>(std::move(call));
  }

  std::shared_ptr<Stream<v1::TraceRequest>> Trace(
      const std::string& address, std::shared_ptr<StreamHandler<v1::TraceChunk>> handler) override {
    using C = GrpcClientCall<v1::TraceRequest, v1::TraceRequest, v1::TraceChunk, v1::TraceChunk>;
    auto stub = std::make_shared<v1::Dispatcher::Stub>(Channel(Leading(address)));
    auto call = C::Begin(std::move(handler), calls_, [&](grpc::ClientContext& context, C* reactor) {
      stub->async()->Trace(&context, reactor);
    });
    return std::make_shared<GrpcStream<C, v1::TraceRequest>>(std::move(call));
  }

  std::shared_ptr<Stream<v1::WantList>> StreamBatches(
      const BatchAddress& where, std::shared_ptr<StreamHandler<IncomingPart>> handler) override {
    using C = GrpcClientCall<v1::WantList, grpc::ByteBuffer, IncomingPart, grpc::ByteBuffer>;
    grpc::GenericStub stub(Channel(where.address));
    auto call = C::Begin(std::move(handler), calls_, [&](grpc::ClientContext& context, C* reactor) {
      stub.PrepareBidiStreamingCall(&context, "/millrace.v1.Worker/StreamBatches", {}, reactor);
    });
    return std::make_shared<GrpcStream<C, v1::WantList>>(std::move(call));
  }

  Result<std::string> GetStatic(const std::string& address, const std::string& fingerprint,
                                const std::string& digest, double silence_seconds,
                                std::stop_token stop) override {
    grpc::ClientContext context;
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    SilenceLimit silence(context, silence_seconds);
    v1::GetStaticRequest request;
    request.set_fingerprint(fingerprint);
    request.set_digest(digest);
    auto stub = v1::Worker::NewStub(Channel(address));
    const auto reader = stub->GetStatic(&context, request);
    MILLRACE_ASSIGN_OR_RETURN(
        std::string bytes, ReadParts(*reader, context, silence, "static tables from " + address));
    if (Xxh3(bytes).ToHex() != digest) {
      return DataLoss("static tables from " + address + ": " + std::to_string(bytes.size()) +
                      " bytes that differ from digest " + digest);
    }
    return bytes;
  }

  Result<std::string> GetColumn(const std::string& addresses, const v1::GetColumnRequest& request,
                                double silence_seconds, std::stop_token stop) override {
    const std::string address = Leading(addresses);
    grpc::ClientContext context;
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    SilenceLimit silence(context, silence_seconds);
    auto stub = v1::Dispatcher::NewStub(Channel(address));
    const auto reader = stub->GetColumn(&context, request);
    return ReadParts(*reader, context, silence,
                     fmt::format("column {} from {}", request.column(), address));
  }

  Result<v1::ServiceStatus> GetStatus(const std::string& address, double timeout_seconds) override {
    return Unary<v1::ServiceStatus>(address, timeout_seconds,
                                    [](auto& stub, auto* context, auto* out) {
                                      return stub.GetStatus(context, v1::GetStatusRequest(), out);
                                    });
  }
  Status WatchStatus(const std::string& addresses, double period_seconds,
                     const std::function<void(const v1::ServiceStatus&)>& on_status,
                     std::stop_token stop) override {
    const std::string address = Leading(addresses);
    grpc::ClientContext context;
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    v1::GetStatusRequest request;
    request.set_period_seconds(period_seconds);
    const double limit = 3 * period_seconds + options_.silence_seconds;
    SilenceLimit silence(context, limit);
    auto stub = v1::Dispatcher::NewStub(Channel(address));
    auto reader = stub->WatchStatus(&context, request);
    v1::ServiceStatus status;
    while (reader->Read(&status)) {
      silence.Heard();
      on_status(status);
    }
    const Status end = FromGrpcStatus(reader->Finish()).WithContext("dispatcher at " + address);
    if (stop.stop_requested()) return OkStatus();
    if (!silence.exceeded()) return end;
    return DeadlineExceeded(fmt::format(
        "dispatcher at {}: no status for {:.1f} s or more; is it stopped, hung or unreachable?",
        address, limit));
  }
  Result<v1::DrainWorkerResponse> DrainWorker(const std::string& address,
                                              const v1::DrainWorkerRequest& request,
                                              double timeout_seconds) override {
    return Unary<v1::DrainWorkerResponse>(address, timeout_seconds,
                                          [&](auto& stub, auto* context, auto* out) {
                                            return stub.DrainWorker(context, request, out);
                                          });
  }
  Result<v1::EndJobResponse> EndJob(const std::string& address, const v1::EndJobRequest& request,
                                    double timeout_seconds) override {
    return Unary<v1::EndJobResponse>(
        address, timeout_seconds,
        [&](auto& stub, auto* context, auto* out) { return stub.EndJob(context, request, out); });
  }

 private:
  /// Asks the dispatchers one after another, until one of them answers: the one that leads.
  template <class Out, class F>
  Result<Out> Unary(const std::string& addresses, double timeout_seconds, F f) {
    Result<Out> result = Unavailable("no dispatcher");
    for (const std::string& address : SplitAddresses(addresses)) {
      grpc::ClientContext context;
      context.set_deadline(SecondsFromNow(timeout_seconds));
      v1::Dispatcher::Stub stub(Channel(address));
      Out out;
      const Status status = FromGrpcStatus(f(stub, &context, &out));
      result = status.ok() ? Result<Out>(std::move(out))
                           : Result<Out>(status.WithContext("dispatcher at " + address));
      if (status.code() != StatusCode::kUnavailable &&
          status.code() != StatusCode::kDeadlineExceeded) {
        break;
      }
    }
    return result;
  }

  /// The address of the dispatcher that leads. If none says that it leads, this is the first
  /// address.
  std::string Leading(const std::string& addresses) {
    const std::vector<std::string> all = SplitAddresses(addresses);
    if (all.size() == 1) return all.front();
    for (const std::string& address : all) {
      if (GetStatus(address, kLeadsWithinSeconds).ok()) return address;
    }
    return all.front();
  }

  std::shared_ptr<grpc::Channel> Channel(const std::string& address) {
    MutexLock lock(mutex_);
    if (channels_.size() > kMostChannels) {
      // Workers come and go over a month, so connections that nobody uses are closed.
      std::erase_if(channels_, [](const auto& entry) { return entry.second.use_count() == 1; });
    }
    std::shared_ptr<grpc::Channel>& channel = channels_[address];
    if (!channel) {
      grpc::ChannelArguments args;
      args.SetMaxReceiveMessageSize(wire::kMaxControlMessageBytes);
      args.SetMaxSendMessageSize(wire::kMaxControlMessageBytes);
      // Each connector has its own connections, so that ranks in one process do not share a socket.
      args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(options_.keepalive_seconds * 1e3));
      args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                  static_cast<int>(options_.keepalive_timeout_seconds * 1e3));
      args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
      // The session retries, with its own jitter. So gRPC's back-off stays short.
      args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
      args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
      args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
      args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
      args.SetInt(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
      args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
      channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
    }
    return channel;
  }

  const GrpcClientOptions options_;
  const std::shared_ptr<GrpcCallCount> calls_ = std::make_shared<GrpcCallCount>();
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<Connector> MakeGrpcConnector(const GrpcClientOptions& options) {
  return std::make_shared<GrpcConnector>(options);
}

}  // namespace millrace
