// Measures the limits of this machine without any of Millrace's code. The other benchmarks are
// compared with these limits.

#include <linux/futex.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/command_line/command_line.h"
#include "tests/bench/bare_grpc.h"
#include "tests/bench/child.h"
#include "tests/bench/limits.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

struct Options {
  double seconds = 2;  // for each measurement that has no natural length
  std::size_t buffer_mb = 512;
  std::uint32_t hand_overs = 50'000;
  bool json = false;
};

// --- memory ---

/// One cache line; its first word is the number of the line to read next.
struct alignas(64) Line {
  std::uint32_t next;
  std::array<std::uint32_t, 15> rest;
};

/// Makes lines that form one random cycle (Sattolo's algorithm), so that no walk is short.
std::vector<Line> MakeCycle(std::size_t bytes) {
  std::vector<std::uint32_t> order(bytes / sizeof(Line));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(1);
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random() % i]);
  std::vector<Line> lines(order.size());
  for (std::size_t i = 0; i < lines.size(); ++i) lines[i].next = order[i];
  return lines;
}

/// Lines read a second by `kWalks` independent walks. Each walk must finish a read before it can
/// begin the next one.
template <std::size_t kWalks>
double LinesPerSecond(const std::vector<Line>& lines, double seconds) {
  std::array<std::uint32_t, kWalks> at;
  for (std::size_t w = 0; w < kWalks; ++w) {
    at[w] = static_cast<std::uint32_t>(w * (lines.size() / kWalks));
  }
  constexpr std::size_t kBlock = 100'000;
  std::uint64_t reads = 0;
  const auto began = std::chrono::steady_clock::now();
  double took = 0;
  do {
    for (std::size_t i = 0; i < kBlock; ++i) {
      for (std::uint32_t& place : at) place = lines[place].next;
    }
    reads += kBlock * kWalks;
    __asm__ volatile("" : : "r"(at.data()) : "memory");
    took = Seconds(began);
  } while (took < seconds);
  return static_cast<double>(reads) / took;
}

void MeasureMemory(const Options& options, const Report& report) {
  const double copy = MemcpyBytesPerSecond();
  report.Add({"limit: memcpy, one thread", copy / 1e9, "GB/s", "", 0, {{"buffers", "256 MiB"}}});
  const std::vector<Line> lines = MakeCycle(options.buffer_mb << 20);
  const std::string buffer = std::to_string(options.buffer_mb) + " MiB";
  const double bytes = sizeof(Line) / 1e9;
  const double one = LinesPerSecond<1>(lines, options.seconds);
  report.Add({"limit: random 64-byte reads, dependent",
              one / 1e6,
              "M reads/s",
              "memcpy",
              copy / 1e9 / bytes / 1e6,
              {{"buffer", buffer}}});
  const double eight = LinesPerSecond<8>(lines, options.seconds);
  report.Add({"limit: random 64-byte reads, 8 interleaved",
              eight / 1e6,
              "M reads/s",
              "memcpy",
              copy / 1e9 / bytes / 1e6,
              {{"buffer", buffer}}});
}

// --- network ---

std::string CongestionControl() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  char name[64] = "unknown";
  socklen_t length = sizeof name;
  getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length);
  close(fd);
  return name;
}

Status MeasureNetwork(const Options& options, const Report& report) {
  const std::string control = CongestionControl();
  for (const std::size_t kib : {64, 1024}) {
    const std::string block = kib < 1024 ? "64 KiB" : "1 MiB";
    const double tcp = LoopbackBytesPerSecond(kib << 10);
    report.Add({"limit: one loopback TCP stream, " + block,
                tcp / 1e9,
                "GB/s",
                "",
                0,
                {{"congestion control", control}}});
    MILLRACE_ASSIGN_OR_RETURN(const BareGrpcRate grpc, MeasureBareGrpc(kib << 10, options.seconds));
    report.Add({"limit: a bare gRPC byte stream, " + block,
                grpc.bytes_per_second / 1e9,
                "GB/s",
                "one TCP stream",
                tcp / 1e9,
                {}});
    report.Add({"limit: CPU of a bare gRPC byte stream, " + block,
                grpc.cpu_seconds_per_gigabyte,
                "CPU s/GB",
                "",
                0,
                {}});
  }
  return OkStatus();
}

// --- hand-over ---

struct Exchange {
  alignas(64) std::atomic<std::uint32_t> ping;
  alignas(64) std::atomic<std::uint32_t> pong;
};

void Raise(std::atomic<std::uint32_t>& word) {
  word.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

/// Waits until the word is no longer `seen`.
void Await(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  while (word.load(std::memory_order_acquire) == seen) {
    syscall(SYS_futex, &word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
  }
}

/// Measures half a round trip between two processes that wait on a futex in shared memory.
Status MeasureHandOver(const Options& options, const Report& report) {
  void* const memory =
      mmap(nullptr, sizeof(Exchange), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return ResourceExhausted("no page to share between two processes");
  auto* const exchange = new (memory) Exchange();
  {
    const Child child([&](int) {
      for (std::uint32_t i = 0;; ++i) {
        Await(exchange->ping, i);
        Raise(exchange->pong);
      }
    });
    std::vector<double> halves(options.hand_overs);
    for (std::uint32_t i = 0; i < options.hand_overs; ++i) {
      const auto began = std::chrono::steady_clock::now();
      Raise(exchange->ping);
      Await(exchange->pong, i);
      halves[i] = Seconds(began) / 2;
    }
    std::sort(halves.begin(), halves.end());
    report.Add(
        {"limit: a bare futex hand-over, p50", halves[halves.size() / 2] * 1e6, "us", "", 0, {}});
    report.Add({"limit: a bare futex hand-over, p99",
                halves[halves.size() * 99 / 100] * 1e6,
                "us",
                "",
                0,
                {}});
  }
  munmap(memory, sizeof(Exchange));
  return OkStatus();
}

Status Run(const Options& options) {
  const Report report(options.json);
  MILLRACE_RETURN_IF_ERROR(MeasureHandOver(options, report));
  MILLRACE_RETURN_IF_ERROR(MeasureNetwork(options, report));
  MeasureMemory(options, report);
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Options options;
  millrace::CommandLine app(
      "Limits of the machine: memory, loopback TCP, bare gRPC, a futex hand-over.", argv[0]);
  app.ShowDefaults();
  app.AddOption("--seconds", &options.seconds, "for each measurement").Positive();
  app.AddOption("--buffer", &options.buffer_mb, "MiB that random reads go over").Between(1, 16384);
  app.AddOption("--hand-overs", &options.hand_overs, "round trips of the futex").Positive();
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::Run(options);
  if (!status.ok()) std::fprintf(stderr, "bench_limits: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
