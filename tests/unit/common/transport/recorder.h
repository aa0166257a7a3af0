// Stream handlers for tests: they record what happens to a stream and let the test wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/system/mutex.h"
#include "common/transport/stream.h"
#include "tests/support/patience.h"

namespace millrace::test {

template <class In>
class Recorder final : public StreamHandler<In> {
 public:
  void OnMessage(In message) override {
    MutexLock lock(mutex_);
    calls_ok_ = calls_ok_ && !inside_ && !closed_;
    inside_ = true;
    messages_.push_back(std::move(message));
    inside_ = false;
    changed_.NotifyAll();
  }
  void OnWriteDone() override {
    MutexLock lock(mutex_);
    calls_ok_ = calls_ok_ && !closed_;
    ++writes_done_;
    changed_.NotifyAll();
  }
  void OnClosed(const Status& status) override {
    MutexLock lock(mutex_);
    calls_ok_ = calls_ok_ && !closed_;
    closed_ = status;
    changed_.NotifyAll();
  }

  /// The next message; nothing if the stream closed or patience ran out.
  std::optional<In> Next(std::chrono::milliseconds patience = kPatience) {
    MutexLock lock(mutex_);
    while (messages_.empty() && !closed_) {
      if (!changed_.WaitFor(mutex_, patience)) return std::nullopt;
    }
    if (messages_.empty()) return std::nullopt;
    In message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }
  bool WaitForWrites(int count) {
    MutexLock lock(mutex_);
    while (writes_done_ < count && !closed_) {
      if (!changed_.WaitFor(mutex_, kPatience)) return false;
    }
    return writes_done_ >= count;
  }
  int writes_done() {
    MutexLock lock(mutex_);
    return writes_done_;
  }
  std::optional<Status> WaitClosed() {
    MutexLock lock(mutex_);
    while (!closed_) {
      if (!changed_.WaitFor(mutex_, kPatience)) return std::nullopt;
    }
    return closed_;
  }
  /// Whether no call overlapped another one or came after OnClosed.
  bool calls_ok() {
    MutexLock lock(mutex_);
    return calls_ok_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<In> messages_ MILLRACE_GUARDED_BY(mutex_);
  int writes_done_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::optional<Status> closed_ MILLRACE_GUARDED_BY(mutex_);
  bool inside_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool calls_ok_ MILLRACE_GUARDED_BY(mutex_) = true;
};

/// One end of a stream that an endpoint accepted.
template <class In, class Out>
struct Accepted {
  std::shared_ptr<Stream<Out>> stream;
  std::shared_ptr<Recorder<In>> recorder = std::make_shared<Recorder<In>>();
};

/// Passes accepted streams to the test.
template <class In, class Out>
class AcceptQueue {
 public:
  std::shared_ptr<StreamHandler<In>> Accept(std::shared_ptr<Stream<Out>> stream) {
    MutexLock lock(mutex_);
    Accepted<In, Out> accepted;
    accepted.stream = std::move(stream);
    accepted_.push_back(accepted);
    changed_.NotifyAll();
    return accepted.recorder;
  }
  Accepted<In, Out> Wait() {
    MutexLock lock(mutex_);
    while (accepted_.empty()) {
      if (!changed_.WaitFor(mutex_, kPatience)) return {};
    }
    Accepted<In, Out> accepted = accepted_.front();
    accepted_.pop_front();
    return accepted;
  }
  bool Empty() {
    MutexLock lock(mutex_);
    return accepted_.empty();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<Accepted<In, Out>> accepted_ MILLRACE_GUARDED_BY(mutex_);
};

class TestDispatcher : public DispatcherEndpoint {
 public:
  std::shared_ptr<StreamHandler<v1::AttachRequest>> OnAttach(
      std::shared_ptr<Stream<v1::AttachResponse>> stream, const Peer&) override {
    return refuse ? nullptr : attached.Accept(std::move(stream));
  }
  std::shared_ptr<StreamHandler<v1::WorkRequest>> OnWork(
      std::shared_ptr<Stream<v1::WorkResponse>> stream, const Peer&) override {
    ++work_attempts;
    return refuse ? nullptr : workers.Accept(std::move(stream));
  }
  Result<std::shared_ptr<const std::string>> OnGetColumn(
      const v1::GetColumnRequest& request) override {
    if (request.column() != "nodes") return NotFound("no column " + request.column());
    return std::make_shared<const std::string>(column);
  }
  Result<v1::ServiceStatus> OnGetStatus(const Peer&) override {
    v1::ServiceStatus status;
    status.set_version("test");
    return status;
  }
  Result<v1::DrainWorkerResponse> OnDrainWorker(const v1::DrainWorkerRequest& request) override {
    return NotFound("no worker " + request.worker());
  }
  Result<v1::UndrainWorkerResponse> OnUndrainWorker(const v1::UndrainWorkerRequest& request) override {
    return NotFound("no worker " + request.worker());
  }
  Result<v1::EndJobResponse> OnEndJob(const v1::EndJobRequest&, const Peer&) override {
    v1::EndJobResponse response;
    response.set_sessions(3);
    return response;
  }

  bool refuse = false;
  std::string column;
  std::atomic<int> work_attempts{0};
  AcceptQueue<v1::AttachRequest, v1::AttachResponse> attached;
  AcceptQueue<v1::WorkRequest, v1::WorkResponse> workers;
};

class TestWorker final : public WorkerEndpoint {
 public:
  std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
      std::shared_ptr<Stream<OutgoingFragment>> stream, const Peer&) override {
    return streams.Accept(std::move(stream));
  }
  Result<StaticBytes> OnGetStatic(const std::string& fingerprint, const Peer&) override {
    if (fingerprint != "known") return NotFound("plan " + fingerprint + " is not ready");
    return tables;
  }

  StaticBytes tables;
  AcceptQueue<v1::WantList, OutgoingFragment> streams;
};

}  // namespace millrace::test
