// A consumer's end of one stream of batches, from a worker of its host, through shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "common/system/mutex.h"
#include "common/transport/shm/framed_socket.h"
#include "common/transport/shm/shared_arena.h"
#include "common/transport/shm/shm_client.h"
#include "common/transport/shm/shm_key.h"
#include "common/transport/stream.h"

namespace millrace {

/// The state that all streams of one connector share.
struct ShmStreams {
  ShmStreams(std::shared_ptr<Connector> over, OnMapped mapped)
      : network(std::move(over)), on_mapped(std::move(mapped)) {}

  const std::shared_ptr<Connector> network;
  const OnMapped on_mapped;
  Mutex mutex;
  CondVar changed;
  int live MILLRACE_GUARDED_BY(mutex) = 0;  // threads of streams that have not ended yet
  /// Sockets of workers whose memory cannot be used. They are not tried again.
  std::set<std::string> unusable MILLRACE_GUARDED_BY(mutex);
};

/// One stream. Its thread keeps it alive until the stream has ended or goes on over the network.
/// Thread-safe.
class ShmCall final : public std::enable_shared_from_this<ShmCall> {
 public:
  /// `key`: of the worker's address. Takes ownership of the socket.
  ShmCall(int socket, std::string key, BatchAddress where,
          std::shared_ptr<StreamHandler<IncomingFragment>> handler,
          std::shared_ptr<ShmStreams> streams)
      : socket_(std::make_shared<FramedSocket>(socket)),
        key_(std::move(key)),
        where_(std::move(where)),
        handler_(std::move(handler)),
        streams_(std::move(streams)) {}

  /// False if the system cannot start a thread for it.
  bool Start();
  /// The rules of Stream hold for both.
  void Write(v1::WantList wants);
  void Close(const Status& status);

 private:
  static void Ended(ShmStreams& streams);
  void Run();

  /// Proves to the worker that this end knows the key, and waits for its proof. PermissionDenied or
  /// a similar error if it is not the worker, or refuses. DeadlineExceeded if it does not answer.
  Status Greet();

  /// Sends everything that was written before the worker answered.
  void Accepted();

  /// The stream goes on over the network. The session does not notice.
  void TakeNetwork(const Status& why);
  void MarkUnusable();
  bool cancelled();
  void SendWants(const v1::WantList& wants) MILLRACE_REQUIRES(mutex_);
  Status Receive();

  /// Runs until the worker has closed the stream, either end is gone, or the stream is cancelled.
  Status Converse();
  Status OnHello(const FramedSocket::Frame& frame);
  Status OnFrame(const FramedSocket::Frame& frame);
  Status OnSegment(std::span<const std::byte> payload);

  /// Calls on_mapped with the view. The result of on_mapped is dropped before the view is unmapped.
  std::shared_ptr<const SharedView> Announced(std::shared_ptr<const SharedView> view);
  Status OnFragment(std::span<const std::byte> payload);

  /// An owner for the data of a fragment. When it is dropped, the fragment is released.
  std::shared_ptr<const void> Lent(std::shared_ptr<const SharedView> view, std::uint64_t token);

  const std::shared_ptr<FramedSocket> socket_;
  const std::shared_ptr<Doorbell> doorbell_ = std::make_shared<Doorbell>();
  const std::string key_;
  const ShmNonce nonce_ = MakeShmNonce();
  const BatchAddress where_;
  // Used only by the thread of this stream.
  std::shared_ptr<StreamHandler<IncomingFragment>> handler_;
  std::map<std::uint32_t, std::shared_ptr<const SharedView>> segments_;
  std::uint64_t last_token_ = 0;
  bool greeted_ = false;
  std::optional<Status> closed_;  // the status with which the worker closed the stream

  const std::shared_ptr<ShmStreams> streams_;
  Mutex mutex_;
  bool accepted_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::optional<v1::WantList> early_
      MILLRACE_GUARDED_BY(mutex_);  // written before the worker answered
  std::shared_ptr<Stream<v1::WantList>> instead_ MILLRACE_GUARDED_BY(mutex_);
  bool half_closed_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool cancelled_ MILLRACE_GUARDED_BY(mutex_) = false;
  Status why_ MILLRACE_GUARDED_BY(mutex_);
  bool write_done_due_ MILLRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace
