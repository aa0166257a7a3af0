// Bidirectional streams of messages as state machines see them, and the network they come from.
// Two networks exist: gRPC (grpc_client, grpc_server) and in-process (in_process), which runs whole
// clusters inside one test and is what the thread sanitizer watches.
//
// Rules, the same for both ends and both networks:
// - One write is outstanding at a time: after Write, wait for OnWriteDone before the next Write.
// - Handler calls of one stream never overlap, and no call comes after OnClosed. They may come on
// any
//   thread, and from within Write or Close of the same stream never.
// - OnClosed comes exactly once, whoever closed. Write after that is ignored.
// - A Stream may be dropped at any time: that closes it with Cancelled.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "millrace/v1/dispatcher.pb.h"
#include "millrace/v1/worker.pb.h"

namespace millrace {

/// What one end does with what arrives.
template <class In>
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  virtual void OnMessage(In message) = 0;
  virtual void OnWriteDone() = 0;
  /// The other end's status, or why the stream broke. Ok: the other end finished well.
  virtual void OnClosed(const Status& status) = 0;
};

/// What one end sends with. Thread-safe.
template <class Out>
class Stream {
 public:
  virtual ~Stream() = default;
  /// REQUIRES: no write outstanding.
  virtual void Write(Out message) = 0;
  /// Ends the stream. On a server end the client receives `status`; on a client end the call is
  /// half-closed where ok, else cancelled.
  virtual void Close(const Status& status) = 0;
};

/// A part of a batch on its way out: `part` without data, and the data itself, kept by `owner`.
struct OutgoingPart {
  v1::BatchPart part;
  std::span<const std::byte> data;
  std::shared_ptr<const void> owner;
};

/// A part that came in. The data lies where the network put it, in slices kept by `owner`.
struct IncomingPart {
  v1::BatchPart part;
  std::vector<std::span<const std::byte>> data;
  std::shared_ptr<const void> owner;
  /// The data are one piece of memory that the worker wrote and that stays as it is while `owner`
  /// lives; the parts of a batch lie side by side, the first at a multiple of kTensorAlignment.
  bool in_place = false;

  std::size_t data_bytes() const {
    std::size_t n = 0;
    for (const auto& slice : data) n += slice.size();
    return n;
  }
};

/// Where a worker's batches are to be had.
struct BatchAddress {
  BatchAddress(std::string address_of, std::string host = {}, std::string socket = {})
      : address(std::move(address_of)), host_id(std::move(host)), unix_socket(std::move(socket)) {}
  BatchAddress(const char* address_of) : address(address_of) {}

  std::string address;      // host:port
  std::string host_id;      // of the worker; empty: unknown
  std::string unix_socket;  // for consumers of its host; empty: none
};

/// The network as a client of others sees it. Thread-safe. Addresses are host:port.
class Connector {
 public:
  virtual ~Connector() = default;
  /// Waits, at most `timeout_seconds`, until no stream of this connector will call its handler any
  /// more. Close or drop them before, and call this before the connector is dropped: gRPC 1.51
  /// aborts where its last channel goes on a thread of its own, as it does with a last call, and a
  /// process that ends while the network still calls back crashes on its way out. Never from a
  /// handler.
  virtual void WaitForStreams(double /*timeout_seconds*/) {}
  /// Longer than any machine takes for calls that were cancelled.
  static constexpr double kStreamsEndSeconds = 10;
  virtual std::shared_ptr<Stream<v1::AttachRequest>> Attach(
      const std::string& address, std::shared_ptr<StreamHandler<v1::AttachResponse>> handler) = 0;
  virtual std::shared_ptr<Stream<v1::WorkRequest>> Work(
      const std::string& address, std::shared_ptr<StreamHandler<v1::WorkResponse>> handler) = 0;
  virtual std::shared_ptr<Stream<v1::WantList>> StreamBatches(
      const BatchAddress& where, std::shared_ptr<StreamHandler<IncomingPart>> handler) = 0;
  /// The static tables of a plan, whole and checked against `digest` (32 hex digits). Blocks until
  /// nothing has come for `silence_seconds` (DeadlineExceeded) or `stop` is asked for (Cancelled).
  virtual Result<std::string> GetStatic(const std::string& address, const std::string& fingerprint,
                                        const std::string& digest, double silence_seconds,
                                        std::stop_token stop) = 0;
  virtual Result<v1::ServiceStatus> GetStatus(const std::string& address,
                                              double timeout_seconds) = 0;
  /// The status again and again, as the dispatcher sends it. Blocks until `stop` is asked for (Ok)
  /// or the stream ends (why), or nothing has come for several periods and seconds
  /// (DeadlineExceeded). Calls `on_status` on the calling thread.
  virtual Status WatchStatus(const std::string& address, double period_seconds,
                             const std::function<void(const v1::ServiceStatus&)>& on_status,
                             std::stop_token stop) = 0;
  /// A trace: one request is written, chunks come until the dispatcher ends the stream.
  virtual std::shared_ptr<Stream<v1::TraceRequest>> Trace(
      const std::string& address, std::shared_ptr<StreamHandler<v1::TraceChunk>> handler) = 0;
  virtual Result<v1::DrainWorkerResponse> DrainWorker(const std::string& address,
                                                      const v1::DrainWorkerRequest& request,
                                                      double timeout_seconds) = 0;
  virtual Result<v1::EndJobResponse> EndJob(const std::string& address,
                                            const v1::EndJobRequest& request,
                                            double timeout_seconds) = 0;
};

/// What a dispatcher offers to the network. Thread-safe. `peer` is for messages. A handler of
/// nullptr refuses the stream (shutting down).
class DispatcherEndpoint {
 public:
  virtual ~DispatcherEndpoint() = default;
  virtual std::shared_ptr<StreamHandler<v1::AttachRequest>> OnAttach(
      std::shared_ptr<Stream<v1::AttachResponse>> stream, const std::string& peer) = 0;
  virtual std::shared_ptr<StreamHandler<v1::WorkRequest>> OnWork(
      std::shared_ptr<Stream<v1::WorkResponse>> stream, const std::string& peer) = 0;
  virtual std::shared_ptr<StreamHandler<v1::TraceRequest>> OnTrace(
      std::shared_ptr<Stream<v1::TraceChunk>> /*stream*/) {
    return nullptr;
  }
  virtual Result<v1::ServiceStatus> OnGetStatus() = 0;
  virtual Result<v1::DrainWorkerResponse> OnDrainWorker(const v1::DrainWorkerRequest& request) = 0;
  virtual Result<v1::EndJobResponse> OnEndJob(const v1::EndJobRequest& request) = 0;
};

/// The static tables of a plan, as a worker keeps them.
struct StaticBytes {
  std::string digest;  // 32 hex digits
  std::shared_ptr<const std::string> bytes;
};

/// What a worker offers to the network. Thread-safe.
class WorkerEndpoint {
 public:
  virtual ~WorkerEndpoint() = default;
  virtual std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
      std::shared_ptr<Stream<OutgoingPart>> stream, const std::string& peer) = 0;
  /// NotFound for a plan that is not ready here.
  virtual Result<StaticBytes> OnGetStatic(const std::string& fingerprint) = 0;
};

}  // namespace millrace
