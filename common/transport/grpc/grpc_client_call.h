// The client end of a bidirectional gRPC stream, in the form of a Stream and its handler.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include <grpcpp/grpcpp.h>

#include "common/base/result.h"
#include "common/system/mutex.h"
#include "common/transport/grpc/grpc_status.h"
#include "common/transport/grpc/grpc_stream.h"
#include "common/transport/stream.h"

namespace millrace {

/// Counts the calls of one connector for which gRPC may still call back.
class GrpcCallCount {
 public:
  void Begin() {
    MutexLock lock(mutex_);
    ++calls_;
  }
  void End() {
    MutexLock lock(mutex_);
    --calls_;
    changed_.NotifyAll();
  }
  void WaitForNone(double timeout_seconds) {
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::microseconds(static_cast<std::int64_t>(timeout_seconds * 1e6));
    MutexLock lock(mutex_);
    while (calls_ > 0 && std::chrono::steady_clock::now() < end) {
      changed_.WaitFor(mutex_, end - std::chrono::steady_clock::now());
    }
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int calls_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

/// One call. It keeps itself alive from Begin to OnDone. Writes and the half-close are started
/// under `mutex_`, so that none starts after the last read has failed. gRPC runs OnReadDone and
/// OnWriteDone on different threads, so `calls_` keeps the handler's calls from overlapping.
template <class Out, class GrpcOut, class In, class GrpcIn>
class GrpcClientCall final : public grpc::ClientBidiReactor<GrpcOut, GrpcIn> {
 public:
  GrpcClientCall(std::shared_ptr<StreamHandler<In>> handler, std::shared_ptr<GrpcCallCount> count)
      : count_(std::move(count)), handler_(std::move(handler)) {
    count_->Begin();
  }

  /// `start` prepares the call with `context()` and this reactor.
  template <class Prepare>
  static std::shared_ptr<GrpcClientCall> Begin(std::shared_ptr<StreamHandler<In>> handler,
                                               std::shared_ptr<GrpcCallCount> count,
                                               Prepare prepare) {
    auto call = std::make_shared<GrpcClientCall>(std::move(handler), std::move(count));
    call->self_ = call;
    prepare(call->context_, call.get());
    call->AddHold();
    call->StartRead(&incoming(*call));
    call->StartCall();
    return call;
  }

  void Write(Out message) {
    MutexLock lock(mutex_);
    if (ended_ || half_closed_) return;
    writing_ = true;
    outgoing_ = GrpcCodec<Out, GrpcOut>::Encode(std::move(message));
    this->StartWrite(&outgoing_);
  }

  void Close(const Status& status) {
    MutexLock lock(mutex_);
    if (ended_) return;
    if (!status.ok()) {
      context_.TryCancel();
    } else if (!half_closed_) {
      half_closed_ = true;
      if (!writing_) this->StartWritesDone();
    }
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      Result<In> message = GrpcCodec<In, GrpcIn>::Decode(incoming_);
      if (message.ok()) {
        {
          MutexLock lock(calls_);
          handler_->OnMessage(std::move(message).value());
        }
        this->StartRead(&incoming_);
        return;
      }
      MutexLock lock(mutex_);
      malformed_ = message.status();
      context_.TryCancel();
    }
    {
      MutexLock lock(mutex_);
      ended_ = true;
    }
    this->RemoveHold();
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      if (half_closed_ && !ended_) this->StartWritesDone();
    }
    if (!ok) return;  // OnDone follows and says why
    MutexLock lock(calls_);
    handler_->OnWriteDone();
  }

  void OnDone(const grpc::Status& status) override {
    Status ours = FromGrpcStatus(status);
    {
      MutexLock lock(mutex_);
      if (!malformed_.ok()) ours = malformed_;
    }
    {
      MutexLock lock(calls_);
      handler_->OnClosed(ours);
    }
    handler_.reset();
    const std::shared_ptr<GrpcCallCount> count = count_;
    self_.reset();
    count->End();
  }

 private:
  static GrpcIn& incoming(GrpcClientCall& call) { return call.incoming_; }

  const std::shared_ptr<GrpcCallCount> count_;
  grpc::ClientContext context_;
  GrpcIn incoming_;
  Mutex calls_;
  std::shared_ptr<StreamHandler<In>> handler_;  // empty after OnDone
  Mutex mutex_;
  GrpcOut outgoing_ MILLRACE_GUARDED_BY(mutex_);
  bool writing_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool half_closed_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool ended_ MILLRACE_GUARDED_BY(mutex_) = false;
  Status malformed_ MILLRACE_GUARDED_BY(mutex_);
  std::shared_ptr<GrpcClientCall> self_;
};

}  // namespace millrace
