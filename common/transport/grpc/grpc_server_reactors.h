// Server-streaming calls that need no handler: static tables, columns, and a status that is sent
// once per period. Each reactor deletes itself when gRPC no longer needs it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include "common/base/result.h"
#include "common/system/mutex.h"
#include "common/transport/grpc/grpc_deadline.h"
#include "common/transport/grpc/grpc_status.h"
#include "common/transport/stream.h"
#include "common/transport/wire.h"

namespace millrace {

/// Sends bytes in fragments (StaticFragment or ColumnFragment), one message after another.
template <class Fragment>
class FragmentsReactor final : public grpc::ServerWriteReactor<Fragment> {
 public:
  FragmentsReactor(std::shared_ptr<const std::string> bytes, std::uint64_t offset)
      : bytes_(std::move(bytes)), offset_(offset) {
    WriteNext();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) {
      this->Finish(grpc::Status::CANCELLED);
    } else {
      WriteNext();
    }
  }
  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    if (offset_ >= bytes_->size()) {
      this->Finish(grpc::Status::OK);
      return;
    }
    fragment_.set_total_bytes(bytes_->size());
    fragment_.set_offset(offset_);
    fragment_.set_data(bytes_->substr(offset_, wire::kMaxFragmentBytes));
    offset_ += fragment_.data().size();
    this->StartWrite(&fragment_);
  }

  const std::shared_ptr<const std::string> bytes_;
  std::uint64_t offset_;
  Fragment fragment_;
};

/// Only ends a server-streaming call with an error.
template <class Message>
class RefusedReactor final : public grpc::ServerWriteReactor<Message> {
 public:
  explicit RefusedReactor(const Status& status) { this->Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

/// Sends the status once per period, until the reader goes away.
class StatusReactor final : public grpc::ServerWriteReactor<v1::ServiceStatus> {
 public:
  /// `still_admits`: of CallGate; null: always.
  StatusReactor(std::shared_ptr<DispatcherEndpoint> endpoint, Peer peer,
                std::function<Status()> still_admits, double period_seconds)
      : endpoint_(std::move(endpoint)),
        peer_(std::move(peer)),
        still_admits_(std::move(still_admits)),
        period_seconds_(period_seconds) {
    WriteOne();
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    if (!ok || cancelled_) {
      FinishOnce(OkStatus());
      return;
    }
    waiting_ = true;
    alarm_.Set(SecondsFromNow(period_seconds_), [this](bool) {
      {
        MutexLock inner(mutex_);
        waiting_ = false;
        if (cancelled_) {
          FinishOnce(OkStatus());
          return;
        }
      }
      WriteOne();
    });
  }
  void OnCancel() override {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (waiting_) alarm_.Cancel();
  }
  void OnDone() override {
    // The alarm's thread may have finished the call and still hold the mutex.
    { MutexLock lock(mutex_); }
    delete this;
  }

 private:
  void WriteOne() {
    const Status admitted = still_admits_ ? still_admits_() : OkStatus();
    Result<v1::ServiceStatus> status =
        admitted.ok() ? endpoint_->OnGetStatus(peer_) : Result<v1::ServiceStatus>(admitted);
    MutexLock lock(mutex_);
    if (!status.ok()) {
      FinishOnce(status.status());
      return;
    }
    message_ = std::move(status).value();
    StartWrite(&message_);
  }
  void FinishOnce(const Status& status) MILLRACE_REQUIRES(mutex_) {
    if (finished_) return;
    finished_ = true;
    Finish(ToGrpcStatus(status));
  }

  const std::shared_ptr<DispatcherEndpoint> endpoint_;
  const Peer peer_;
  const std::function<Status()> still_admits_;
  const double period_seconds_;
  grpc::Alarm alarm_;
  Mutex mutex_;
  v1::ServiceStatus message_ MILLRACE_GUARDED_BY(mutex_);
  bool waiting_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool cancelled_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool finished_ MILLRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace
