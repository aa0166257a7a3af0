// The parts of bench_orders, one for each order, and what they share.
#pragma once

#include <cstdint>
#include <vector>

#include "server/source/random.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/report.h"

namespace millrace::bench {

struct OrderOptions {
  std::uint64_t examples = 10'000'000;
  std::uint64_t classes = 16;
  std::uint64_t calls = 4'000'000;
  bool json = false;
};

/// Histogram, bounds and classes of `bucket`.
void MeasureBuckets(const OrderOptions& options, const Report& report);
/// Places of all orders.
void MeasurePlaces(const OrderOptions& options, const Report& report);

/// Seconds of CPU time that a call takes.
template <class Call>
double SecondsOf(const Call& call) {
  const double began = ThreadCpuSeconds();
  call();
  return ThreadCpuSeconds() - began;
}

/// Nanoseconds a call of `call(random)`, each with another random word. Processors overlap the
/// calls unless each waits for the result of the one before (kChained). Results enter the checksum.
template <bool kChained, class Call>
double NanosecondsOf(std::uint64_t calls, std::uint64_t& checksum, const Call& call) {
  std::uint64_t sum = 0;
  const double seconds = SecondsOf([&] {
    for (std::uint64_t i = 0; i < calls; ++i) {
      sum += call(generator::Mix(kChained ? i + sum : i));
    }
  });
  checksum += sum;
  return 1e9 * seconds / static_cast<double>(calls);
}

/// A number below n from a random word.
inline std::uint64_t Scaled(std::uint64_t random, std::uint64_t n) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((Wide{random} * n) >> 64);
}

}  // namespace millrace::bench
