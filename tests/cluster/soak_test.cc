// Tests that the heap of a whole cluster does not grow over thousands of epochs. The test reads
// from glibc how many bytes dispatcher, worker and trainer together have in use. tests/process/soak
// tests real processes.

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include <malloc.h>

#include "tests/support/skip.h"
#include "tests/support/test_cluster.h"

namespace millrace {
namespace {

using test::ReadAll;
using test::TestCluster;

constexpr std::uint64_t kSamples = 400;
// The run is measured in quarters; the first one is the warm-up.
constexpr std::size_t kQuarters = 4;
// The heap may grow by this much an epoch, from the second quarter to the last. A leak of the
// smallest allocation, which has 32 bytes, is twice as much. Buffers that a busy machine keeps for
// later batches, some 300 kB in all, are less.
constexpr std::int64_t kBytesAnEpoch = 16;

std::uint64_t Epochs() {
  const char* const asked = std::getenv("MILLRACE_SOAK_EPOCHS");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) : 60'000;
}

std::int64_t HeapInUse() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

std::int64_t EntriesOf(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

/// Returns the smallest of the samples of a quarter. The smallest counts, because batches under way
/// add memory only for a time.
std::int64_t Least(const std::vector<std::int64_t>& samples, std::size_t quarter) {
  const auto place = [&](std::size_t q) {
    return samples.begin() + static_cast<std::ptrdiff_t>(q * samples.size() / kQuarters);
  };
  return *std::min_element(place(quarter), place(quarter + 1));
}

TEST_CASE("sixty thousand epochs leave heap, open files and threads as they were",
          "[cluster][soak]") {
#if defined(__SANITIZE_ADDRESS__) || defined(_GLIBCXX_TSAN)
  test::SkipTest("a sanitizer has a heap of its own");
#endif
  const std::uint64_t epochs = Epochs();
  const std::uint64_t each = std::max<std::uint64_t>(1, epochs / kSamples);
  TestCluster cluster;
  // Each epoch has a batch or two, made of a tenth of the examples.
  cluster.SetPipeline(
      "millrace: 1\ndataset: data\nsource: proof_states\nshuffle: {seed: 3}\n"
      "split: {method: hash, proportions: [1, 9], take: 0}\n"
      "closure: {max_subgraph_size: 16}\nbatch: {size: 32, remainder: keep}\n");
  cluster.AddWorker("w");
  SessionOptions options = cluster.Options(0, 1);
  options.prefetch_bytes = 64 << 10;
  auto session = cluster.Connect(options, "trainer");
  INFO(session.status().ToString());
  REQUIRE(session.ok());

  std::vector<std::int64_t> heap;
  std::vector<std::int64_t> files;
  std::vector<std::int64_t> threads;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    if (epoch > 0) REQUIRE((*session)->NextEpoch().ok());
    const auto batches = ReadAll(**session, 1);
    REQUIRE(batches.ok());
    REQUIRE_FALSE(batches->empty());
    if (epoch % each != 0) continue;
    heap.push_back(HeapInUse());
    files.push_back(EntriesOf("/proc/self/fd"));
    threads.push_back(EntriesOf("/proc/self/task"));
  }
  const std::int64_t grown = Least(heap, 3) - Least(heap, 1);
  const auto apart = static_cast<std::int64_t>(epochs / 2);
  std::printf(
      "epochs %llu: heap in use %lld bytes after the warm-up, then grown %lld in %lld epochs\n",
      static_cast<unsigned long long>(epochs), static_cast<long long>(Least(heap, 1)),
      static_cast<long long>(grown), static_cast<long long>(apart));
  INFO("grown by " << grown << " bytes in " << apart << " epochs");
  CHECK(grown < apart * kBytesAnEpoch);
  CHECK(Least(files, 3) <= Least(files, 1));
  CHECK(Least(threads, 3) <= Least(threads, 1));
}

}  // namespace
}  // namespace millrace
