#include "tests/support/in_process.h"

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

#include "common/base/hash.h"
#include "common/system/stop_wait.h"

namespace millrace {
namespace {

/// Turns a message into the form that the other end receives. Fragments of batches change their
/// type on the way, as they do on a socket.
template <class Message>
Message Carry(Message message) {
  return message;
}
IncomingFragment Carry(OutgoingFragment out) {
  IncomingFragment in;
  in.message = std::move(out.message);
  if (!out.data.empty()) in.data.push_back(out.data);
  in.owner = std::move(out.owner);
  return in;
}

/// One end of a link: its handler, which is called only on its strand, and whether the handler has
/// been told that the stream is closed.
template <class In>
struct End {
  explicit End(Executor& executor) : strand(std::make_shared<Strand>(executor)) {}

  void PostClosed(const Status& status) {
    strand->Post([this, status] {
      if (closed) return;
      closed = true;
      // A handler may drop the stream, and this link with it. `h` keeps the handler until the call
      // returns.
      const std::shared_ptr<StreamHandler<In>> h = std::move(handler);
      if (h) h->OnClosed(status);
    });
  }

  std::shared_ptr<Strand> strand;
  std::shared_ptr<StreamHandler<In>> handler;  // only used on the strand
  bool closed = false;                         // only used on the strand
};

template <class Up, class Down, class UpIn, class DownIn>
class Link final : public InProcessLink,
                   public std::enable_shared_from_this<Link<Up, Down, UpIn, DownIn>> {
 public:
  explicit Link(Executor& executor) : client(executor), server(executor) {}

  void Break(const Status& why) override {
    auto self = this->shared_from_this();
    client.strand->Post([self] {});
    PostClosed(why, why);
  }
  void SetPaused(bool paused) override {
    client.strand->SetPaused(paused);
    server.strand->SetPaused(paused);
  }

  void PostClosed(const Status& to_client, const Status& to_server) {
    auto self = this->shared_from_this();
    client.PostClosed(to_client);
    server.PostClosed(to_server);
    // Both tasks above use members of this link. These tasks keep it alive until they have run.
    client.strand->Post([self] {});
    server.strand->Post([self] {});
  }

  template <class Message, class Receiver, class Sender>
  void Send(Message message, Receiver& to, Sender& back) {
    auto self = this->shared_from_this();
    to.strand->Post([self, &to, &back, m = std::make_shared<Message>(std::move(message))] {
      if (to.closed || !to.handler) return;
      to.handler->OnMessage(Carry(std::move(*m)));
      back.strand->Post([self, &back] {
        if (!back.closed && back.handler) back.handler->OnWriteDone();
      });
    });
  }

  End<DownIn> client;
  End<UpIn> server;
};

template <class L, class Up>
class ClientStream final : public Stream<Up> {
 public:
  explicit ClientStream(std::shared_ptr<L> link) : link_(std::move(link)) {}
  ~ClientStream() override { Close(Cancelled("stream dropped")); }
  void Write(Up message) override { link_->Send(std::move(message), link_->server, link_->client); }
  void Close(const Status& status) override {
    link_->PostClosed(status, status.ok() ? status : Cancelled("the other end cancelled"));
  }

 private:
  std::shared_ptr<L> link_;
};

template <class L, class Down>
class ServerStream final : public Stream<Down> {
 public:
  explicit ServerStream(std::shared_ptr<L> link) : link_(std::move(link)) {}
  ~ServerStream() override { Close(Cancelled("stream dropped")); }
  void Write(Down message) override {
    link_->Send(std::move(message), link_->client, link_->server);
  }
  void Close(const Status& status) override { link_->PostClosed(status, OkStatus()); }

 private:
  std::shared_ptr<L> link_;
};

}  // namespace

template <class Up, class Down, class DownIn, class Accept>
std::shared_ptr<Stream<Up>> InProcessNetwork::Open(const std::string& from, const std::string& to,
                                                   std::shared_ptr<StreamHandler<DownIn>> handler,
                                                   Accept accept) {
  using L = Link<Up, Down, Up, DownIn>;
  auto link = std::make_shared<L>(executor_);
  link->SetPaused(true);  // so nothing is delivered before both handlers are in place
  link->client.handler = std::move(handler);
  const auto server_end = std::make_shared<ServerStream<L, Down>>(link);
  link->server.handler = accept(server_end);
  if (link->server.handler == nullptr) link->Break(Unavailable("nobody listens at " + to));
  bool paused = false;
  {
    MutexLock lock(mutex_);
    std::erase_if(links_, [](const LinkEntry& entry) { return entry.link.expired(); });
    links_.push_back({from, to, link});
    paused = paused_[from] || paused_[to];
  }
  link->SetPaused(paused);
  return std::make_shared<ClientStream<L, Up>>(link);
}

class InProcessConnector final : public Connector {
 public:
  InProcessConnector(InProcessNetwork& network, std::string from)
      : network_(network), from_(std::move(from)) {}

  std::shared_ptr<Stream<v1::AttachRequest>> Attach(
      const std::string& address,
      std::shared_ptr<StreamHandler<v1::AttachResponse>> handler) override {
    auto endpoint = network_.FindDispatcher(address);
    return network_.Open<v1::AttachRequest, v1::AttachResponse>(
        from_, address, std::move(handler),
        [&](auto stream) { return endpoint ? endpoint->OnAttach(stream, Peer{from_}) : nullptr; });
  }

  std::shared_ptr<Stream<v1::WorkRequest>> Work(
      const std::string& address,
      std::shared_ptr<StreamHandler<v1::WorkResponse>> handler) override {
    auto endpoint = network_.FindDispatcher(address);
    return network_.Open<v1::WorkRequest, v1::WorkResponse>(
        from_, address, std::move(handler),
        [&](auto stream) { return endpoint ? endpoint->OnWork(stream, Peer{from_}) : nullptr; });
  }

  std::shared_ptr<Stream<v1::TraceRequest>> Trace(
      const std::string& address, std::shared_ptr<StreamHandler<v1::TraceChunk>> handler) override {
    auto endpoint = network_.FindDispatcher(address);
    return network_.Open<v1::TraceRequest, v1::TraceChunk>(
        from_, address, std::move(handler),
        [&](auto stream) { return endpoint ? endpoint->OnTrace(stream) : nullptr; });
  }

  std::shared_ptr<Stream<v1::WantList>> StreamBatches(
      const BatchAddress& where,
      std::shared_ptr<StreamHandler<IncomingFragment>> handler) override {
    auto endpoint = network_.FindWorker(where.address);
    return network_.Open<v1::WantList, OutgoingFragment>(
        from_, where.address, std::move(handler), [&](auto stream) {
          return endpoint ? endpoint->OnStreamBatches(stream, Peer{from_}) : nullptr;
        });
  }

  Result<std::string> GetStatic(const std::string& address, const std::string& fingerprint,
                                const std::string& digest, double, std::stop_token) override {
    auto endpoint = network_.FindWorker(address);
    if (!endpoint) return Unavailable("nobody listens at " + address);
    MILLRACE_ASSIGN_OR_RETURN(const StaticBytes found,
                              endpoint->OnGetStatic(fingerprint, Peer{from_}));
    if (Xxh3(*found.bytes).ToHex() != digest) {
      return DataLoss("static tables from " + address + " differ from digest " + digest);
    }
    return *found.bytes;
  }

  Result<std::string> GetColumn(const std::string& address, const v1::GetColumnRequest& request,
                                double, std::stop_token) override {
    auto endpoint = network_.FindDispatcher(address);
    if (!endpoint) return Unavailable("nobody listens at " + address);
    MILLRACE_ASSIGN_OR_RETURN(const auto bytes, endpoint->OnGetColumn(request));
    return *bytes;
  }

  Result<v1::ServiceStatus> GetStatus(const std::string& address, double) override {
    auto endpoint = network_.FindDispatcher(address);
    if (!endpoint) return Unavailable("nobody listens at " + address);
    return endpoint->OnGetStatus(Peer{from_});
  }
  Status WatchStatus(const std::string& address, double period_seconds,
                     const std::function<void(const v1::ServiceStatus&)>& on_status,
                     std::stop_token stop) override {
    while (!stop.stop_requested()) {
      MILLRACE_ASSIGN_OR_RETURN(const v1::ServiceStatus status, GetStatus(address, 0));
      on_status(status);
      WaitUnlessStopped(stop, std::chrono::duration<double>(period_seconds));
    }
    return OkStatus();
  }
  Result<v1::DrainWorkerResponse> DrainWorker(const std::string& address,
                                              const v1::DrainWorkerRequest& request,
                                              double) override {
    auto endpoint = network_.FindDispatcher(address);
    if (!endpoint) return Unavailable("nobody listens at " + address);
    return endpoint->OnDrainWorker(request);
  }
  Result<v1::UndrainWorkerResponse> UndrainWorker(const std::string& address,
                                                  const v1::UndrainWorkerRequest& request,
                                                  double) override {
    auto endpoint = network_.FindDispatcher(address);
    if (!endpoint) return Unavailable("nobody listens at " + address);
    return endpoint->OnUndrainWorker(request);
  }
  Result<v1::EndJobResponse> EndJob(const std::string& address, const v1::EndJobRequest& request,
                                    double) override {
    auto endpoint = network_.FindDispatcher(address);
    if (!endpoint) return Unavailable("nobody listens at " + address);
    return endpoint->OnEndJob(request, Peer{from_});
  }

 private:
  InProcessNetwork& network_;
  const std::string from_;
};

InProcessNetwork::InProcessNetwork(int threads) : executor_(threads) {}
InProcessNetwork::~InProcessNetwork() {
  MutexLock lock(mutex_);
  for (LinkEntry& entry : links_) {
    if (auto link = entry.link.lock()) {
      link->SetPaused(false);
      link->Break(Unavailable("the network is gone"));
    }
  }
}

void InProcessNetwork::AddDispatcher(const std::string& address,
                                     std::shared_ptr<DispatcherEndpoint> endpoint) {
  MutexLock lock(mutex_);
  dispatchers_[address] = std::move(endpoint);
}

void InProcessNetwork::AddWorker(const std::string& address,
                                 std::shared_ptr<WorkerEndpoint> endpoint) {
  MutexLock lock(mutex_);
  workers_[address] = std::move(endpoint);
}

void InProcessNetwork::Kill(const std::string& address) {
  std::shared_ptr<DispatcherEndpoint> dispatcher;
  std::shared_ptr<WorkerEndpoint>
      worker;  // declared before the lock, so that it is destroyed after the lock is released
  MutexLock lock(mutex_);
  dispatcher = std::exchange(dispatchers_[address], nullptr);
  worker = std::exchange(workers_[address], nullptr);
  paused_[address] = false;
  for (LinkEntry& entry : links_) {
    if (entry.from != address && entry.to != address) continue;
    if (auto link = entry.link.lock()) {
      link->SetPaused(false);
      link->Break(Unavailable("connection to " + address + " broke"));
    }
  }
  lock.Unlock();
}

void InProcessNetwork::SetPaused(const std::string& address, bool paused) {
  MutexLock lock(mutex_);
  paused_[address] = paused;
  for (LinkEntry& entry : links_) {
    if (entry.from != address && entry.to != address) continue;
    if (auto link = entry.link.lock()) link->SetPaused(paused);
  }
}

std::shared_ptr<Connector> InProcessNetwork::MakeConnector(const std::string& from) {
  return std::make_shared<InProcessConnector>(*this, from);
}

std::shared_ptr<DispatcherEndpoint> InProcessNetwork::FindDispatcher(const std::string& address) {
  MutexLock lock(mutex_);
  const auto found = dispatchers_.find(address);
  return found == dispatchers_.end() ? nullptr : found->second;
}

std::shared_ptr<WorkerEndpoint> InProcessNetwork::FindWorker(const std::string& address) {
  MutexLock lock(mutex_);
  const auto found = workers_.find(address);
  return found == workers_.end() ? nullptr : found->second;
}

}  // namespace millrace
