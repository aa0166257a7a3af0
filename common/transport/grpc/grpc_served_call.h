// The server end of a bidirectional gRPC stream, in the form of a Stream and its handler.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include <google/protobuf/message_lite.h>
#include <grpcpp/grpcpp.h>

#include "common/base/result.h"
#include "common/system/mutex.h"
#include "common/transport/grpc/grpc_status.h"
#include "common/transport/grpc/grpc_stream.h"
#include "common/transport/grpc/unfinished_messages.h"
#include "common/transport/stream.h"

namespace millrace {

inline std::size_t BytesOf(const grpc::ByteBuffer& message) { return message.Length(); }
inline std::size_t BytesOf(const google::protobuf::MessageLite& message) {
  return message.ByteSizeLong();
}

/// Beside an open call: the count of its messages, and the check of its rights.
struct CallWatch {
  std::shared_ptr<FinishedMessages> finished;  // counts the messages that came
  std::function<Status()> still_admits = {};   // of CallGate; null: always
};

/// One served call. It keeps itself alive from Begin to OnDone. At most one write is under way at a
/// time, and Finish comes only after it; `mutex_` guards both. `calls_` keeps the handler's calls
/// from overlapping.
template <class In, class GrpcIn, class Out, class GrpcOut>
class GrpcServedCall final : public grpc::ServerBidiReactor<GrpcIn, GrpcOut> {
 public:
  /// `accept` makes the handler of a peer's stream. If it returns nullptr, or there is no peer, the
  /// call is refused. `watch` is asked about every message that comes.
  template <class Accept>
  static GrpcServedCall* Begin(const Result<Peer>& peer, CallWatch watch, Accept accept);

  void Write(Out message) {
    MutexLock lock(mutex_);
    if (finished_) return;
    writing_ = true;
    outgoing_ = GrpcCodec<Out, GrpcOut>::Encode(std::move(message));
    this->StartWrite(&outgoing_);
  }

  void Close(const Status& status) {
    MutexLock lock(mutex_);
    FinishOnce(status);
  }

  void OnReadDone(bool ok) override {
    Status end;
    if (ok) {
      watch_.finished->Add(BytesOf(incoming_));
      Result<In> message = GrpcCodec<In, GrpcIn>::Decode(incoming_);
      Status admitted = watch_.still_admits ? watch_.still_admits() : OkStatus();
      if (message.ok() && admitted.ok()) {
        {
          MutexLock lock(calls_);
          if (handler_) handler_->OnMessage(std::move(message).value());
        }
        this->StartRead(&incoming_);
        return;
      }
      end = admitted.ok() ? message.status() : std::move(admitted);
    }
    MutexLock lock(mutex_);
    FinishOnce(end);
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      if (finished_) {
        this->Finish(final_);
        return;
      }
    }
    if (!ok) return;  // OnReadDone or OnCancel follows
    // A peer may have made many requests at once, and then be silent.
    if (const Status admitted = watch_.still_admits ? watch_.still_admits() : OkStatus();
        !admitted.ok()) {
      return Close(admitted);
    }
    MutexLock lock(calls_);
    if (handler_) handler_->OnWriteDone();
  }

  void OnCancel() override {
    MutexLock lock(mutex_);
    cancelled_ = true;
    FinishOnce(Cancelled("the other end cancelled or is gone"));
  }

  void OnDone() override {
    bool cancelled = false;
    {
      MutexLock lock(mutex_);
      cancelled = cancelled_;
    }
    if (handler_) {
      MutexLock lock(calls_);
      handler_->OnClosed(cancelled ? Cancelled("the other end cancelled or is gone") : OkStatus());
    }
    handler_.reset();
    self_.reset();
  }

 private:
  void FinishOnce(const Status& status) MILLRACE_REQUIRES(mutex_) {
    if (finished_) return;
    finished_ = true;
    final_ = ToGrpcStatus(status);
    if (!writing_) this->Finish(final_);
  }

  GrpcIn incoming_;
  Mutex calls_;
  std::shared_ptr<StreamHandler<In>> handler_;  // empty after OnDone
  Mutex mutex_;
  GrpcOut outgoing_ MILLRACE_GUARDED_BY(mutex_);
  bool writing_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool finished_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool cancelled_ MILLRACE_GUARDED_BY(mutex_) = false;
  grpc::Status final_ MILLRACE_GUARDED_BY(mutex_);
  CallWatch watch_;
  std::shared_ptr<GrpcServedCall> self_;
};

template <class In, class GrpcIn, class Out, class GrpcOut>
template <class Accept>
GrpcServedCall<In, GrpcIn, Out, GrpcOut>* GrpcServedCall<In, GrpcIn, Out, GrpcOut>::Begin(
    const Result<Peer>& peer, CallWatch watch, Accept accept) {
  auto call = std::make_shared<GrpcServedCall>();
  call->self_ = call;
  call->watch_ = std::move(watch);
  if (!peer.ok()) {
    call->Close(peer.status());
    return call.get();
  }
  {
    const auto stream = std::make_shared<GrpcStream<GrpcServedCall, Out>>(call);
    // The handler may already write while `accept` runs. Its OnWriteDone then waits for `calls_`.
    MutexLock lock(call->calls_);
    call->handler_ = accept(stream, *peer);
    if (!call->handler_) {
      call->Close(Unavailable("shutting down"));
      return call.get();
    }
  }
  call->StartRead(&call->incoming_);
  return call.get();
}

}  // namespace millrace
