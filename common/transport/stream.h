// Bidirectional streams of messages as state machines see them, and the interface to the network
// that they come from. There are three networks: gRPC (grpc_client, grpc_server), shared memory
// within a host (shm), and in_process, which runs whole clusters inside one test and is checked by
// the thread sanitizer.
//
// The rules are the same for both ends and for all networks:
// - One write is outstanding at a time: after Write, wait for OnWriteDone before the next Write.
// - Handler calls of one stream never overlap, and no call comes after OnClosed. They may come on
//   any thread, but never from within Write or Close of the same stream.
// - OnClosed comes exactly once, whichever end closes. A Write after that is ignored.
// - A Stream may be dropped at any time. That closes it with Cancelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/access/identity.h"
#include "common/base/result.h"
#include "millrace/v1/dispatcher.pb.h"
#include "millrace/v1/worker.pb.h"

namespace millrace {

/// Receives the messages that arrive at one end.
template <class In>
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  virtual void OnMessage(In message) = 0;
  virtual void OnWriteDone() = 0;
  /// `status` is the other end's status, or the reason why the stream broke. Ok: the other end
  /// finished normally.
  virtual void OnClosed(const Status& status) = 0;
};

/// Sends the messages of one end. Thread-safe.
template <class Out>
class Stream {
 public:
  virtual ~Stream() = default;
  /// REQUIRES: no write is outstanding.
  virtual void Write(Out message) = 0;
  /// Ends the stream. On a server's end, the client receives `status`. On a client's end, the call
  /// is half-closed if `status` is ok; otherwise it is cancelled.
  virtual void Close(const Status& status) = 0;
};

/// A fragment of a batch on its way out: its message without the data, and the data, which `owner`
/// keeps alive. If the peer shares memory (Peer), the data are not compressed.
struct OutgoingFragment {
  v1::BatchFragment message;
  std::span<const std::byte> data;
  std::shared_ptr<const void> owner;
};

/// A fragment that came in. The data are where the network put them, in slices that `owner` keeps
/// alive.
struct IncomingFragment {
  v1::BatchFragment message;
  std::vector<std::span<const std::byte>> data;
  std::shared_ptr<const void> owner;
  /// Whether the data are one piece of the worker's memory, which does not change while `owner`
  /// lives. Then the fragments of a batch are side by side, and the first begins at a multiple of
  /// kTensorAlignment.
  bool in_place = false;

  std::size_t data_bytes() const {
    std::size_t n = 0;
    for (const auto& slice : data) n += slice.size();
    return n;
  }
  /// How many bytes of the batch the data hold. The sender says so if they are compressed, and the
  /// number is unchecked.
  std::uint64_t batch_bytes() const {
    const std::size_t n = data_bytes();
    return n == 0 || message.compression() == v1::COMPRESSION_OFF ? n : message.raw_bytes();
  }
};

/// Where a worker offers its batches.
struct BatchAddress {
  BatchAddress(std::string address_of, std::string host = {}, std::string socket = {})
      : address(std::move(address_of)), host_id(std::move(host)), unix_socket(std::move(socket)) {}
  BatchAddress(const char* address_of) : address(address_of) {}

  std::string address;      // host:port
  std::string host_id;      // of the worker; empty: unknown
  std::string unix_socket;  // for consumers on the worker's host; empty: no socket
};

/// The network for a client of dispatchers and workers. Thread-safe. Addresses are host:port.
class Connector {
 public:
  virtual ~Connector() = default;
  /// Waits, at most `timeout_seconds`, until no stream of this connector will call its handler any
  /// more. Close or drop the streams before, and call this before the connector is dropped. gRPC
  /// 1.51 aborts if a thread of its own drops its last channel or its last call, and a process
  /// crashes at exit if the network still calls back. Never call this from a handler.
  virtual void WaitForStreams(double /*timeout_seconds*/) {}
  /// Longer than any machine needs to end cancelled calls.
  static constexpr double kStreamsEndSeconds = 10;
  virtual std::shared_ptr<Stream<v1::AttachRequest>> Attach(
      const std::string& address, std::shared_ptr<StreamHandler<v1::AttachResponse>> handler) = 0;
  virtual std::shared_ptr<Stream<v1::WorkRequest>> Work(
      const std::string& address, std::shared_ptr<StreamHandler<v1::WorkResponse>> handler) = 0;
  virtual std::shared_ptr<Stream<v1::WantList>> StreamBatches(
      const BatchAddress& where, std::shared_ptr<StreamHandler<IncomingFragment>> handler) = 0;
  /// The static tables of a plan, complete and checked against `digest` (32 hex digits). Blocks
  /// until all is there. DeadlineExceeded if nothing has come for `silence_seconds`. Cancelled if
  /// `stop` is requested.
  virtual Result<std::string> GetStatic(const std::string& address, const std::string& fingerprint,
                                        const std::string& digest, double silence_seconds,
                                        std::stop_token stop) = 0;
  /// The bytes of a measured column's file, as the dispatcher keeps them, unchecked. Blocks until
  /// all is there. NotFound if the dispatcher does not have the column; DeadlineExceeded if nothing
  /// has come for `silence_seconds`; Cancelled if `stop` is requested.
  virtual Result<std::string> GetColumn(const std::string& address,
                                        const v1::GetColumnRequest& request, double silence_seconds,
                                        std::stop_token stop) = 0;
  virtual Result<v1::ServiceStatus> GetStatus(const std::string& address,
                                              double timeout_seconds) = 0;
  /// Receives the status repeatedly, as the dispatcher sends it, and calls `on_status` on the
  /// calling thread. Blocks until `stop` is requested (Ok) or the stream ends (the reason).
  /// DeadlineExceeded if nothing has come for several periods and some seconds.
  virtual Status WatchStatus(const std::string& address, double period_seconds,
                             const std::function<void(const v1::ServiceStatus&)>& on_status,
                             std::stop_token stop) = 0;
  /// Takes a trace. One request is written, and chunks come until the dispatcher ends the stream.
  virtual std::shared_ptr<Stream<v1::TraceRequest>> Trace(
      const std::string& address, std::shared_ptr<StreamHandler<v1::TraceChunk>> handler) = 0;
  virtual Result<v1::DrainWorkerResponse> DrainWorker(const std::string& address,
                                                      const v1::DrainWorkerRequest& request,
                                                      double timeout_seconds) = 0;
  virtual Result<v1::UndrainWorkerResponse> UndrainWorker(const std::string& address,
                                                          const v1::UndrainWorkerRequest& request,
                                                          double timeout_seconds) = 0;
  virtual Result<v1::EndJobResponse> EndJob(const std::string& address,
                                            const v1::EndJobRequest& request,
                                            double timeout_seconds) = 0;
};

/// The requests that a dispatcher answers. Thread-safe. The network has checked that `peer` may
/// call the method (common/access/rights.h); if its right is limited, the endpoint checks `peer`
/// itself. A handler of nullptr refuses the stream (while the dispatcher shuts down).
class DispatcherEndpoint {
 public:
  virtual ~DispatcherEndpoint() = default;
  virtual std::shared_ptr<StreamHandler<v1::AttachRequest>> OnAttach(
      std::shared_ptr<Stream<v1::AttachResponse>> stream, const Peer& peer) = 0;
  virtual std::shared_ptr<StreamHandler<v1::WorkRequest>> OnWork(
      std::shared_ptr<Stream<v1::WorkResponse>> stream, const Peer& peer) = 0;
  virtual std::shared_ptr<StreamHandler<v1::TraceRequest>> OnTrace(
      std::shared_ptr<Stream<v1::TraceChunk>> /*stream*/) {
    return nullptr;
  }
  /// All bytes of the column's file. NotFound if it is not kept here.
  virtual Result<std::shared_ptr<const std::string>> OnGetColumn(
      const v1::GetColumnRequest& request) {
    return NotFound("column " + request.column() + ": no columns are kept here");
  }
  virtual Result<v1::ServiceStatus> OnGetStatus(const Peer& peer) = 0;
  virtual Result<v1::DrainWorkerResponse> OnDrainWorker(const v1::DrainWorkerRequest& request) = 0;
  virtual Result<v1::UndrainWorkerResponse> OnUndrainWorker(
      const v1::UndrainWorkerRequest& request) = 0;
  virtual Result<v1::EndJobResponse> OnEndJob(const v1::EndJobRequest& request,
                                              const Peer& peer) = 0;
};

/// The static tables of a plan in the form that a worker keeps.
struct StaticBytes {
  std::string digest;  // 32 hex digits
  std::shared_ptr<const std::string> bytes;
};

/// The requests that a worker answers. Thread-safe.
class WorkerEndpoint {
 public:
  virtual ~WorkerEndpoint() = default;
  virtual std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
      std::shared_ptr<Stream<OutgoingFragment>> stream, const Peer& peer) = 0;
  /// NotFound for a plan that is not ready on this worker.
  virtual Result<StaticBytes> OnGetStatic(const std::string& fingerprint, const Peer& peer) = 0;
};

}  // namespace millrace
