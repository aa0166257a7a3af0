#include "common/transport/shm/shm_call.h"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "common/transport/shm/shm_frames.h"

namespace millrace {
namespace {

/// A worker on this host answers at once, or is as good as gone.
constexpr auto kAnswerTime = std::chrono::seconds(2);

}  // namespace

bool ShmCall::Start() {
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

void ShmCall::Write(v1::WantList wants) {
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

void ShmCall::Close(const Status& status) {
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

void ShmCall::Ended(ShmStreams& streams) {
  MutexLock lock(streams.mutex);
  --streams.live;
  streams.changed.NotifyAll();
}

void ShmCall::Run() {
  Status end = Greet();
  if (!greeted_ && !cancelled()) return TakeNetwork(end);
  if (end.ok()) {
    Accepted();
    end = Converse();
  }
  // Fragments that the worker sent and this end has not read are held by nobody, so they are
  // released.
  socket_->Send(kShmCancelled, RawBytes(last_token_));
  if (cancelled()) {
    MutexLock lock(mutex_);
    end = Cancelled("the stream was cancelled: " + why_.message());
  } else if (closed_) {
    end = *closed_;
  }
  // Fragments that are still held keep the socket alive, because they are released over it.
  segments_.clear();
  handler_->OnClosed(end);
  handler_.reset();
}

Status ShmCall::Greet() {
  const auto give_up = std::chrono::steady_clock::now() + kAnswerTime;
  socket_->Send(kShmHello, RawBytes(ShmHello{kShmVersion, nonce_}));
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

void ShmCall::Accepted() {
  MutexLock lock(mutex_);
  accepted_ = true;
  if (early_) SendWants(*early_);
  early_.reset();
  if (half_closed_) socket_->Send(kShmDone, {});
  doorbell_->Ring();
}

void ShmCall::TakeNetwork(const Status& why) {
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

void ShmCall::MarkUnusable() {
  MutexLock lock(streams_->mutex);
  streams_->unusable.insert(where_.unix_socket);
}

bool ShmCall::cancelled() {
  MutexLock lock(mutex_);
  return cancelled_;
}

void ShmCall::SendWants(const v1::WantList& wants) {
  socket_->Send(kShmWants, wants.SerializeAsString());
  write_done_due_ = true;
}

Status ShmCall::Receive() {
  return socket_->Receive([this](const FramedSocket::Frame& frame) { return OnFrame(frame); });
}

Status ShmCall::Converse() {
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

Status ShmCall::OnHello(const FramedSocket::Frame& frame) {
  ShmAccepted hello{};
  if (frame.type != kShmAccepted || frame.payload.size() != sizeof hello) {
    return FailedPrecondition("no worker answers here");
  }
  std::memcpy(&hello, frame.payload.data(), sizeof hello);
  if (hello.version != kShmVersion) {
    return FailedPrecondition("the worker has another version");
  }
  if (!Same(hello.proof, Prove(key_, ShmSide::kWorker, nonce_, hello.nonce))) {
    return PermissionDenied("another process listens in place of the worker");
  }
  socket_->Send(kShmProof, RawBytes(Prove(key_, ShmSide::kConsumer, nonce_, hello.nonce)));
  greeted_ = true;
  return OkStatus();
}

Status ShmCall::OnFrame(const FramedSocket::Frame& frame) {
  if (!greeted_) return OnHello(frame);
  switch (frame.type) {
    case kShmSegment:
      return OnSegment(frame.payload);
    case kShmFragment:
      return OnFragment(frame.payload);
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

Status ShmCall::OnSegment(std::span<const std::byte> payload) {
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

std::shared_ptr<const SharedView> ShmCall::Announced(std::shared_ptr<const SharedView> view) {
  if (streams_->on_mapped == nullptr) return view;
  struct Known {
    std::shared_ptr<const SharedView> view;
    std::shared_ptr<const void> known;
  };
  std::shared_ptr<const void> known = streams_->on_mapped(view->bytes());
  const SharedView* const bytes = view.get();
  return {std::make_shared<const Known>(Known{std::move(view), std::move(known)}), bytes};
}

Status ShmCall::OnFragment(std::span<const std::byte> payload) {
  ShmFragment head{};
  IncomingFragment in;
  if (payload.size() < sizeof head) return DataLoss("a malformed part");
  std::memcpy(&head, payload.data(), sizeof head);
  payload = payload.subspan(sizeof head);
  if (payload.size() < head.message_bytes ||
      !in.message.ParseFromArray(payload.data(), static_cast<int>(head.message_bytes))) {
    return DataLoss("a malformed part");
  }
  payload = payload.subspan(head.message_bytes);
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

std::shared_ptr<const void> ShmCall::Lent(std::shared_ptr<const SharedView> view,
                                          std::uint64_t token) {
  const std::byte* const data = view->bytes().data();
  // A forked child shares the socket, but it must not release a fragment that its parent may still
  // read.
  return {data, [view = std::move(view), socket = socket_, doorbell = doorbell_, token,
                 process = getpid()](const void*) {
            if (getpid() != process) return;
            socket->Send(kShmReleased, RawBytes(token));
            if (socket->pending()) doorbell->Ring();
          }};
}

}  // namespace millrace
