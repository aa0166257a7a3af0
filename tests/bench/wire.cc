// Measures moving batches over gRPC, with the transport of the daemon and the client. One process
// serves prebuilt payloads in fragments, as a worker does. The other gathers each into one aligned
// slot, checks its XXH3-128 and reads every word of it, as a consumer does.
//
// No payload comes twice: there are at least 64 MiB of distinct random ones, and the sender stamps
// each with a running number and hashes it again before it is sent again. The printed CPU time
// includes this stamping and hashing, which is also printed by itself.

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/base/hash.h"
#include "common/batch/arena.h"
#include "common/command_line/command_line.h"
#include "common/security/make_certificates.h"
#include "common/security/tls_folder.h"
#include "common/system/clock.h"
#include "common/system/malloc.h"
#include "common/system/mutex.h"
#include "common/transport/grpc/grpc_client.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/wire.h"
#include "tests/bench/bare_grpc.h"
#include "tests/bench/child.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/limits.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

struct Options {
  double seconds = 3;  // for each payload size
  std::uint64_t window_mb = 32;
  std::vector<std::uint64_t> kib = {64, 1024, 4096};
  bool tls = false;
  bool json = false;
};

/// The memory that both processes share.
struct Shared {
  std::atomic<double> hash_seconds{0};  // CPU time of the sender's stamps and hashes
  std::atomic<double> hash_bytes{0};
};

struct Payload {
  std::shared_ptr<Buffer> bytes;
  std::string digest;
};

// --- the sending process ---

/// Makes payloads ahead of the stream, on a thread of its own, as a builder does.
class PayloadMaker {
 public:
  PayloadMaker(std::uint64_t size, Shared& shared) : shared_(shared) {
    const std::uint64_t count = std::max<std::uint64_t>(8, (std::uint64_t{64} << 20) / size);
    std::mt19937_64 random(size);
    for (std::uint64_t i = 0; i < count; ++i) {
      auto buffer = pool_.Acquire(size);
      if (!buffer.ok()) return;
      for (std::uint64_t at = 0; at + sizeof(std::uint64_t) <= size; at += sizeof(std::uint64_t)) {
        const std::uint64_t word = random();
        std::memcpy((*buffer)->data() + at, &word, sizeof word);
      }
      ring_.push_back(std::move(buffer).value());
    }
  }

  /// Returns the next payload. Waits until the network has released the payload that had its place
  /// before.
  Payload Next() {
    const std::shared_ptr<Buffer>& buffer = ring_[number_ % ring_.size()];
    while (buffer.use_count() > 1) std::this_thread::sleep_for(std::chrono::microseconds(50));
    std::atomic_thread_fence(std::memory_order_acquire);
    const double began = ThreadCpuSeconds();
    std::memcpy(buffer->data(), &number_, sizeof number_);
    ++number_;
    Payload payload{buffer, Xxh3(buffer->bytes()).ToBytes()};
    shared_.hash_seconds = shared_.hash_seconds + (ThreadCpuSeconds() - began);
    shared_.hash_bytes = shared_.hash_bytes + static_cast<double>(buffer->size());
    return payload;
  }

 private:
  Shared& shared_;
  BufferPool pool_;
  std::vector<std::shared_ptr<Buffer>> ring_;
  std::uint64_t number_ = 0;
};

/// Sends one consumer payload after payload, in fragments, as far as the consumer's credit allows.
class Feed final : public StreamHandler<v1::WantList> {
 public:
  explicit Feed(std::shared_ptr<Stream<OutgoingFragment>> stream) : stream_(std::move(stream)) {}

  /// Queues a payload; false if the stream has ended. Blocks while enough payloads are queued.
  bool Offer(Payload payload) {
    MutexLock lock(mutex_);
    while (ready_.size() >= 4 && !closed_) changed_.Wait(mutex_);
    ready_.push_back(std::move(payload));
    WriteNext();
    return !closed_;
  }
  void OnMessage(v1::WantList wants) override {
    MutexLock lock(mutex_);
    credit_ = wants.credit_bytes();
    WriteNext();
  }
  void OnWriteDone() override {
    MutexLock lock(mutex_);
    writing_ = false;
    WriteNext();
  }
  void OnClosed(const Status&) override {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }

 private:
  void WriteNext() MILLRACE_REQUIRES(mutex_) {
    if (writing_ || closed_ || ready_.empty()) return;
    const Payload& payload = ready_.front();
    const std::span<const std::byte> bytes = std::as_const(*payload.bytes).bytes();
    if (offset_ == 0 && sent_ + bytes.size() > credit_) return;
    OutgoingFragment out;
    out.message.mutable_at()->set_example(sent_);
    out.message.set_total_bytes(bytes.size());
    out.message.set_offset(offset_);
    out.message.set_digest(payload.digest);
    out.data = bytes.subspan(offset_, std::min(bytes.size() - offset_, wire::kMaxFragmentBytes));
    out.owner = payload.bytes;
    offset_ += out.data.size();
    sent_ += out.data.size();
    if (offset_ == bytes.size()) {
      offset_ = 0;
      ready_.erase(ready_.begin());
      changed_.NotifyAll();
    }
    writing_ = true;
    stream_->Write(std::move(out));
  }

  const std::shared_ptr<Stream<OutgoingFragment>> stream_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Payload> ready_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t offset_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t sent_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t credit_ MILLRACE_GUARDED_BY(mutex_) = 0;
  bool writing_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool closed_ MILLRACE_GUARDED_BY(mutex_) = false;
};

class Source final : public WorkerEndpoint {
 public:
  std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
      std::shared_ptr<Stream<OutgoingFragment>> stream, const Peer&) override {
    auto feed = std::make_shared<Feed>(std::move(stream));
    first_.set_value(feed);
    return feed;
  }
  Result<StaticBytes> OnGetStatic(const std::string&, const Peer&) override {
    return NotFound("no tables here");
  }

  /// Waits for the one stream.
  std::shared_ptr<Feed> Wait() { return first_.get_future().get(); }

 private:
  std::promise<std::shared_ptr<Feed>> first_;
};

/// A folder with one certificate, for both ends; it is removed at the end.
class TlsCertificate {
 public:
  static Result<std::unique_ptr<TlsCertificate>> Make() {
    std::string path = std::filesystem::temp_directory_path() / "millrace-bench-tls-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return Unavailable("cannot make " + path);
    std::unique_ptr<TlsCertificate> made(new TlsCertificate(path));
    const std::int64_t now = std::time(nullptr);
    MILLRACE_ASSIGN_OR_RETURN(
        const CertificateAndKey ca,
        MakeCa({.name = "bench", .roles = {}, .begin = now - 60, .end = now + 86'400}));
    MILLRACE_ASSIGN_OR_RETURN(const CertificateAndKey both,
                              MakeCertificate(ca, {.name = "bench",
                                                   .roles = {PeerRole::kWorker, PeerRole::kTrainer},
                                                   .begin = now - 60,
                                                   .end = now + 86'400}));
    std::ofstream(path + "/ca.crt") << ca.certificate;
    std::ofstream(path + "/tls.crt") << both.certificate;
    std::ofstream(path + "/tls.key") << both.key;
    return made;
  }
  ~TlsCertificate() { std::filesystem::remove_all(folder_); }
  TlsCertificate(const TlsCertificate&) = delete;
  TlsCertificate& operator=(const TlsCertificate&) = delete;
  const std::string& folder() const { return folder_; }

 private:
  explicit TlsCertificate(std::string folder) : folder_(std::move(folder)) {}
  const std::string folder_;
};

/// Null for an empty folder.
std::shared_ptr<TlsFolder> OpenTls(const std::string& folder) {
  if (folder.empty()) return nullptr;
  auto opened =
      TlsFolder::Open({.folder = folder}, std::make_shared<SystemClock>(), MakeNullLogger());
  if (!opened.ok()) {
    std::fprintf(stderr, "bench_wire: %s\n", opened.status().ToString().c_str());
    _exit(1);
  }
  return *opened;
}

void Send(int fd, std::uint64_t size, const std::string& tls, Shared& shared) {
  KeepFreedMemory();
  PayloadMaker maker(size, shared);
  const auto source = std::make_shared<Source>();
  GrpcServerOptions listening;
  listening.security.tls = OpenTls(tls);
  const auto server = GrpcServer::Start(listening, source);
  if (!server.ok()) {
    std::fprintf(stderr, "bench_wire: %s\n", server.status().ToString().c_str());
    _exit(1);
  }
  Child::Tell(fd, (*server)->port());
  const std::shared_ptr<Feed> feed = source->Wait();
  while (feed->Offer(maker.Next())) {
  }
  for (;;) pause();
}

// --- the receiving process ---

struct Measured {
  double bytes_per_second = 0;
  double cpu_per_gigabyte = 0;
};

class Sink final : public StreamHandler<IncomingFragment> {
 public:
  Sink(int fd, pid_t sender, const Options& options)
      : fd_(fd), sender_(sender), options_(options), window_(options.window_mb << 20) {}

  void Begin(std::shared_ptr<Stream<v1::WantList>> stream) {
    MutexLock lock(mutex_);
    stream_ = std::move(stream);
    GiveCredit();
  }

  void OnMessage(IncomingFragment in) override {
    const v1::BatchFragment& fragment = in.message;
    if (fragment.offset() == 0) {
      auto slot = pool_.Acquire(fragment.total_bytes());
      if (!slot.ok()) Fail(slot.status().message());
      slot_ = std::move(slot).value();
      hash_.emplace();
    }
    const std::span<std::byte> place = slot_->bytes().subspan(fragment.offset(), in.data_bytes());
    wire::GatherInto(in, place);
    hash_->Update(place);
    if (fragment.offset() + place.size() < fragment.total_bytes()) return;
    if (hash_->Finish().ToBytes() != fragment.digest()) Fail("a payload with another digest");
    Touch();
    Count(fragment.total_bytes());
    MutexLock lock(mutex_);
    received_ += fragment.total_bytes();
    GiveCredit();
  }
  void OnWriteDone() override {
    MutexLock lock(mutex_);
    writing_ = false;
    GiveCredit();
  }
  void OnClosed(const Status& status) override { Fail(status.ToString()); }

 private:
  [[noreturn]] static void Fail(const std::string& message) {
    std::fprintf(stderr, "bench_wire: %s\n", message.c_str());
    _exit(1);
  }

  /// Reads every word. The running number shows whether a payload came twice or was lost.
  void Touch() {
    std::uint64_t number = 0;
    std::memcpy(&number, slot_->data(), sizeof number);
    if (number != next_number_++) Fail("a payload came twice, or was lost");
    for (std::size_t at = 0; at + sizeof(std::uint64_t) <= slot_->size();
         at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, slot_->data() + at, sizeof word);
      sum_ += word;
    }
    slot_.reset();
  }

  void Count(std::uint64_t bytes) {
    if (!measuring_) {
      if (Seconds(began_) < options_.seconds / 10) return;
      measuring_ = true;
      began_ = std::chrono::steady_clock::now();
      cpu_ = Cpu();
      return;
    }
    bytes_ += static_cast<double>(bytes);
    const double took = Seconds(began_);
    if (took < options_.seconds) return;
    Child::Tell(fd_, bytes_ / took);
    Child::Tell(fd_, (Cpu() - cpu_) / bytes_ * 1e9);
    Child::Tell(fd_, static_cast<double>(sum_ % 1000));
    _exit(0);
  }

  double Cpu() const { return ProcessCpuSeconds() + ProcessCpuSeconds(sender_); }

  /// Gives credit whenever a quarter of the window has been used.
  void GiveCredit() MILLRACE_REQUIRES(mutex_) {
    if (writing_ || !stream_ || received_ + window_ < credit_ + window_ / 4) return;
    credit_ = received_ + window_;
    v1::WantList wants;
    wants.set_credit_bytes(credit_);
    writing_ = true;
    stream_->Write(std::move(wants));
  }

  const int fd_;
  const pid_t sender_;
  const Options& options_;
  const std::uint64_t window_;
  BufferPool pool_;
  // Only stream handler calls use the following fields, and these come one at a time.
  std::shared_ptr<Buffer> slot_;
  std::optional<Xxh3Stream> hash_;
  std::uint64_t next_number_ = 0;
  std::uint64_t sum_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  bool measuring_ = false;
  double bytes_ = 0;
  double cpu_ = 0;
  Mutex mutex_;
  std::shared_ptr<Stream<v1::WantList>> stream_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t received_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t credit_ MILLRACE_GUARDED_BY(mutex_) = 0;
  bool writing_ MILLRACE_GUARDED_BY(mutex_) = false;
};

void Receive(int fd, int port, pid_t sender, const std::string& tls, const Options& options) {
  KeepFreedMemory();
  const std::shared_ptr<Connector> connector = MakeGrpcConnector({.tls = OpenTls(tls)});
  const auto sink = std::make_shared<Sink>(fd, sender, options);
  sink->Begin(connector->StreamBatches("127.0.0.1:" + std::to_string(port), sink));
  for (;;) pause();
}

/// `tls`: folder of a certificate for both ends; empty: no TLS.
Result<Measured> MeasureStream(std::uint64_t size, const std::string& tls, const Options& options,
                               Shared& shared) {
  const Child sender([&](int fd) { Send(fd, size, tls, shared); });
  const int port = static_cast<int>(sender.Hear());
  if (port <= 0) return Unavailable("the sending process does not listen");
  const Child receiver([&](int fd) { Receive(fd, port, sender.pid(), tls, options); });
  Measured measured;
  measured.bytes_per_second = receiver.Hear();
  measured.cpu_per_gigabyte = receiver.Hear();
  if (receiver.Hear() < 0) return Unavailable("the stream broke");
  return measured;
}

std::string SizeName(std::uint64_t kib) {
  return kib < 1024 ? fmt::format("{} KiB", kib) : fmt::format("{} MiB", kib / 1024);
}

Status Run(const Options& options) {
  const Report report(options.json);
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return ResourceExhausted("no page to share between two processes");
  std::unique_ptr<TlsCertificate> tls;
  if (options.tls) {
    MILLRACE_ASSIGN_OR_RETURN(tls, TlsCertificate::Make());
  }
  for (const std::uint64_t kib : options.kib) {
    auto* const shared = new (memory) Shared();
    MILLRACE_ASSIGN_OR_RETURN(
        const BareGrpcRate bare,
        MeasureBareGrpc(std::min<std::uint64_t>(kib << 10, wire::kMaxFragmentBytes),
                        options.seconds));
    MILLRACE_ASSIGN_OR_RETURN(const Measured measured,
                              MeasureStream(kib << 10, "", options, *shared));
    const std::string size = SizeName(kib);
    report.Add({"payload over gRPC, " + size,
                measured.bytes_per_second / 1e9,
                "GB/s",
                "a bare gRPC byte stream",
                bare.bytes_per_second / 1e9,
                {}});
    report.Add({"CPU of payload over gRPC, both sides, " + size,
                measured.cpu_per_gigabyte,
                "CPU s/GB",
                "a bare gRPC byte stream",
                bare.cpu_seconds_per_gigabyte,
                {}});
    report.Add({"of it the sender's stamp and hash, " + size,
                shared->hash_seconds / shared->hash_bytes * 1e9,
                "CPU s/GB",
                "",
                0,
                {}});
    if (tls == nullptr) continue;
    auto* const again = new (memory) Shared();
    MILLRACE_ASSIGN_OR_RETURN(const Measured secret,
                              MeasureStream(kib << 10, tls->folder(), options, *again));
    report.Add({"payload over TLS, " + size,
                secret.bytes_per_second / 1e9,
                "GB/s",
                "the same without TLS",
                measured.bytes_per_second / 1e9,
                {}});
  }
  munmap(memory, sizeof(Shared));
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Options options;
  millrace::CommandLine app(
      "Payloads over loopback gRPC: gathered, checked, read; beside a bare byte stream.", argv[0]);
  app.ShowDefaults();
  app.AddOption("--seconds", &options.seconds, "for each payload size").Positive();
  app.AddOption("--kib", &options.kib, "payload sizes in KiB").Between(1, 65536);
  app.AddOption("--window", &options.window_mb, "MiB under way at most").Between(1, 4096);
  app.AddFlag("--tls", options.tls, "measure each payload also with TLS 1.3");
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::Run(options);
  if (!status.ok()) std::fprintf(stderr, "bench_wire: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
