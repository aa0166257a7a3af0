// Measures shared memory between a worker process and a consumer process. For the payload rate,
// each batch is filled once and summed once; one thread does the same for comparison. The program
// also measures how soon a consumer runs after a worker has written, compared with a bare hand-over
// between two processes by futex.

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "common/base/log.h"
#include "common/batch/arena.h"
#include "common/command_line/command_line.h"
#include "common/system/mutex.h"
#include "common/transport/shm/shm_client.h"
#include "common/transport/shm/shm_server.h"
#include "tests/support/in_process.h"

namespace millrace::bench {
namespace {

struct Options {
  bool json = false;
  std::uint64_t total_mib = 2048;
  int hand_overs = 20'000;
};

double Now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::string limit_name;
  double limit = 0;
  std::string params;  // in JSON
};

void Print(const Options& options, const Figure& f) {
  if (options.json) {
    fmt::print(
        R"({{"name": "{}", "value": {:.6g}, "unit": "{}", "limit_name": "{}", "limit": {:.6g}, )"
        R"("params": {{{}}}}})"
        "\n",
        f.name, f.value, f.unit, f.limit_name, f.limit, f.params);
  } else {
    fmt::print("{:<32} {:>10.4g} {:<6} {:6.2f} of {:.4g} {}  {}\n", f.name, f.value, f.unit,
               f.value / f.limit, f.limit, f.limit_name, f.params);
  }
  std::fflush(stdout);
}

/// Fills memory with unpredictable content: a stream of numbers that begins with `seed`.
void Fill(std::byte* data, std::size_t bytes, std::uint64_t seed) {
  auto* const words = reinterpret_cast<std::uint64_t*>(data);
  for (std::size_t i = 0; i < bytes / 8; ++i) words[i] = seed + i * 0x9e3779b97f4a7c15;
}

std::uint64_t Sum(const std::byte* data, std::size_t bytes) {
  const auto* const words = reinterpret_cast<const std::uint64_t*>(data);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes / 8; ++i) sum += words[i];
  return sum;
}

/// The memory that the processes share besides the payload.
struct Board {
  std::atomic<std::uint32_t> turn{0};
  std::atomic<std::uint32_t> ready{0};
  std::atomic<std::uint64_t> sum{0};
  std::atomic<double> written{0};
  std::atomic<std::uint64_t> seen{0};
  std::atomic<double> cpu_seconds{0};  // CPU seconds of the consumer
  double latency[1 << 20] = {};
  char socket[108] = {};
};

Board* MakeBoard() {
  void* const memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Board();
}

void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t old) {
  while (word.load(std::memory_order_acquire) == old) {
    syscall(SYS_futex, &word, FUTEX_WAIT, old, nullptr, nullptr, 0);
  }
}

void FutexSet(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  word.store(value, std::memory_order_release);
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

/// Runs `work` in a child process, which is killed when its parent ends.
pid_t Fork(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  work();
  std::fflush(stdout);
  _exit(0);
}

double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Writes one fragment at a time, from as many buffers as are lent at once.
class Worker final : public WorkerEndpoint, public StreamHandler<v1::WantList> {
 public:
  std::shared_ptr<StreamHandler<v1::WantList>> OnStreamBatches(
      std::shared_ptr<Stream<OutgoingFragment>> stream, const Peer&) override {
    MutexLock lock(mutex_);
    stream_ = std::move(stream);
    changed_.NotifyAll();
    return std::shared_ptr<StreamHandler<v1::WantList>>(std::shared_ptr<void>(), this);
  }
  Result<StaticBytes> OnGetStatic(const std::string&, const Peer&) override {
    return NotFound("none");
  }
  void OnMessage(v1::WantList) override {}
  void OnWriteDone() override {
    MutexLock lock(mutex_);
    writing_ = false;
    changed_.NotifyAll();
  }
  void OnClosed(const Status&) override {
    MutexLock lock(mutex_);
    stream_.reset();
    changed_.NotifyAll();
  }
  void WaitForStream() {
    MutexLock lock(mutex_);
    while (stream_ == nullptr) changed_.Wait(mutex_);
  }
  void Write(OutgoingFragment fragment) {
    MutexLock lock(mutex_);
    while (writing_) changed_.Wait(mutex_);
    writing_ = true;
    const auto stream = stream_;
    lock.Unlock();
    if (stream != nullptr) stream->Write(std::move(fragment));
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Stream<OutgoingFragment>> stream_ MILLRACE_GUARDED_BY(mutex_);
  bool writing_ MILLRACE_GUARDED_BY(mutex_) = false;
};

/// The consumer's end, in the child process.
class Consumer final : public StreamHandler<IncomingFragment> {
 public:
  Consumer(Board* board, bool sum) : board_(board), sum_(sum) {}
  void OnMessage(IncomingFragment in) override {
    const double now = Now();
    if (in.data.empty() || !in.in_place) return;
    const std::span<const std::byte> data = in.data.front();
    if (sum_) {
      board_->sum += Sum(data.data(), data.size());
    } else {
      board_->latency[board_->seen % std::size(board_->latency)] = now - board_->written;
    }
    ++board_->seen;
    in = {};
    FutexSet(board_->turn, board_->turn + 1);
  }
  void OnWriteDone() override {}
  void OnClosed(const Status&) override { closed_.set_value(); }
  void WaitClosed() { closed_.get_future().wait(); }

 private:
  Board* const board_;
  const bool sum_;
  std::promise<void> closed_;
};

/// Calls `run` with a worker in this process while a child process consumes its fragments.
void WithConsumer(Board* board, bool sum,
                  const std::function<void(Worker&, std::shared_ptr<SharedArena>)>& run) {
  board->seen = 0;
  board->sum = 0;
  board->turn = 0;
  board->ready = 0;
  // The fork comes before there are threads.
  const pid_t child = Fork([&] {
    FutexWait(board->ready, 0);
    InProcessNetwork none(1);
    const auto connector = MakeShmConnector(none.MakeConnector("consumer:1"), "host");
    const auto consumer = std::make_shared<Consumer>(board, sum);
    const auto up = connector->StreamBatches({"worker:1", "host", board->socket}, consumer);
    consumer->WaitClosed();
    board->cpu_seconds = CpuSeconds();
  });
  const auto arena = std::make_shared<SharedArena>(std::uint64_t{256} << 20);
  const auto worker = std::make_shared<Worker>();
  auto server =
      ShmServer::Start(worker, arena, *LocalUsers::Make(geteuid(), ""), MakeNullLogger()).value();
  std::snprintf(board->socket, sizeof board->socket, "%s", server->address().c_str());
  FutexSet(board->ready, 1);
  worker->WaitForStream();
  run(*worker, arena);
  server.reset();
  waitpid(child, nullptr, 0);
}

OutgoingFragment FragmentOf(std::shared_ptr<const Buffer> buffer) {
  OutgoingFragment fragment;
  fragment.data = buffer->bytes();
  fragment.owner = std::move(buffer);
  return fragment;
}

bool Payload(const Options& options, Board* board, std::size_t mib) {
  const std::size_t bytes = mib << 20;
  const std::uint64_t count = std::max<std::uint64_t>(8, options.total_mib / mib);
  std::uint64_t alone = 0;
  double alone_seconds = 0;
  {
    // The thread uses as many buffers as the worker below, so that the caches are used alike.
    BufferPool pool;
    std::vector<std::shared_ptr<Buffer>> buffers;
    for (int i = 0; i < 4; ++i) buffers.push_back(pool.Acquire(bytes).value());
    for (const auto& buffer : buffers) Fill(buffer->data(), bytes, 1);
    const double begin = Now();
    for (std::uint64_t i = 0; i < count; ++i) {
      Buffer& buffer = *buffers[i % buffers.size()];
      Fill(buffer.data(), bytes, i);
      alone += Sum(buffer.data(), bytes);
    }
    alone_seconds = Now() - begin;
  }
  double seconds = 0;
  double cpu = 0;
  WithConsumer(board, true, [&](Worker& worker, std::shared_ptr<SharedArena> arena) {
    BufferPool pool(BufferPool::kDefaultCacheBytes, std::move(arena));
    const auto send = [&](std::uint64_t seed, std::uint64_t ahead) {
      std::uint32_t turn = 0;
      while (ahead > (turn = board->turn) + 3) FutexWait(board->turn, turn);
      std::shared_ptr<Buffer> buffer = pool.Acquire(bytes).value();
      Fill(buffer->data(), bytes, seed);
      worker.Write(FragmentOf(std::move(buffer)));
    };
    const auto settle = [&](std::uint64_t sent) {
      std::uint32_t turn = 0;
      while ((turn = board->turn) < sent) FutexWait(board->turn, turn);
    };
    constexpr std::uint64_t kWarmUp = 8;
    for (std::uint64_t i = 0; i < kWarmUp; ++i) send(i, i);
    settle(kWarmUp);
    board->sum = 0;
    const double cpu_before = CpuSeconds();
    const double begin = Now();
    for (std::uint64_t i = 0; i < count; ++i) send(i, kWarmUp + i);
    settle(kWarmUp + count);
    seconds = Now() - begin;
    cpu = CpuSeconds() - cpu_before;
  });
  if (board->sum != alone) {
    std::fprintf(stderr, "shm: the consumer read something else than the worker wrote\n");
    return false;
  }
  const double gib = static_cast<double>(count * bytes) / (1 << 30);
  Print(options, {"shared memory payload", gib / seconds, "GiB/s", "fill and sum in one thread",
                  gib / alone_seconds,
                  fmt::format(R"("batch_mib": "{}", "cpu_seconds_per_gib": "{:.3f}")", mib,
                              (cpu + board->cpu_seconds) / gib)});
  return true;
}

double Percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(p * static_cast<double>(values.size() - 1))];
}

std::vector<double> Latencies(const Board& board, int count) {
  return {board.latency, board.latency + count};
}

/// Measures hand-overs between two processes that sleep in a futex and do nothing else.
std::vector<double> FutexHandOvers(Board* board, int count) {
  board->turn = 0;
  const pid_t child = Fork([&] {
    for (int i = 0; i < count; ++i) {
      FutexWait(board->turn, static_cast<std::uint32_t>(2 * i));
      board->latency[i] = Now() - board->written;
      FutexSet(board->turn, static_cast<std::uint32_t>(2 * i + 2));
    }
  });
  for (int i = 0; i < count; ++i) {
    usleep(50);  // gives the other side time to fall asleep
    board->written = Now();
    FutexSet(board->turn, static_cast<std::uint32_t>(2 * i + 1));
    FutexWait(board->turn, static_cast<std::uint32_t>(2 * i + 1));
  }
  waitpid(child, nullptr, 0);
  return Latencies(*board, count);
}

std::vector<double> ShmHandOvers(Board* board, int count) {
  WithConsumer(board, false, [&](Worker& worker, std::shared_ptr<SharedArena> arena) {
    BufferPool pool(BufferPool::kDefaultCacheBytes, std::move(arena));
    for (int i = 0; i < count; ++i) {
      OutgoingFragment fragment = FragmentOf(pool.Acquire(4096).value());
      usleep(50);
      board->written = Now();
      worker.Write(std::move(fragment));
      FutexWait(board->turn, static_cast<std::uint32_t>(i));
    }
  });
  return Latencies(*board, count);
}

int Run(const Options& options) {
  Board* const board = MakeBoard();
  if (board == nullptr) {
    std::fprintf(stderr, "shm: no shared memory\n");
    return 1;
  }
  for (const std::size_t mib : {1, 4, 16}) {
    if (!Payload(options, board, mib)) return 1;
  }
  // The two kinds are interleaved, so that both run under the same conditions.
  std::vector<double> futex;
  std::vector<double> shm;
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    const int count = options.hand_overs / kRounds;
    for (const double t : FutexHandOvers(board, count)) futex.push_back(t * 1e6);
    for (const double t : ShmHandOvers(board, count)) shm.push_back(t * 1e6);
  }
  for (const double p : {0.5, 0.99}) {
    Print(options, {fmt::format("shared memory hand-over p{:.0f}", p * 100), Percentile(shm, p),
                    "us", "futex hand-over", Percentile(futex, p),
                    fmt::format(R"("hand_overs": "{}")", shm.size())});
  }
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Options options;
  millrace::CommandLine app("Shared memory between a worker and a consumer", argv[0]);
  app.AddFlag("--json", options.json, "one JSON object a figure");
  app.AddOption("--total-mib", &options.total_mib, "payload of each size, in MiB");
  app.AddOption("--hand-overs", &options.hand_overs, "hand-overs to measure")
      .Between(100, 4'000'000);
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  return millrace::bench::Run(options);
}
