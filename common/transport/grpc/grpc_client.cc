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

/// The bytes that come in fragments. `what` names them in messages.
template <class Fragment>
Result<std::string> ReadFragments(grpc::ClientReader<Fragment>& reader,
                                  grpc::ClientContext& context, SilenceLimit& silence,
                                  const std::string& what) {
  std::string bytes;
  Fragment fragment;
  bool fits = true;
  while (fits && reader.Read(&fragment)) {
    silence.Heard();
    fits = fragment.offset() == bytes.size() && fragment.total_bytes() <= kMaxStaticBytes &&
           bytes.size() + fragment.data().size() <= fragment.total_bytes();
    if (fits) bytes += fragment.data();
  }
  if (!fits) context.TryCancel();
  const Status end = FromGrpcStatus(reader.Finish()).WithContext(what);
  if (silence.exceeded()) {
    return DeadlineExceeded(
        fmt::format("{}: nothing came for {:.1f} s or more", what, silence.seconds()));
  }
  if (!fits) {
    return DataLoss(
        fmt::format("{}: {} bytes at {} of {}: expected bytes at {}, of at most {} in all", what,
                    fragment.data().size(), fragment.offset(), fragment.total_bytes(), bytes.size(),
                    kMaxStaticBytes));
  }
  MILLRACE_RETURN_IF_ERROR(end);
  return bytes;
}

constexpr double kLeadsWithinSeconds = 2;
/// How often a tool connects again if it is turned away, and after which pause.
constexpr int kTurnedAwayTries = 10;
constexpr std::chrono::milliseconds kTurnedAwayPause(100);

constexpr auto kGetStatus = [](v1::Dispatcher::Stub& stub, grpc::ClientContext* context,
                               v1::ServiceStatus* out) {
  return stub.GetStatus(context, v1::GetStatusRequest(), out);
};

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
    handler_->OnClosed(channels_->Explain(status, address_, role_));
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
    return Begin<C, v1::AttachRequest>(
        std::move(handler), address, PeerRole::kDispatcher,
        [](const auto& channel, grpc::ClientContext& context, C* reactor) {
          v1::Dispatcher::Stub(channel).async()->Attach(&context, reactor);
        });
  }

  std::shared_ptr<Stream<v1::WorkRequest>> Work(
      const std::string& address,
      std::shared_ptr<StreamHandler<v1::WorkResponse>> handler) override {
    using C = GrpcClientCall<v1::WorkRequest, v1::WorkRequest, v1::WorkResponse, v1::WorkResponse>;
    return Begin<C, v1::WorkRequest>(
        std::move(handler), address, PeerRole::kDispatcher,
        [](const auto& channel, grpc::ClientContext& context, C* reactor) {
          v1::Dispatcher::Stub(channel).async()->Work(&context, reactor);
        });
  }

  std::shared_ptr<Stream<v1::TraceRequest>> Trace(
      const std::string& address, std::shared_ptr<StreamHandler<v1::TraceChunk>> handler) override {
    using C = GrpcClientCall<v1::TraceRequest, v1::TraceRequest, v1::TraceChunk, v1::TraceChunk>;
    const Result<std::string> leading = Leading(address);
    return Begin<C, v1::TraceRequest>(
        std::move(handler), leading.ok() ? *leading : SplitAddresses(address).front(),
        PeerRole::kDispatcher, [](const auto& channel, grpc::ClientContext& context, C* reactor) {
          v1::Dispatcher::Stub(channel).async()->Trace(&context, reactor);
        });
  }

  std::shared_ptr<Stream<v1::WantList>> StreamBatches(
      const BatchAddress& where,
      std::shared_ptr<StreamHandler<IncomingFragment>> handler) override {
    using C = GrpcClientCall<v1::WantList, grpc::ByteBuffer, IncomingFragment, grpc::ByteBuffer>;
    return Begin<C, v1::WantList>(
        std::move(handler), where.address, PeerRole::kWorker,
        [](const auto& channel, grpc::ClientContext& context, C* reactor) {
          grpc::GenericStub(channel).PrepareBidiStreamingCall(
              &context, "/millrace.v1.Worker/StreamBatches", {}, reactor);
        });
  }

  Result<std::string> GetStatic(const std::string& address, const std::string& fingerprint,
                                const std::string& digest, double silence_seconds,
                                std::stop_token stop) override {
    v1::GetStaticRequest request;
    request.set_fingerprint(fingerprint);
    request.set_digest(digest);
    std::string bytes;
    MILLRACE_RETURN_IF_ERROR(channels_->Look(
        address, PeerRole::kWorker, silence_seconds, stop, [&](const auto& channel) {
          return FetchFragments(
              [&](grpc::ClientContext& context) {
                return v1::Worker::Stub(channel).GetStatic(&context, request);
              },
              silence_seconds, stop, "static tables from " + address, bytes);
        }));
    if (Xxh3(bytes).ToHex() != digest) {
      return DataLoss("static tables from " + address + ": " + std::to_string(bytes.size()) +
                      " bytes that differ from digest " + digest);
    }
    return bytes;
  }

  Result<std::string> GetColumn(const std::string& addresses, const v1::GetColumnRequest& request,
                                double silence_seconds, std::stop_token stop) override {
    MILLRACE_ASSIGN_OR_RETURN(const std::string address, Leading(addresses));
    std::string bytes;
    MILLRACE_RETURN_IF_ERROR(channels_->Look(
        address, PeerRole::kDispatcher, silence_seconds, stop, [&](const auto& channel) {
          return FetchFragments(
              [&](grpc::ClientContext& context) {
                return v1::Dispatcher::Stub(channel).GetColumn(&context, request);
              },
              silence_seconds, stop, fmt::format("column {} from {}", request.column(), address),
              bytes);
        }));
    return bytes;
  }

  Result<v1::ServiceStatus> GetStatus(const std::string& address, double timeout_seconds) override {
    return Unary<v1::ServiceStatus>(address, timeout_seconds, kGetStatus);
  }
  Status WatchStatus(const std::string& addresses, double period_seconds,
                     const std::function<void(const v1::ServiceStatus&)>& on_status,
                     std::stop_token stop) override {
    MILLRACE_ASSIGN_OR_RETURN(const std::string address, Leading(addresses));
    v1::GetStatusRequest request;
    request.set_period_seconds(period_seconds);
    const double limit = 3 * period_seconds + options_.silence_seconds;
    bool silent = false;
    const Status end =
        channels_->Look(address, PeerRole::kDispatcher, limit, stop, [&](const auto& channel) {
          grpc::ClientContext context;
          const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
          SilenceLimit silence(context, limit);
          channels_->Prepare(context);
          const auto reader = v1::Dispatcher::Stub(channel).WatchStatus(&context, request);
          v1::ServiceStatus status;
          while (reader->Read(&status)) {
            silence.Heard();
            on_status(status);
          }
          const Status finished = FromGrpcStatus(reader->Finish());
          silent = silence.exceeded();
          return finished;
        });
    if (stop.stop_requested()) return OkStatus();
    if (!silent) return end.WithContext("dispatcher at " + address);
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
  Result<v1::UndrainWorkerResponse> UndrainWorker(const std::string& address,
                                                  const v1::UndrainWorkerRequest& request,
                                                  double timeout_seconds) override {
    return Unary<v1::UndrainWorkerResponse>(address, timeout_seconds,
                                            [&](auto& stub, auto* context, auto* out) {
                                              return stub.UndrainWorker(context, request, out);
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
  template <class C, class Out, class In, class Start>
  std::shared_ptr<Stream<Out>> Begin(std::shared_ptr<StreamHandler<In>> handler,
                                     const std::string& address, PeerRole role, Start start) {
    auto explained = std::make_shared<Explained<In>>(std::move(handler), channels_, address, role);
    std::shared_ptr<grpc::Channel> channel = channels_->Get(address, role);
    auto call =
        C::Begin(std::move(explained), calls_, [&](grpc::ClientContext& context, C* reactor) {
          channels_->Prepare(context);
          start(channel, context, reactor);
        });
    channels_->Keep(std::move(channel));
    return std::make_shared<GrpcStream<C, Out>>(std::move(call));
  }

  /// Reads the bytes that come in fragments over the stream that `start` begins. `what` names them
  /// in messages.
  template <class Start>
  Status FetchFragments(Start start, double silence_seconds, const std::stop_token& stop,
                        const std::string& what, std::string& bytes) {
    grpc::ClientContext context;
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    SilenceLimit silence(context, silence_seconds);
    channels_->Prepare(context);
    const auto reader = start(context);
    MILLRACE_ASSIGN_OR_RETURN(bytes, ReadFragments(*reader, context, silence, what));
    return OkStatus();
  }

  /// Asks the dispatchers one after another, until one of them answers: the one that leads.
  template <class Out, class F>
  Result<Out> Unary(const std::string& addresses, double timeout_seconds, F f) {
    Result<Out> result = Unavailable("no dispatcher");
    for (const std::string& address : SplitAddresses(addresses)) {
      result = AskOne<Out>(address, timeout_seconds, f);
      for (int again = kTurnedAwayTries; again > 0; --again) {
        if (!GrpcChannels::WasTurnedAway(result.status())) break;
        std::this_thread::sleep_for(kTurnedAwayPause);
        result = AskOne<Out>(address, timeout_seconds, f);
      }
      const StatusCode code = result.status().code();
      if (code != StatusCode::kUnavailable && code != StatusCode::kDeadlineExceeded) break;
    }
    return result;
  }

  /// Asks one dispatcher once.
  template <class Out, class F>
  Result<Out> AskOne(const std::string& address, double timeout_seconds, F f) {
    Out out;
    const auto deadline = SecondsFromNow(timeout_seconds);
    const auto ask = [&](const std::shared_ptr<grpc::Channel>& channel) {
      grpc::ClientContext context;
      context.set_deadline(deadline);
      channels_->Prepare(context);
      v1::Dispatcher::Stub stub(channel);
      return FromGrpcStatus(f(stub, &context, &out));
    };
    MILLRACE_RETURN_IF_ERROR(
        channels_->Look(address, PeerRole::kDispatcher, timeout_seconds, {}, ask)
            .WithContext("dispatcher at " + address));
    return out;
  }

  /// The address of the dispatcher that leads. A single address is not asked.
  Result<std::string> Leading(const std::string& addresses) {
    const std::vector<std::string> all = SplitAddresses(addresses);
    if (all.size() == 1) return all.front();
    Status why;
    for (const std::string& address : all) {
      why = AskOne<v1::ServiceStatus>(address, kLeadsWithinSeconds, kGetStatus).status();
      if (why.ok()) return address;
    }
    return why;
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
