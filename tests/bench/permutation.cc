// Measures what an element of an epoch's order costs: forward, inverse, in a chain (each place is
// the value before, which shows latency instead of throughput), and with a new permutation for each
// element. The limit is a random lookup in a table of the shuffled numbers, which would need 4
// bytes for each example and epoch.
//
// Every value enters the checksum, which is printed.
#include "common/epoch/permutation.h"
#include "common/command_line/command_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/processor.h"
#include "tests/bench/report.h"

namespace millrace {
namespace {

constexpr std::uint64_t kBlock = 1024;  // calls between two readings of the clock

struct Options {
  std::vector<std::uint64_t> sizes = {64,        1'000,      65'535,        65'536,
                                      1'000'000, 50'000'000, 4'000'000'000, std::uint64_t{1} << 40};
  std::uint64_t calls = 4'000'000;
  std::uint64_t table_limit = 100'000'000;  // longer orders get no table
  std::uint64_t seed = 1;
  bool json = false;
};

struct Cost {
  double p50 = 0;  // nanoseconds a call; the median of all blocks
  double p99 = 0;
};

/// Measures `call(i)` for i = 0, 1, …, in blocks.
template <class Call>
Cost Measure(std::uint64_t calls, std::uint64_t& checksum, const Call& call) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> blocks;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < calls;) {
    const auto start = Clock::now();
    for (const std::uint64_t end = i + kBlock; i < end; ++i) sum += call(i);
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    blocks.push_back(took.count() / kBlock);
  }
  checksum += sum;
  std::sort(blocks.begin(), blocks.end());
  return {blocks[blocks.size() / 2], blocks[blocks.size() * 99 / 100]};
}

void Print(std::uint64_t n, const char* what, Cost cost, double limit, bool json) {
  if (json) {
    const char* const limit_name = limit > 0 && cost.p50 != limit ? "a table at random" : "";
    bench::Report(true).Add(
        {fmt::format("an order of {}: {}", n, what), cost.p50, "ns", limit_name, limit, {}});
    return;
  }
  fmt::print("{:>14} {:<22} {:>8.1f} {:>8.1f} {:>9.1f}", n, what, cost.p50, cost.p99,
             1000 / cost.p50);
  if (limit > 0) fmt::print(" {:>9.2f}", cost.p50 / limit);
  fmt::print("\n");
}

void Run(const Options& options) {
  const bench::Report report(options.json);
  report.Note(fmt::format("{}, 1 thread, {} calls each", bench::Processor(), options.calls));
  report.Note(fmt::format("{:>14} {:<22} {:>8} {:>8} {:>9} {:>9}", "n", "what", "p50 ns", "p99 ns",
                          "M/s", "/ table"));
  std::uint64_t checksum = 0;
  for (const std::uint64_t n : options.sizes) {
    const Permutation permutation(options.seed, 0, n);
    const Permutation places(options.seed, 1, n);
    double limit = 0;
    if (n <= options.table_limit) {
      std::vector<std::uint32_t> table(n);
      for (std::uint64_t i = 0; i < n; ++i) table[i] = static_cast<std::uint32_t>(permutation(i));
      // The places are computed beforehand, so that only the lookup is measured.
      std::vector<std::uint32_t> at(std::min(options.calls, std::uint64_t{1} << 20));
      for (std::uint64_t i = 0; i < at.size(); ++i) {
        at[i] = static_cast<std::uint32_t>(places(i % n));
      }
      const Cost lookup = Measure(options.calls, checksum,
                                  [&](std::uint64_t i) { return table[at[i % at.size()]]; });
      limit = lookup.p50;
      Print(n, "table, at random", lookup, limit, options.json);
    }
    Print(n, "forward",
          Measure(options.calls, checksum, [&](std::uint64_t i) { return permutation(i % n); }),
          limit, options.json);
    Print(n, "inverse",
          Measure(options.calls, checksum,
                  [&](std::uint64_t i) { return permutation.Inverse(i % n); }),
          limit, options.json);
    std::uint64_t last = 0;
    Print(n, "forward, one by one",
          Measure(options.calls, checksum, [&](std::uint64_t) { return last = permutation(last); }),
          limit, options.json);
    Print(n, "made anew and forward",
          Measure(options.calls, checksum,
                  [&](std::uint64_t i) { return Permutation(options.seed, i, n)(i % n); }),
          limit, options.json);
  }
  report.Note(fmt::format("checksum {:016x}", checksum));
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  millrace::CommandLine app("Measures the cost of an element of an epoch's order.", argv[0]);
  app.AddOption("--sizes", &options.sizes, "lengths of the orders, n").ShowDefault();
  app.AddOption("--calls", &options.calls, "calls measured each").Positive().ShowDefault();
  app.AddOption("--table-limit", &options.table_limit, "the longest order compared with a table")
      .Between(std::uint64_t{0}, std::uint64_t{1} << 32)
      .ShowDefault();
  app.AddOption("--seed", &options.seed, "seed of the orders").ShowDefault();
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  for (const std::uint64_t n : options.sizes) {
    if (n == 0 || n > millrace::Permutation::kMaxSize) {
      fmt::print(stderr, "--sizes {}: expected 1 to {}\n", n, millrace::Permutation::kMaxSize);
      return 2;
    }
  }
  millrace::Run(options);
  return 0;
}
