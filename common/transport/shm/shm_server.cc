#include "common/transport/shm/shm_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "common/system/errno_status.h"
#include "common/transport/shm/shm_frames.h"

namespace millrace {
namespace {

/// How long new consumers have to wait while the process cannot open more files.
constexpr int kFullMilliseconds = 100;
/// Consumers prove at once that they know the key. Of more that do not, the first has to go.
constexpr int kMostUnproved = 64;

}  // namespace

/// The stream of one consumer.
class ShmServer::Call final : public std::enable_shared_from_this<Call> {
 public:
  /// `open` makes the handler when the consumer has proved that it knows the key.
  using Open = std::function<std::shared_ptr<StreamHandler<v1::WantList>>(std::shared_ptr<Call>)>;

  Call(int socket, std::string key, Open open, std::shared_ptr<const SharedArena> arena,
       std::shared_ptr<Doorbell> doorbell)
      : key_(std::move(key)),
        open_(std::move(open)),
        arena_(std::move(arena)),
        socket_(socket, FramedSocket::Files::kRefused),
        doorbell_(std::move(doorbell)) {}

  FramedSocket& socket() { return socket_; }
  /// Whether the consumer has not proved yet that it knows the key.
  bool unproved() const { return open_ != nullptr; }

  void Write(OutgoingFragment out) {
    MutexLock lock(mutex_);
    if (closed_) return;
    const std::string message = out.message.SerializeAsString();
    ShmFragment head{0, 0, out.data.size(), 0, static_cast<std::uint32_t>(message.size())};
    const std::optional<SharedPlace> place =
        out.data.empty() ? std::nullopt : arena_->Locate(out.data);
    if (place) {
      Grant(place->segment);
      head.token = ++last_token_;
      head.segment = place->segment;
      head.offset = place->offset;
      lent_.emplace(head.token, std::move(out.owner));
    }
    socket_.Send(kShmFragment, std::string(RawBytes(head)) + message,
                 place ? std::span<const std::byte>() : out.data);
    write_done_due_ = true;
    doorbell_->Ring();
  }

  void Close(const Status& status) {
    MutexLock lock(mutex_);
    if (closed_) return;
    closed_ = true;
    if (status.ok()) end_ = status;
    const auto code = static_cast<std::uint32_t>(status.code());
    socket_.Send(kShmClosed, std::string(RawBytes(code)) + status.message());
    doorbell_->Ring();
  }

  // The functions below are called on the server's thread.

  /// The events for which poll has to wait.
  short Events() const {
    const int events = (deaf_ ? 0 : POLLIN) | (socket_.pending() ? POLLOUT : 0);
    return static_cast<short>(events);
  }

  /// Does the work that is due after poll returned `events`. False if the consumer is gone.
  bool Turn(short events) {
    if (socket_.pending()) socket_.Flush();
    if (deaf_) {
      gone_ = (events & POLLHUP) != 0;
    } else if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) {
      Listen();
    }
    bool write_done = false;
    bool over = gone_;
    {
      MutexLock lock(mutex_);
      closed_ = closed_ || gone_;
      write_done = write_done_due_ && !closed_ && !socket_.pending();
      if (write_done) write_done_due_ = false;
      over = over || (closed_ && !socket_.pending());
    }
    if (write_done) handler_->OnWriteDone();
    if (over) End();
    // Memory that the consumer may still read stays unchanged until the consumer releases it or is
    // gone.
    if (gone_) Release(0);
    return !gone_;
  }

  void End() {
    if (!handler_) return;
    Status status;
    {
      MutexLock lock(mutex_);
      closed_ = true;
      status = end_;
    }
    handler_->OnClosed(status);
    handler_.reset();
  }

 private:
  /// Hands the segment to the consumer when it is used for the first time.
  void Grant(std::uint32_t number) MILLRACE_REQUIRES(mutex_) {
    if (!granted_.insert(number).second) return;
    const SharedArena::Segment segment = arena_->segment(number);
    const ShmSegment head{segment.bytes, number, 0};
    socket_.Send(kShmSegment, RawBytes(head), {}, segment.file);
  }

  void Listen() {
    const Status status =
        socket_.Receive([this](const FramedSocket::Frame& frame) { return OnFrame(frame); });
    if (status.code() == StatusCode::kInvalidArgument && open_ == nullptr) {
      // The consumer may still read the fragments that it holds. But it broke the protocol, so its
      // releases cannot be trusted.
      deaf_ = true;
      Close(status);
    } else if (!status.ok()) {  // it is gone, or does not know the key
      gone_ = true;
    }
  }

  /// Takes back all fragments with tokens beyond `last`.
  void Release(std::uint64_t last) {
    std::map<std::uint64_t, std::shared_ptr<const void>>
        released;  // declared before the lock: dropped after it is released
    MutexLock lock(mutex_);
    for (auto it = lent_.upper_bound(last); it != lent_.end();) {
      released.insert(lent_.extract(it++));
    }
    lock.Unlock();
  }

  Status OnHello(const FramedSocket::Frame& frame) {
    ShmHello hello{};
    if (frame.type != kShmHello || frame.payload.size() != sizeof hello) {
      return InvalidArgument("no hello");
    }
    std::memcpy(&hello, frame.payload.data(), sizeof hello);
    const ShmNonce nonce = MakeShmNonce();
    expected_ = Prove(key_, ShmSide::kConsumer, hello.nonce, nonce);
    socket_.Send(kShmAccepted,
                 RawBytes(ShmAccepted{kShmVersion, nonce,
                                      Prove(key_, ShmSide::kWorker, hello.nonce, nonce)}));
    return OkStatus();
  }

  Status OnProof(const FramedSocket::Frame& frame) {
    ShmProof proof{};
    if (frame.type != kShmProof || frame.payload.size() != sizeof proof) {
      return InvalidArgument("no proof");
    }
    std::memcpy(&proof, frame.payload.data(), sizeof proof);
    if (!Same(proof, *expected_)) return InvalidArgument("a proof with another key");
    handler_ = std::exchange(open_, nullptr)(shared_from_this());
    if (!handler_) Close(Unavailable("shutting down"));
    return OkStatus();
  }

  Status OnFrame(const FramedSocket::Frame& frame) {
    if (!expected_) return OnHello(frame);
    if (open_) return OnProof(frame);
    if (frame.type == kShmWants) {
      if (!handler_) return OkStatus();
      v1::WantList wants;
      if (!wants.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()))) {
        return InvalidArgument("a malformed want list");
      }
      handler_->OnMessage(std::move(wants));
      return OkStatus();
    }
    if (frame.type == kShmReleased && frame.payload.size() == sizeof(std::uint64_t)) {
      std::uint64_t token = 0;
      std::memcpy(&token, frame.payload.data(), sizeof token);
      std::shared_ptr<const void>
          released;  // declared before the lock: dropped after it is released
      MutexLock lock(mutex_);
      if (const auto it = lent_.find(token); it != lent_.end()) {
        released = std::move(it->second);
        lent_.erase(it);
      }
      lock.Unlock();
      return OkStatus();
    }
    if (frame.type == kShmDone) {
      Close(OkStatus());
      return OkStatus();
    }
    if (frame.type == kShmCancelled && frame.payload.size() == sizeof(std::uint64_t)) {
      std::uint64_t last = 0;
      std::memcpy(&last, frame.payload.data(), sizeof last);
      {
        MutexLock lock(mutex_);
        closed_ = true;
      }
      socket_.StopSending();
      Release(last);
      return OkStatus();
    }
    return InvalidArgument("a frame of type " + std::to_string(frame.type));
  }

  const std::string key_;
  Open open_;                         // null from the consumer's proof on
  std::optional<ShmProof> expected_;  // the consumer's, from its hello on
  const std::shared_ptr<const SharedArena> arena_;
  FramedSocket socket_;
  const std::shared_ptr<Doorbell> doorbell_;
  std::shared_ptr<StreamHandler<v1::WantList>> handler_;
  bool deaf_ = false;  // the consumer broke the protocol; only its end is waited for
  bool gone_ = false;
  Mutex mutex_;
  bool closed_ MILLRACE_GUARDED_BY(mutex_) = false;
  Status end_ MILLRACE_GUARDED_BY(mutex_) = Cancelled("the other end cancelled or is gone");
  bool write_done_due_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::set<std::uint32_t> granted_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t last_token_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, std::shared_ptr<const void>> lent_ MILLRACE_GUARDED_BY(mutex_);
};

namespace {

/// The stream that the worker writes to. It closes the call when it is dropped.
template <class Call>
class ShmServerStream final : public Stream<OutgoingFragment> {
 public:
  explicit ShmServerStream(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  ~ShmServerStream() override { call_->Close(Cancelled("stream dropped")); }
  void Write(OutgoingFragment message) override { call_->Write(std::move(message)); }
  void Close(const Status& status) override { call_->Close(status); }

 private:
  const std::shared_ptr<Call> call_;
};

}  // namespace

Result<std::unique_ptr<ShmServer>> ShmServer::Start(std::shared_ptr<WorkerEndpoint> endpoint,
                                                    std::shared_ptr<const SharedArena> arena,
                                                    const LocalUsers& users,
                                                    std::shared_ptr<Logger> log) {
  ShmAddress at = MakeShmAddress();
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return ErrnoStatus("a socket for consumers of this host", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, at.name.data() + 1,
              at.name.size() - 1);  // an abstract name: it begins with 0
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + at.name.size());
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener, SOMAXCONN) != 0) {
    const int error = errno;
    close(listener);
    return ErrnoStatus("listening on the socket " + at.name, error);
  }
  return std::unique_ptr<ShmServer>(new ShmServer(std::move(endpoint), std::move(arena), users,
                                                  std::move(log), listener, std::move(at)));
}

ShmServer::ShmServer(std::shared_ptr<WorkerEndpoint> endpoint,
                     std::shared_ptr<const SharedArena> arena, const LocalUsers& users,
                     std::shared_ptr<Logger> log, int listener, ShmAddress address)
    : endpoint_(std::move(endpoint)),
      arena_(std::move(arena)),
      users_(users),
      log_(std::move(log)),
      listener_(listener),
      address_(std::move(address)),
      doorbell_(std::make_shared<Doorbell>()),
      thread_([this] { Run(); }) {}

ShmServer::~ShmServer() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  doorbell_->Ring();
  thread_.join();
  close(listener_);
}

void ShmServer::Run() {
  std::vector<pollfd> polled;
  for (bool full = false;;) {
    polled.assign({{full ? -1 : listener_, POLLIN, 0}, {doorbell_->file(), POLLIN, 0}});
    for (const std::shared_ptr<Call>& call : calls_) {
      polled.push_back({call->socket().socket(), call->Events(), 0});
    }
    poll(polled.data(), polled.size(), full ? kFullMilliseconds : -1);
    full = false;
    if (polled[1].revents != 0) doorbell_->Clear();
    {
      MutexLock lock(mutex_);
      if (stopping_) break;
    }
    std::vector<std::shared_ptr<Call>> going;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i]->Turn(polled[i + 2].revents)) going.push_back(calls_[i]);
    }
    calls_ = std::move(going);
    if (polled[0].revents != 0) full = !Accept();
  }
  for (const std::shared_ptr<Call>& call : calls_) {
    call->Close(Unavailable("the worker stops"));
    call->End();
  }
  calls_.clear();
}

bool ShmServer::Accept() {
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) {
    return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
  }
  ucred peer{};
  socklen_t length = sizeof peer;
  // Others use the network.
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || !users_.May(peer.uid)) {
    log_->Info("shared memory is for consumers of other users",
               {{"served", users_.ToString()},
                {"consumer", UserText(peer.uid)},
                {"consumer_pid", static_cast<int>(peer.pid)}});
    close(socket);
    return true;
  }
  const Peer who{.address = "unix:pid " + std::to_string(peer.pid), .shares_memory = true};
  const auto open = [this, who](std::shared_ptr<Call> call) {
    return endpoint_->OnStreamBatches(std::make_shared<ShmServerStream<Call>>(std::move(call)),
                                      who);
  };
  const auto unproved = [](const std::shared_ptr<Call>& one) { return one->unproved(); };
  if (std::count_if(calls_.begin(), calls_.end(), unproved) >= kMostUnproved) {
    calls_.erase(std::find_if(calls_.begin(), calls_.end(), unproved));
  }
  calls_.push_back(std::make_shared<Call>(socket, address_.key, open, arena_, doorbell_));
  return true;
}

}  // namespace millrace
