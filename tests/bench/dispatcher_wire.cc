#include "tests/bench/dispatcher_wire.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "common/system/mutex.h"
#include "common/transport/grpc/grpc_client.h"
#include "common/transport/grpc/grpc_server.h"
#include "server/dispatcher/service/dispatcher_service.h"
#include "server/state/memory_store.h"
#include "tests/bench/heap.h"
#include "tests/bench/limits.h"

namespace millrace::bench {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

/// Runs the dispatcher until its parent ends; writes the port to `port_fd`.
[[noreturn]] void Serve(int port_fd, int end_fd) {
  Heap::Stop();
  DispatcherOptions options;
  auto service =
      DispatcherService::Start(options, std::make_shared<MemoryStore>(), MakeBenchCompiler(),
                               std::make_shared<SystemClock>(), MakeNullLogger());
  GrpcServerOptions server_options;
  server_options.listen = "127.0.0.1:0";
  int port = 0;
  std::unique_ptr<GrpcServer> server;
  if (service.ok()) {
    (*service)->SetDataset("stdlib", BenchDataset());
    auto started = GrpcServer::Start(server_options, std::shared_ptr<DispatcherEndpoint>(*service));
    if (started.ok()) server = *std::move(started);
    if (server) port = server->port();
  }
  if (write(port_fd, &port, sizeof port) != sizeof port) _exit(1);
  char nothing;
  while (read(end_fd, &nothing, 1) > 0) {
  }
  _exit(0);
}

class ServerProcess {
 public:
  /// Starts the process. This forks.
  static Result<std::unique_ptr<ServerProcess>> Start() {
    int port_pipe[2];
    int end_pipe[2];
    if (pipe(port_pipe) != 0 || pipe(end_pipe) != 0) return Internal("no pipe");
    const pid_t pid = fork();
    if (pid == 0) {
      close(port_pipe[0]);
      close(end_pipe[1]);
      Serve(port_pipe[1], end_pipe[0]);
    }
    close(port_pipe[1]);
    close(end_pipe[0]);
    int port = 0;
    const bool told = read(port_pipe[0], &port, sizeof port) == sizeof port;
    close(port_pipe[0]);
    auto server = std::unique_ptr<ServerProcess>(new ServerProcess(pid, end_pipe[1], port));
    if (!told || port == 0) return Internal("the dispatcher did not start");
    return server;
  }
  ~ServerProcess() {
    close(end_);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }
  double CpuSeconds() const {
    std::ifstream in(fmt::format("/proc/{}/stat", pid_));
    std::string text((std::istreambuf_iterator<char>(in)), {});
    text = text.substr(text.rfind(')') + 2);
    unsigned long user = 0;
    unsigned long system = 0;
    std::sscanf(text.c_str(), "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                &system);
    return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  double AnonymousBytes() const {
    std::ifstream in(fmt::format("/proc/{}/status", pid_));
    std::string key;
    double kilobytes = 0;
    while (in >> key) {
      if (key == "RssAnon:" && in >> kilobytes) return kilobytes * 1024;
      std::getline(in, key);
    }
    return 0;
  }

 private:
  ServerProcess(pid_t pid, int end, int port) : pid_(pid), end_(end), port_(port) {}

  const pid_t pid_;
  const int end_;
  const int port_;
};

/// Facts that all consumers share: the first error, and what is being measured.
struct Shared {
  std::atomic<std::uint64_t> leases{0};
  std::atomic<std::uint32_t> welcomed{0};
  std::atomic<std::uint32_t> covered{0};  // consumers whose whole window was leased at least once
  std::atomic<bool> eager{false};         // whether to report as soon as the window is covered
  Mutex mutex;
  Status failure MILLRACE_GUARDED_BY(mutex);
  std::vector<float> latencies MILLRACE_GUARDED_BY(mutex);

  void Fail(const Status& status) {
    MutexLock lock(mutex);
    if (failure.ok()) failure = status;
  }
};

/// A worker's or consumer's end of a stream. It writes one message at a time, always the latest.
template <class Out>
class Writer {
 public:
  void Set(std::shared_ptr<Stream<Out>> stream) {
    MutexLock lock(mutex_);
    stream_ = std::move(stream);
  }
  void Send(Out message) {
    std::shared_ptr<Stream<Out>> stream;
    {
      MutexLock lock(mutex_);
      if (!stream_) return;
      if (writing_) {
        waiting_ = std::move(message);
        return;
      }
      writing_ = true;
      stream = stream_;
    }
    stream->Write(std::move(message));
  }
  void Done() {
    std::optional<Out> next;
    std::shared_ptr<Stream<Out>> stream;
    {
      MutexLock lock(mutex_);
      next = std::exchange(waiting_, std::nullopt);
      writing_ = next.has_value();
      stream = stream_;
    }
    if (next && stream) stream->Write(*std::move(next));
  }
  void Drop() { Set(nullptr); }

 private:
  Mutex mutex_;
  std::shared_ptr<Stream<Out>> stream_ MILLRACE_GUARDED_BY(mutex_);
  bool writing_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::optional<Out> waiting_ MILLRACE_GUARDED_BY(mutex_);
};

class WireConsumer final : public StreamHandler<v1::AttachResponse> {
 public:
  WireConsumer(const FleetOptions& options, std::uint32_t number, Shared& shared)
      : consumer_(options, number), shared_(shared) {}

  Writer<v1::AttachRequest>& writer() { return writer_; }
  v1::AttachRequest Hello() {
    MutexLock lock(mutex_);
    return consumer_.Hello();
  }

  /// Takes a lease's batches and reports. `due` is the time at which that should have happened.
  void Step(SteadyTime due) {
    std::optional<v1::AttachRequest> report;
    {
      MutexLock lock(mutex_);
      if (pending_ || !consumer_.FinishLease()) return;
      pending_ = due;
      report = consumer_.Report();
    }
    writer_.Send(*std::move(report));
  }
  /// Sends the report of a consumer that has nothing new to say or waits for its Welcome.
  void Beat() {
    v1::AttachRequest report;
    report.mutable_report();
    {
      MutexLock lock(mutex_);
      if (consumer_.welcomed()) report = consumer_.Report();
    }
    writer_.Send(std::move(report));
  }

  void OnMessage(v1::AttachResponse message) override {
    bool again = false;
    std::optional<v1::AttachRequest> report;
    {
      MutexLock lock(mutex_);
      const bool was_welcomed = consumer_.welcomed();
      if (Status status = consumer_.Receive(message); !status.ok()) return shared_.Fail(status);
      if (!was_welcomed && consumer_.welcomed()) {
        ++shared_.welcomed;
        report = consumer_.Report();
      }
      shared_.leases += static_cast<std::uint64_t>(message.leases_size());
      if (message.leases_size() > 0 && consumer_.covered() && !std::exchange(was_covered_, true)) {
        ++shared_.covered;
      }
      if (message.leases_size() > 0 && pending_) {
        const double waited = Seconds(*pending_);
        pending_.reset();
        MutexLock shared_lock(shared_.mutex);
        shared_.latencies.push_back(static_cast<float>(waited));
      }
      again = shared_.eager && message.leases_size() > 0;
    }
    if (report) writer_.Send(*std::move(report));
    if (again) Step(std::chrono::steady_clock::now());
  }
  void OnWriteDone() override { writer_.Done(); }
  void OnClosed(const Status& status) override {
    if (!status.ok() && status.code() != StatusCode::kCancelled) shared_.Fail(status);
  }

 private:
  Mutex mutex_;
  BenchConsumer consumer_ MILLRACE_GUARDED_BY(mutex_);
  std::optional<SteadyTime> pending_ MILLRACE_GUARDED_BY(mutex_);
  bool was_covered_ MILLRACE_GUARDED_BY(mutex_) = false;
  Writer<v1::AttachRequest> writer_;
  Shared& shared_;
};

class WireWorker final : public StreamHandler<v1::WorkResponse> {
 public:
  explicit WireWorker(Shared& shared) : shared_(shared) {}
  Writer<v1::WorkRequest>& writer() { return writer_; }
  void OnMessage(v1::WorkResponse) override {}
  void OnWriteDone() override { writer_.Done(); }
  void OnClosed(const Status& status) override {
    if (!status.ok() && status.code() != StatusCode::kCancelled) shared_.Fail(status);
  }

 private:
  Shared& shared_;
  Writer<v1::WorkRequest> writer_;
};

/// A fleet of connections, one for each peer.
class WireFleet {
 public:
  WireFleet(const FleetOptions& options, std::string address)
      : options_(options), address_(std::move(address)) {
    for (std::uint32_t w = 0; w < options.workers; ++w) {
      workers_.push_back(std::make_shared<WireWorker>(shared_));
    }
    for (std::uint32_t c = 0; c < options.consumers; ++c) {
      consumers_.push_back(std::make_shared<WireConsumer>(options, c, shared_));
    }
  }
  ~WireFleet() {
    beats_ = {};
    for (const auto& consumer : consumers_) consumer->writer().Drop();
    for (const auto& worker : workers_) worker->writer().Drop();
    for (const auto& connector : connectors_) {
      connector->WaitForStreams(Connector::kStreamsEndSeconds);
    }
  }

  Shared& shared() { return shared_; }
  std::vector<std::shared_ptr<WireConsumer>>& consumers() { return consumers_; }

  void ConnectWorkers() {
    for (std::uint32_t w = 0; w < options_.workers; ++w) {
      connectors_.push_back(MakeGrpcConnector({}));
      workers_[w]->writer().Set(connectors_.back()->Work(address_, workers_[w]));
      workers_[w]->writer().Send(MakeWorkReport(w, BenchFingerprint()));
    }
  }
  void ConnectConsumers() {
    for (const auto& consumer : consumers_) {
      connectors_.push_back(MakeGrpcConnector({}));
      consumer->writer().Set(connectors_.back()->Attach(address_, consumer));
      consumer->writer().Send(consumer->Hello());
    }
  }
  /// Makes everyone report once a second from now on; the reports are spread over the second.
  void BeginBeats() {
    beats_ = std::jthread([this](const std::stop_token& stop) {
      const std::size_t peers = workers_.size() + consumers_.size();
      auto next = std::chrono::steady_clock::now();
      for (std::size_t i = 0; !stop.stop_requested(); i = (i + 1) % peers) {
        next += std::chrono::nanoseconds(1'000'000'000 / peers);
        std::this_thread::sleep_until(next);
        if (i < workers_.size()) {
          workers_[i]->writer().Send(
              MakeWorkReport(static_cast<std::uint32_t>(i), BenchFingerprint()));
        } else {
          consumers_[i - workers_.size()]->Beat();
        }
      }
    });
  }

  Status WaitFor(const std::atomic<std::uint32_t>& count, std::uint32_t wanted, const char* what) {
    const auto began = std::chrono::steady_clock::now();
    while (count < wanted) {
      {
        MutexLock lock(shared_.mutex);
        MILLRACE_RETURN_IF_ERROR(shared_.failure);
      }
      if (Seconds(began) > 60) {
        return DeadlineExceeded(
            fmt::format("{} of {} consumers {} after 60 s", count.load(), wanted, what));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return OkStatus();
  }

 private:
  const FleetOptions options_;
  const std::string address_;
  Shared shared_;
  std::vector<std::shared_ptr<Connector>> connectors_;
  std::vector<std::shared_ptr<WireWorker>> workers_;
  std::vector<std::shared_ptr<WireConsumer>> consumers_;
  std::jthread beats_;
};

double At(const std::vector<float>& sorted, double share) {
  if (sorted.empty()) return 0;
  return static_cast<double>(
      sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))]);
}

/// Makes all consumers report in turn, `rate` reports a second.
void Pace(WireFleet& fleet, double rate, double seconds) {
  const auto began = std::chrono::steady_clock::now();
  const auto count = static_cast<std::uint64_t>(rate * seconds);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto due = began + std::chrono::nanoseconds(
                                 static_cast<std::int64_t>(1e9 * static_cast<double>(i) / rate));
    std::this_thread::sleep_until(due);
    fleet.consumers()[i % fleet.consumers().size()]->Step(due);
  }
}

}  // namespace

Result<WireResult> RunOverGrpc(const FleetOptions& options, double rate, double seconds) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto server, ServerProcess::Start());
  WireResult result;
  WireFleet fleet(options, server->address());
  Shared& shared = fleet.shared();
  const double empty = server->AnonymousBytes();
  fleet.ConnectWorkers();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double with_workers = server->AnonymousBytes();
  result.worker_bytes = (with_workers - empty) / options.workers;

  const auto began = std::chrono::steady_clock::now();
  fleet.ConnectConsumers();
  fleet.BeginBeats();
  MILLRACE_RETURN_IF_ERROR(fleet.WaitFor(shared.welcomed, options.consumers, "had a Welcome"));
  result.all_welcome = Seconds(began);
  MILLRACE_RETURN_IF_ERROR(fleet.WaitFor(shared.covered, options.consumers, "had their leases"));
  result.consumer_bytes = (server->AnonymousBytes() - with_workers) / options.consumers;

  std::this_thread::sleep_for(std::chrono::duration<double>(std::min(1.0, seconds)));
  {
    MutexLock lock(shared.mutex);
    shared.latencies.clear();
  }
  auto from = std::chrono::steady_clock::now();
  double cpu = server->CpuSeconds();
  std::uint64_t leases = shared.leases;
  Pace(fleet, rate, seconds);
  result.paced_rate = static_cast<double>(shared.leases - leases) / Seconds(from);
  result.paced_cpu = (server->CpuSeconds() - cpu) / Seconds(from);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  {
    MutexLock lock(shared.mutex);
    std::sort(shared.latencies.begin(), shared.latencies.end());
    result.p50 = At(shared.latencies, 0.5);
    result.p99 = At(shared.latencies, 0.99);
    result.worst = At(shared.latencies, 1);
  }

  from = std::chrono::steady_clock::now();
  cpu = server->CpuSeconds();
  leases = shared.leases;
  shared.eager = true;
  for (const auto& consumer : fleet.consumers()) consumer->Step(from);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  shared.eager = false;
  result.most_rate = static_cast<double>(shared.leases - leases) / Seconds(from);
  result.most_cpu = (server->CpuSeconds() - cpu) / Seconds(from);
  MutexLock lock(shared.mutex);
  MILLRACE_RETURN_IF_ERROR(shared.failure);
  return result;
}

}  // namespace millrace::bench
