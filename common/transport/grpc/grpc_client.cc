#include "common/transport/grpc/grpc_client.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
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
#include "common/transport/grpc/grpc_channels.h"
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

constexpr double kLeadsWithinSeconds = 2;
/// How often a tool connects again if it is turned away, and after which pause.
constexpr int kTurnedAwayTries = 10;
constexpr std::chrono::milliseconds kTurnedAwayPause(100);

/// Adds the reason to the status with which a stream ends, if its connection failed because of TLS.
template <class In>
class Explained final : public StreamHandler<In> {
 public:
  Explained(std::shared_ptr<StreamHandler<In>> handler, std::shared_ptr<GrpcChannels> channels,
            std::string address, PeerRole role)
      : handler_(std::move(handler)),
        channels_(std::move(channels)),
        address_(std::move(address)),
        role_(role) {}
  void OnMessage(In message) override { handler_->OnMessage(std::move(message)); }
  void OnWriteDone() override { handler_->OnWriteDone(); }
  void OnClosed(const Status& status) override {
    // The channels may outlive their connector by this call, but not this handler.
    handler_->OnClosed(channels_->ExplainLater(status, address_, role_));
  }

 private:
  const std::shared_ptr<StreamHandler<In>> handler_;
  const std::shared_ptr<GrpcChannels> channels_;
  const std::string address_;
  const PeerRole role_;
};

class GrpcConnector final : public Connector {
 public:
  explicit GrpcConnector(const GrpcClientOptions& options)
      : options_(options), channels_(std::make_shared<GrpcChannels>(options)) {}

  void WaitForStreams(double timeout_seconds) override { calls_->WaitForNone(timeout_seconds); }

  std::shared_ptr<Stream<v1::AttachRequest>> Attach(
      const std::string& address,
      std::shared_ptr<StreamHandler<v1::AttachResponse>> handler) override {
    using C = GrpcClientCall<v1::AttachRequest, v1::AttachRequest, v1::AttachResponse,
                             v1::AttachResponse>;
    auto stub = std::make_shared<v1::Dispatcher::Stub>(Channel(address));
    auto call =
        Begin<C>(std::move(handler), address, [&](grpc::ClientContext& context, C* reactor) {
          stub->async()->Attach(&context, reactor);
        });
    return std::make_shared<GrpcStream<C, v1::AttachRequest>>(std::move(call));
  }

  std::shared_ptr<Stream<v1::WorkRequest>> Work(
      const std::string& address,
      std::shared_ptr<StreamHandler<v1::WorkResponse>> handler) override {
    using C = GrpcClientCall<v1::WorkRequest, v1::WorkRequest, v1::WorkResponse, v1::WorkResponse>;
    auto stub = std::make_shared<v1::Dispatcher::Stub>(Channel(address));
    auto call = Begin<C>(
        std::move(handler), address,
        [&](grpc::ClientContext& context, C* reactor) { stub->async()->Work(&context, reactor); });
    return std::make_shared<GrpcStream<C, v1::WorkRequest>>(std::move(call));
  }

  std::shared_ptr<Stream<v1::TraceRequest>> Trace(
      const std::string& address, std::shared_ptr<StreamHandler<v1::TraceChunk>> handler) override {
    using C = GrpcClientCall<v1::TraceRequest, v1::TraceRequest, v1::TraceChunk, v1::TraceChunk>;
    const std::string leading = Leading(address);
    auto stub = std::make_shared<v1::Dispatcher::Stub>(Channel(leading));
    auto call = Begin<C>(
        std::move(handler), leading,
        [&](grpc::ClientContext& context, C* reactor) { stub->async()->Trace(&context, reactor); });
    return std::make_shared<GrpcStream<C, v1::TraceRequest>>(std::move(call));
  }

  std::shared_ptr<Stream<v1::WantList>> StreamBatches(
      const BatchAddress& where, std::shared_ptr<StreamHandler<IncomingPart>> handler) override {
    using C = GrpcClientCall<v1::WantList, grpc::ByteBuffer, IncomingPart, grpc::ByteBuffer>;
    grpc::GenericStub stub(channels_->Get(where.address, PeerRole::kWorker));
    const auto prepare = [&](grpc::ClientContext& context, C* reactor) {
      stub.PrepareBidiStreamingCall(&context, "/millrace.v1.Worker/StreamBatches", {}, reactor);
    };
    auto call = Begin<C>(std::move(handler), where.address, prepare, PeerRole::kWorker);
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
    channels_->Prepare(context);
    auto stub = v1::Worker::NewStub(channels_->Get(address, PeerRole::kWorker));
    const auto reader = stub->GetStatic(&context, request);
    Result<std::string> read =
        ReadParts(*reader, context, silence, "static tables from " + address);
    if (!read.ok()) return channels_->Explain(read.status(), address, PeerRole::kWorker);
    std::string bytes = *std::move(read);
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
    channels_->Prepare(context);
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
    channels_->Prepare(context);
    auto stub = v1::Dispatcher::NewStub(Channel(address));
    auto reader = stub->WatchStatus(&context, request);
    v1::ServiceStatus status;
    while (reader->Read(&status)) {
      silence.Heard();
      on_status(status);
    }
    const Status finished = FromGrpcStatus(reader->Finish());
    if (stop.stop_requested()) return OkStatus();
    const Status end = channels_->Explain(finished, address, PeerRole::kDispatcher)
                           .WithContext("dispatcher at " + address);
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
  /// Begins a stream to the server at `address`, which has to prove `role`.
  template <class C, class In, class Start>
  std::shared_ptr<C> Begin(std::shared_ptr<StreamHandler<In>> handler, const std::string& address,
                           Start start, PeerRole role = PeerRole::kDispatcher) {
    auto explained = std::make_shared<Explained<In>>(std::move(handler), channels_, address, role);
    return C::Begin(std::move(explained), calls_, [&](grpc::ClientContext& context, C* reactor) {
      channels_->Prepare(context);
      start(context, reactor);
    });
  }

  /// Asks the dispatchers one after another, until one of them answers: the one that leads.
  template <class Out, class F>
  Result<Out> Unary(const std::string& addresses, double timeout_seconds, F f) {
    Result<Out> result = Unavailable("no dispatcher");
    for (const std::string& address : SplitAddresses(addresses)) {
      Out out;
      const Status status = AskOne(address, timeout_seconds, out, f);
      result = status.ok() ? Result<Out>(std::move(out))
                           : Result<Out>(status.WithContext("dispatcher at " + address));
      if (status.code() != StatusCode::kUnavailable &&
          status.code() != StatusCode::kDeadlineExceeded) {
        break;
      }
    }
    return result;
  }

  /// Asks one dispatcher. If that has too many connections for the moment, it is asked again.
  template <class Out, class F>
  Status AskOne(const std::string& address, double timeout_seconds, Out& out, F f) {
    for (int again = kTurnedAwayTries;; --again) {
      grpc::ClientContext context;
      context.set_deadline(SecondsFromNow(timeout_seconds));
      channels_->Prepare(context);
      v1::Dispatcher::Stub stub(Channel(address));
      const Status status = FromGrpcStatus(f(stub, &context, &out));
      if (!GrpcChannels::WasTurnedAway(status)) return status;
      const Status explained = channels_->Explain(status, address, PeerRole::kDispatcher);
      if (explained != status || again == 0) return explained;
      std::this_thread::sleep_for(kTurnedAwayPause);
    }
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
    return channels_->Get(address, PeerRole::kDispatcher);
  }

  const GrpcClientOptions options_;
  const std::shared_ptr<GrpcCallCount> calls_ = std::make_shared<GrpcCallCount>();
  const std::shared_ptr<GrpcChannels> channels_;
};

}  // namespace

std::shared_ptr<Connector> MakeGrpcConnector(const GrpcClientOptions& options) {
  return std::make_shared<GrpcConnector>(options);
}

}  // namespace millrace
