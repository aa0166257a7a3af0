#include "common/transport/shm/shm_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "common/system/mutex.h"
#include "common/transport/shm/framed_socket.h"
#include "common/transport/shm/shared_arena.h"
#include "common/transport/shm/shm_frames.h"

namespace millrace {
namespace {

/// A worker on this host answers at once, or is as good as gone.
constexpr auto kAnswerTime = std::chrono::seconds(2);

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

/// One stream. Its thread keeps it alive until the stream has ended, or goes on over the network.
class ShmCall final : public std::enable_shared_from_this<ShmCall> {
 public:
  ShmCall(int socket, BatchAddress where, std::shared_ptr<StreamHandler<IncomingPart>> handler,
          std::shared_ptr<ShmStreams> streams)
      : socket_(std::make_shared<FramedSocket>(socket)),
        where_(std::move(where)),
        handler_(std::move(handler)),
        streams_(std::move(streams)) {}

  /// False if the system cannot start a thread for it.
  bool Start() {
    {
      MutexLock lock(streams_->mutex);
      ++streams_->live;
    }
    try {
      std::thread([self = shared_from_this()]() mutable {
        self->Run();
        const std::shared_ptr<ShmStreams> streams = self->streams_;
        self.reset();
        Ended(*streams);
      }).detach();
    } catch (const std::system_error&) {
      Ended(*streams_);
      return false;
    }
    return true;
  }

  void Write(v1::WantList wants) {
    MutexLock lock(mutex_);
    if (half_closed_ || cancelled_) return;
    if (instead_ != nullptr) {
      instead_->Write(std::move(wants));
    } else if (!accepted_) {
      early_ = std::move(wants);
    } else {
      SendWants(wants);
      doorbell_->Ring();
    }
  }

  void Close(const Status& status) {
    MutexLock lock(mutex_);
    if (cancelled_ || (half_closed_ && status.ok())) return;
    (status.ok() ? half_closed_ : cancelled_) = true;
    why_ = status;
    if (instead_ != nullptr) {
      instead_->Close(status);
    } else if (!status.ok()) {
      doorbell_->Ring();
    } else if (accepted_) {
      socket_->Send(kShmDone, {});
    }
  }

 private:
  static void Ended(ShmStreams& streams) {
    MutexLock lock(streams.mutex);
    --streams.live;
    streams.changed.NotifyAll();
  }

  void Run() {
    Status end = Greet();
    if (!greeted_ && !cancelled()) return TakeNetwork(end);
    if (end.ok()) {
      Accepted();
      end = Converse();
    }
    // Parts that the worker sent and this end has not read are held by nobody, so they are
    // released.
    socket_->Send(kShmCancelled, RawBytes(last_token_));
    if (cancelled()) {
      MutexLock lock(mutex_);
      end = Cancelled("the stream was cancelled: " + why_.message());
    } else if (closed_) {
      end = *closed_;
    }
    // Parts that are still held keep the socket alive, because they are released over it.
    segments_.clear();
    handler_->OnClosed(end);
    handler_.reset();
  }

  /// Waits for the worker's first frame. PermissionDenied or a similar error if the worker refuses.
  /// DeadlineExceeded if it does not answer.
  Status Greet() {
    const auto give_up = std::chrono::steady_clock::now() + kAnswerTime;
    Status status;
    while (status.ok() && !greeted_) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(give_up - std::chrono::steady_clock::now());
      if (left.count() <= 0) return DeadlineExceeded("no answer");
      pollfd polled[] = {{socket_->socket(), POLLIN, 0}, {doorbell_->file(), POLLIN, 0}};
      poll(polled, 2, static_cast<int>(left.count()));
      if (polled[1].revents != 0) doorbell_->Clear();
      if (cancelled()) return Cancelled("cancelled");
      if (polled[0].revents != 0) status = Receive();
    }
    return status;
  }

  /// Sends everything that was written before the worker answered.
  void Accepted() {
    MutexLock lock(mutex_);
    accepted_ = true;
    if (early_) SendWants(*early_);
    early_.reset();
    if (half_closed_) socket_->Send(kShmDone, {});
    doorbell_->Ring();
  }

  /// The stream goes on over the network. The session does not notice.
  void TakeNetwork(const Status& why) {
    if (why.code() != StatusCode::kDeadlineExceeded) MarkUnusable();
    const std::shared_ptr<Stream<v1::WantList>> instead =
        streams_->network->StreamBatches(where_, std::move(handler_));
    MutexLock lock(mutex_);
    instead_ = instead;
    if (early_) instead_->Write(*std::move(early_));
    early_.reset();
    if (half_closed_) instead_->Close(OkStatus());
    if (cancelled_) instead_->Close(why_);
  }

  void MarkUnusable() {
    MutexLock lock(streams_->mutex);
    streams_->unusable.insert(where_.unix_socket);
  }

  bool cancelled() {
    MutexLock lock(mutex_);
    return cancelled_;
  }

  void SendWants(const v1::WantList& wants) MILLRACE_REQUIRES(mutex_) {
    socket_->Send(kShmWants, wants.SerializeAsString());
    write_done_due_ = true;
  }

  Status Receive() {
    return socket_->Receive([this](const FramedSocket::Frame& frame) { return OnFrame(frame); });
  }

  /// Runs until the worker has closed the stream, either end is gone, or the stream is cancelled.
  Status Converse() {
    Status end;
    while (end.ok() && !closed_) {
      const short events = socket_->pending() ? POLLIN | POLLOUT : POLLIN;
      pollfd polled[] = {{socket_->socket(), events, 0}, {doorbell_->file(), POLLIN, 0}};
      poll(polled, 2, -1);
      if (polled[1].revents != 0) doorbell_->Clear();
      if (socket_->pending()) socket_->Flush();
      bool write_done = false;
      {
        MutexLock lock(mutex_);
        if (cancelled_) break;
        write_done = write_done_due_ && !socket_->pending();
        if (write_done) write_done_due_ = false;
      }
      if (write_done) handler_->OnWriteDone();
      if (polled[0].revents != 0) end = Receive();
    }
    return end;
  }

  Status OnHello(const FramedSocket::Frame& frame) {
    ShmAccepted hello{};
    if (frame.type != kShmAccepted || frame.payload.size() != sizeof hello) {
      return FailedPrecondition("no worker answers here");
    }
    std::memcpy(&hello, frame.payload.data(), sizeof hello);
    if (hello.version != kShmVersion) {
      return FailedPrecondition("the worker has another version");
    }
    greeted_ = true;
    return OkStatus();
  }

  Status OnFrame(const FramedSocket::Frame& frame) {
    if (!greeted_) return OnHello(frame);
    switch (frame.type) {
      case kShmSegment:
        return OnSegment(frame.payload);
      case kShmPart:
        return OnPart(frame.payload);
      case kShmClosed: {
        std::uint32_t code = 0;
        if (frame.payload.size() < sizeof code) return DataLoss("a malformed frame");
        std::memcpy(&code, frame.payload.data(), sizeof code);
        const std::string message(reinterpret_cast<const char*>(frame.payload.data()) + sizeof code,
                                  frame.payload.size() - sizeof code);
        constexpr auto kLast = static_cast<std::uint32_t>(StatusCode::kUnauthenticated);
        closed_ =
            Status(code <= kLast ? static_cast<StatusCode>(code) : StatusCode::kUnknown, message);
        return OkStatus();
      }
      default:
        return DataLoss("a frame of type " + std::to_string(frame.type));
    }
  }

  Status OnSegment(std::span<const std::byte> payload) {
    ShmSegment head{};
    const int file = socket_->TakeFile();
    if (payload.size() != sizeof head) {
      if (file >= 0) close(file);
      return DataLoss("a malformed frame");
    }
    std::memcpy(&head, payload.data(), sizeof head);
    Result<std::shared_ptr<const SharedView>> view =
        file >= 0 ? SharedView::Map(file, head.bytes)
                  : ResourceExhausted("its file did not come: too many files are open here");
    if (!view.ok()) {
      MarkUnusable();
      return Unavailable("shared memory of the worker at " + where_.address +
                         " cannot be read, the network is next: " + view.status().message());
    }
    segments_[head.number] = Announced(*std::move(view));
    return OkStatus();
  }

  /// Tells on_mapped of the view. The result of on_mapped is dropped before the view is unmapped.
  std::shared_ptr<const SharedView> Announced(std::shared_ptr<const SharedView> view) {
    if (streams_->on_mapped == nullptr) return view;
    struct Known {
      std::shared_ptr<const SharedView> view;
      std::shared_ptr<const void> known;
    };
    std::shared_ptr<const void> known = streams_->on_mapped(view->bytes());
    const SharedView* const bytes = view.get();
    return {std::make_shared<const Known>(Known{std::move(view), std::move(known)}), bytes};
  }

  Status OnPart(std::span<const std::byte> payload) {
    ShmPart head{};
    IncomingPart in;
    if (payload.size() < sizeof head) return DataLoss("a malformed part");
    std::memcpy(&head, payload.data(), sizeof head);
    payload = payload.subspan(sizeof head);
    if (payload.size() < head.part_bytes ||
        !in.part.ParseFromArray(payload.data(), static_cast<int>(head.part_bytes))) {
      return DataLoss("a malformed part");
    }
    payload = payload.subspan(head.part_bytes);
    if (head.token == 0) {
      auto bytes = std::make_shared<std::vector<std::byte>>(payload.begin(), payload.end());
      if (!bytes->empty()) in.data.emplace_back(*bytes);
      in.owner = std::move(bytes);
    } else {
      const auto found = segments_.find(head.segment);
      if (found == segments_.end() || head.bytes > found->second->bytes().size() ||
          head.offset > found->second->bytes().size() - head.bytes) {
        return DataLoss("a part that lies in no segment");
      }
      in.data.push_back(found->second->bytes().subspan(head.offset, head.bytes));
      in.in_place = true;
      in.owner = Lent(found->second, head.token);
      last_token_ = head.token;
    }
    handler_->OnMessage(std::move(in));
    return OkStatus();
  }

  /// An owner for the data of a part. When it is dropped, the part is released.
  std::shared_ptr<const void> Lent(std::shared_ptr<const SharedView> view, std::uint64_t token) {
    const std::byte* const data = view->bytes().data();
    // A forked child shares the socket, but it must not release a part that its parent may still
    // read.
    return {data, [view = std::move(view), socket = socket_, doorbell = doorbell_, token,
                   process = getpid()](const void*) {
              if (getpid() != process) return;
              socket->Send(kShmReleased, RawBytes(token));
              if (socket->pending()) doorbell->Ring();
            }};
  }

  const std::shared_ptr<FramedSocket> socket_;
  const std::shared_ptr<Doorbell> doorbell_ = std::make_shared<Doorbell>();
  const BatchAddress where_;
  // Used only by the thread of this stream.
  std::shared_ptr<StreamHandler<IncomingPart>> handler_;
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

class ShmClientStream final : public Stream<v1::WantList> {
 public:
  explicit ShmClientStream(std::shared_ptr<ShmCall> call) : call_(std::move(call)) {}
  ~ShmClientStream() override { call_->Close(Cancelled("stream dropped")); }
  void Write(v1::WantList wants) override { call_->Write(std::move(wants)); }
  void Close(const Status& status) override { call_->Close(status); }

 private:
  const std::shared_ptr<ShmCall> call_;
};

/// A socket connected to `name`. -1 if nobody of this user listens there, or too many clients wait.
int ConnectTo(const std::string& name) {
  sockaddr_un address{};
  if (name.size() < 2 || name.front() != '@' || name.size() > sizeof address.sun_path) return -1;
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) return -1;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  ucred peer{};
  socklen_t peer_length = sizeof peer;
  // After a worker is gone, any user may listen under its name. So the user of the listener is
  // checked.
  if (connect(file, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      getsockopt(file, SOL_SOCKET, SO_PEERCRED, &peer, &peer_length) == 0 &&
      (peer.uid == geteuid() || peer.uid == 0)) {
    return file;
  }
  close(file);
  return -1;
}

class ShmConnector final : public Connector {
 public:
  ShmConnector(std::shared_ptr<Connector> network, std::string host_id, OnMapped on_mapped)
      : network_(std::move(network)),
        host_id_(std::move(host_id)),
        streams_(std::make_shared<ShmStreams>(network_, std::move(on_mapped))) {}

  std::shared_ptr<Stream<v1::WantList>> StreamBatches(
      const BatchAddress& where, std::shared_ptr<StreamHandler<IncomingPart>> handler) override {
    if (Usable(where)) {
      if (const int socket = ConnectTo(where.unix_socket); socket >= 0) {
        auto call = std::make_shared<ShmCall>(socket, where, handler, streams_);
        if (call->Start()) return std::make_shared<ShmClientStream>(std::move(call));
      }
    }
    return network_->StreamBatches(where, std::move(handler));
  }

  void WaitForStreams(double timeout_seconds) override {
    const auto give_up =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
    {
      MutexLock lock(streams_->mutex);
      while (streams_->live > 0) {
        const auto left = give_up - std::chrono::steady_clock::now();
        if (left <= left.zero()) break;
        streams_->changed.WaitFor(
            streams_->mutex, std::chrono::duration_cast<std::chrono::steady_clock::duration>(left));
      }
    }
    network_->WaitForStreams(timeout_seconds);
  }

  std::shared_ptr<Stream<v1::AttachRequest>> Attach(
      const std::string& address,
      std::shared_ptr<StreamHandler<v1::AttachResponse>> handler) override {
    return network_->Attach(address, std::move(handler));
  }
  std::shared_ptr<Stream<v1::WorkRequest>> Work(
      const std::string& address,
      std::shared_ptr<StreamHandler<v1::WorkResponse>> handler) override {
    return network_->Work(address, std::move(handler));
  }
  std::shared_ptr<Stream<v1::TraceRequest>> Trace(
      const std::string& address, std::shared_ptr<StreamHandler<v1::TraceChunk>> handler) override {
    return network_->Trace(address, std::move(handler));
  }
  Result<std::string> GetStatic(const std::string& address, const std::string& fingerprint,
                                const std::string& digest, double silence_seconds,
                                std::stop_token stop) override {
    return network_->GetStatic(address, fingerprint, digest, silence_seconds, std::move(stop));
  }
  Result<v1::ServiceStatus> GetStatus(const std::string& address, double timeout_seconds) override {
    return network_->GetStatus(address, timeout_seconds);
  }
  Status WatchStatus(const std::string& address, double period_seconds,
                     const std::function<void(const v1::ServiceStatus&)>& on_status,
                     std::stop_token stop) override {
    return network_->WatchStatus(address, period_seconds, on_status, std::move(stop));
  }
  Result<v1::DrainWorkerResponse> DrainWorker(const std::string& address,
                                              const v1::DrainWorkerRequest& request,
                                              double timeout_seconds) override {
    return network_->DrainWorker(address, request, timeout_seconds);
  }
  Result<v1::EndJobResponse> EndJob(const std::string& address, const v1::EndJobRequest& request,
                                    double timeout_seconds) override {
    return network_->EndJob(address, request, timeout_seconds);
  }

 private:
  bool Usable(const BatchAddress& where) {
    if (where.unix_socket.empty() || where.host_id != host_id_) return false;
    MutexLock lock(streams_->mutex);
    return !streams_->unusable.contains(where.unix_socket);
  }

  const std::shared_ptr<Connector> network_;
  const std::string host_id_;
  const std::shared_ptr<ShmStreams> streams_;
};

}  // namespace

std::shared_ptr<Connector> MakeShmConnector(std::shared_ptr<Connector> network, std::string host_id,
                                            OnMapped on_mapped) {
  return std::make_shared<ShmConnector>(std::move(network), std::move(host_id),
                                        std::move(on_mapped));
}

}  // namespace millrace
