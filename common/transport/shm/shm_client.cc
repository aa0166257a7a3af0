#include "common/transport/shm/shm_client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "common/transport/shm/shm_call.h"
#include "common/transport/shm/shm_key.h"

namespace millrace {
namespace {

class ShmClientStream final : public Stream<v1::WantList> {
 public:
  explicit ShmClientStream(std::shared_ptr<ShmCall> call) : call_(std::move(call)) {}
  ~ShmClientStream() override { call_->Close(Cancelled("stream dropped")); }
  void Write(v1::WantList wants) override { call_->Write(std::move(wants)); }
  void Close(const Status& status) override { call_->Close(status); }

 private:
  const std::shared_ptr<ShmCall> call_;
};

/// A socket connected to `name`. -1 if nobody listens there, or too many clients wait.
int ConnectTo(const std::string& name) {
  sockaddr_un address{};
  if (name.size() < 2 || name.front() != '@' || name.size() > sizeof address.sun_path) return -1;
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
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
  ShmConnector(std::shared_ptr<Connector> network, std::string host_id, OnMapped on_mapped)
      : network_(std::move(network)),
        host_id_(std::move(host_id)),
        streams_(std::make_shared<ShmStreams>(network_, std::move(on_mapped))) {}

  std::shared_ptr<Stream<v1::WantList>> StreamBatches(
      const BatchAddress& where,
      std::shared_ptr<StreamHandler<IncomingFragment>> handler) override {
    const std::optional<ShmAddress> at =
        Usable(where) ? ParseShmAddress(where.unix_socket) : std::nullopt;
    if (at) {
      if (const int socket = ConnectTo(at->name); socket >= 0) {
        auto call = std::make_shared<ShmCall>(socket, at->key, where, handler, streams_);
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
  Result<std::string> GetColumn(const std::string& address, const v1::GetColumnRequest& request,
                                double silence_seconds, std::stop_token stop) override {
    return network_->GetColumn(address, request, silence_seconds, std::move(stop));
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
  Result<v1::UndrainWorkerResponse> UndrainWorker(const std::string& address,
                                                  const v1::UndrainWorkerRequest& request,
                                                  double timeout_seconds) override {
    return network_->UndrainWorker(address, request, timeout_seconds);
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
