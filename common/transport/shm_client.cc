#include "common/transport/shm_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "common/base/errno_status.h"
#include "common/base/mutex.h"
#include "common/transport/framed_socket.h"
#include "common/transport/shared_arena.h"
#include "common/transport/shm_frames.h"

namespace millrace {
namespace {

/// A worker of this host answers at once, or is as good as gone.
constexpr int kAnswerMilliseconds = 2000;

/// Threads of streams that are not over yet.
struct LiveStreams {
  Mutex mutex;
  CondVar changed;
  int count MILLRACE_GUARDED_BY(mutex) = 0;
};

/// One stream. Its thread keeps it alive until the stream is over.
class ShmCall final : public std::enable_shared_from_this<ShmCall> {
 public:
  ShmCall(int socket, std::shared_ptr<StreamHandler<IncomingPart>> handler,
          std::shared_ptr<LiveStreams> live)
      : socket_(std::make_shared<FramedSocket>(socket)),
        handler_(std::move(handler)),
        live_(std::move(live)) {}

  /// Waits for the worker's first frame.
  Status Greet() {
    pollfd polled{socket_->socket(), POLLIN, 0};
    if (poll(&polled, 1, kAnswerMilliseconds) <= 0) return Unavailable("no answer");
    bool accepted = false;
    const Status status = socket_->Receive([&](const FramedSocket::Frame& frame) {
      if (accepted) return OnFrame(frame);
      ShmAccepted hello{};
      if (frame.type != kShmAccepted || frame.payload.size() != sizeof hello) {
        return Unavailable("no worker answers here");
      }
      std::memcpy(&hello, frame.payload.data(), sizeof hello);
      if (hello.version != kShmVersion) return Unavailable("the worker has another version");
      accepted = true;
      return OkStatus();
    });
    if (!status.ok()) return status;
    return accepted ? OkStatus() : Unavailable("no answer");
  }

  void Run() {
    {
      MutexLock lock(live_->mutex);
      ++live_->count;
    }
    std::thread([self = shared_from_this()] {
      self->Loop();
      const std::shared_ptr<LiveStreams> live = self->live_;
      MutexLock lock(live->mutex);
      --live->count;
      live->changed.NotifyAll();
    }).detach();
  }

  void Write(const v1::WantList& wants) {
    MutexLock lock(mutex_);
    if (closing_) return;
    socket_->Send(kShmWants, wants.SerializeAsString());
    write_done_due_ = true;
    doorbell_.Ring();
  }

  void Close(const Status& status) {
    MutexLock lock(mutex_);
    if (closing_) return;
    closing_ = true;
    if (status.ok()) {
      socket_->Send(kShmDone, {});
    } else {
      end_ = status;
      cancelled_ = true;
      socket_->Send(kShmCancelled, {});
      doorbell_.Ring();
    }
  }

 private:
  void Loop() {
    Status end;
    while (end.ok() && !finished_) {
      const short events = socket_->pending() ? POLLIN | POLLOUT : POLLIN;
      pollfd polled[] = {{socket_->socket(), events, 0}, {doorbell_.file(), POLLIN, 0}};
      poll(polled, 2, -1);
      if (polled[1].revents != 0) doorbell_.Clear();
      if (socket_->pending()) socket_->Flush();
      bool write_done = false;
      {
        MutexLock lock(mutex_);
        if (cancelled_) break;
        write_done = write_done_due_ && !socket_->pending();
        if (write_done) write_done_due_ = false;
      }
      if (write_done) handler_->OnWriteDone();
      if (polled[0].revents != 0) {
        end = socket_->Receive([this](const FramedSocket::Frame& f) { return OnFrame(f); });
      }
    }
    {
      MutexLock lock(mutex_);
      closing_ = true;
      if (cancelled_) {
        end = Cancelled("the stream was cancelled: " + end_.message());
      } else if (finished_) {
        end = end_;
      }
    }
    // Parts that are still held keep the socket, over which they are released.
    segments_.clear();
    handler_->OnClosed(end);
    handler_.reset();
  }

  Status OnFrame(const FramedSocket::Frame& frame) {
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
        MutexLock lock(mutex_);
        finished_ = true;
        end_ = Status(static_cast<StatusCode>(code), message);
        return OkStatus();
      }
      default:
        return DataLoss("a frame of type " + std::to_string(frame.type));
    }
  }

  Status OnSegment(std::span<const std::byte> payload) {
    ShmSegment head{};
    const int file = socket_->TakeFile();
    if (payload.size() != sizeof head || file < 0) {
      if (file >= 0) close(file);
      return DataLoss("a segment without its memory");
    }
    std::memcpy(&head, payload.data(), sizeof head);
    MILLRACE_ASSIGN_OR_RETURN(segments_[head.number], SharedView::Map(file, head.bytes));
    return OkStatus();
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
      in.owner = std::shared_ptr<const void>(
          found->second->bytes().data(),
          [view = found->second, socket = socket_, token = head.token](const void*) {
            socket->Send(kShmReleased, {reinterpret_cast<const char*>(&token), sizeof token});
          });
    }
    handler_->OnMessage(std::move(in));
    return OkStatus();
  }

  const std::shared_ptr<FramedSocket> socket_;
  std::shared_ptr<StreamHandler<IncomingPart>> handler_;
  const std::shared_ptr<LiveStreams> live_;
  Doorbell doorbell_;
  std::map<std::uint32_t, std::shared_ptr<const SharedView>> segments_;  // the thread's
  std::atomic<bool> finished_{false};
  Mutex mutex_;
  bool closing_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool cancelled_ MILLRACE_GUARDED_BY(mutex_) = false;
  Status end_ MILLRACE_GUARDED_BY(mutex_);
  bool write_done_due_ MILLRACE_GUARDED_BY(mutex_) = false;
};

class ShmClientStream final : public Stream<v1::WantList> {
 public:
  explicit ShmClientStream(std::shared_ptr<ShmCall> call) : call_(std::move(call)) {}
  ~ShmClientStream() override { call_->Close(Cancelled("stream dropped")); }
  void Write(v1::WantList wants) override { call_->Write(wants); }
  void Close(const Status& status) override { call_->Close(status); }

 private:
  const std::shared_ptr<ShmCall> call_;
};

/// A socket connected to the name; -1 where nobody listens.
int ConnectTo(const std::string& name) {
  sockaddr_un address{};
  if (name.size() < 2 || name.front() != '@' || name.size() > sizeof address.sun_path) return -1;
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return -1;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (connect(file, reinterpret_cast<const sockaddr*>(&address), length) == 0) return file;
  close(file);
  return -1;
}

class ShmConnector final : public Connector {
 public:
  ShmConnector(std::shared_ptr<Connector> network, std::string host_id)
      : network_(std::move(network)), host_id_(std::move(host_id)) {}

  std::shared_ptr<Stream<v1::WantList>> StreamBatches(
      const BatchAddress& where, std::shared_ptr<StreamHandler<IncomingPart>> handler) override {
    if (!where.unix_socket.empty() && where.host_id == host_id_) {
      if (const int socket = ConnectTo(where.unix_socket); socket >= 0) {
        auto call = std::make_shared<ShmCall>(socket, handler, live_);
        if (call->Greet().ok()) {
          call->Run();
          return std::make_shared<ShmClientStream>(std::move(call));
        }
      }
    }
    return network_->StreamBatches(where, std::move(handler));
  }

  void WaitForStreams(double timeout_seconds) override {
    const auto give_up =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
    {
      MutexLock lock(live_->mutex);
      while (live_->count > 0) {
        const auto left = give_up - std::chrono::steady_clock::now();
        if (left <= left.zero()) break;
        live_->changed.WaitFor(
            live_->mutex, std::chrono::duration_cast<std::chrono::steady_clock::duration>(left));
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
      const std::string& address,
      std::shared_ptr<StreamHandler<v1::TraceChunk>> handler) override {
    return network_->Trace(address, std::move(handler));
  }
  Result<std::string> GetStatic(const std::string& address, const std::string& fingerprint,
                                const std::string& digest, double timeout_seconds) override {
    return network_->GetStatic(address, fingerprint, digest, timeout_seconds);
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
  const std::shared_ptr<Connector> network_;
  const std::string host_id_;
  const std::shared_ptr<LiveStreams> live_ = std::make_shared<LiveStreams>();
};

}  // namespace

std::shared_ptr<Connector> MakeShmConnector(std::shared_ptr<Connector> network,
                                            std::string host_id) {
  return std::make_shared<ShmConnector>(std::move(network), std::move(host_id));
}

}  // namespace millrace
