// Measures what a lookup in the cache of examples costs, in memory and on disk (with a warm page
// cache), and what an addition costs. The limits are measured in the same run: copies of the same
// bytes, reads and writes of the same bytes in one file.
//
// Keys are asked for in a random order. A part of every value that was found enters the checksum,
// which is printed.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/command_line/command_line.h"
#include "server/files/file_io.h"
#include "server/plan/cache/example_cache.h"
#include "tests/bench/processor.h"
#include "tests/bench/report.h"

namespace millrace {
namespace {

using Timer = std::chrono::steady_clock;

struct Options {
  std::uint64_t examples = 100'000;
  std::uint64_t bytes = 1024;
  int rounds = 5;
  std::filesystem::path folder = "/dev/shm";
  bool json = false;
};

double Nanoseconds(Timer::time_point since) {
  return std::chrono::duration<double, std::nano>(Timer::now() - since).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Measure {
 public:
  Measure(const Options& options, const std::filesystem::path& folder)
      : options_(options), folder_(folder), report_(options.json), bytes_(options.bytes) {
    std::mt19937_64 random(1);
    for (std::uint64_t n = 0; n < options.examples; ++n) {
      keys_.push_back(Xxh3(std::as_bytes(std::span(&n, 1))));
      order_.push_back(n);
    }
    std::shuffle(order_.begin(), order_.end(), random);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random());
  }

  void Run() {
    report_.Note(fmt::format("{}, {} examples of {} bytes, disk: {}", bench::Processor(),
                             options_.examples, options_.bytes, options_.folder.string()));
    Memory();
    Disk();
    report_.Note(fmt::format("checksum {}", checksum_.load()));
  }

 private:
  std::uint64_t limit_bytes() const { return options_.examples * (options_.bytes + 1024) * 2; }

  /// Time for one call of work(number), the median of all rounds; `threads` threads each ask for
  /// all examples.
  template <class Work>
  double Each(int threads, const Work& work) {
    std::vector<double> rounds;
    for (int round = 0; round < options_.rounds; ++round) {
      std::vector<std::thread> others;
      const auto begin = Timer::now();
      const auto all = [&](std::size_t first) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < order_.size(); ++i) {
          sum += work(order_[(i + first) % order_.size()]);
        }
        checksum_ += sum;
      };
      for (int t = 1; t < threads; ++t) {
        others.emplace_back(all, order_.size() * static_cast<std::size_t>(t) / 2);
      }
      all(0);
      for (std::thread& other : others) other.join();
      rounds.push_back(Nanoseconds(begin) / static_cast<double>(order_.size()));
    }
    return Median(rounds);
  }

  /// The longest of 99 % of all calls, and of half of them.
  template <class Work>
  std::string Percentiles(const Work& work) {
    std::vector<double> took;
    for (const std::uint64_t number : order_) {
      const auto begin = Timer::now();
      checksum_ += work(number);
      took.push_back(Nanoseconds(begin));
    }
    std::sort(took.begin(), took.end());
    return fmt::format("{:.0f}/{:.0f} ns", took[took.size() / 2], took[took.size() * 99 / 100]);
  }

  void Add(const char* name, double value, const char* limit_name, double limit,
           bench::Figure::Params params = {}) {
    report_.Add({name, value, "ns", limit_name, limit, std::move(params)});
  }

  /// A value that is another one for each number.
  ExamplePtr Value(std::uint64_t number) {
    std::memcpy(bytes_.data(), &number, std::min(sizeof number, bytes_.size()));
    return ExampleBytes::Copy(bytes_);
  }
  static std::uint64_t Sum(const ExampleBytes& value) {
    return value.bytes().empty() ? 0 : static_cast<std::uint64_t>(value.bytes().front());
  }

  void Memory() {
    ExampleCache cache(limit_bytes());
    std::vector<ExamplePtr> values;
    auto begin = Timer::now();
    for (const std::uint64_t number : order_) values.push_back(Value(number));
    const double copies = Nanoseconds(begin) / static_cast<double>(order_.size());
    begin = Timer::now();
    for (std::size_t i = 0; i < order_.size(); ++i) cache.Add(keys_[order_[i]], values[i]);
    Add("add in memory", Nanoseconds(begin) / static_cast<double>(order_.size()),
        "malloc and memcpy", copies);
    std::vector<std::byte> copy(options_.bytes);
    const auto copy_one = [&](std::uint64_t number) -> std::uint64_t {
      const auto bytes = values[number]->bytes();
      std::memcpy(copy.data(), bytes.data(), bytes.size());
      return copy.empty() ? 0 : static_cast<std::uint64_t>(copy.back());
    };
    const auto find = [&](std::uint64_t number) { return Sum(*cache.Find(keys_[number])); };
    const double memcpy_ns = Each(1, copy_one);
    Add("find in memory", Each(1, find), "memcpy", memcpy_ns, {{"p50/p99", Percentiles(find)}});
    Add("find in memory, each of 2 threads", Each(2, find), "memcpy", memcpy_ns);
    const auto miss = [&](std::uint64_t number) -> std::uint64_t {
      return cache.Find({keys_[number].low, keys_[number].high}) == nullptr;
    };
    Add("find nothing in memory", Each(1, miss), "", 0);
    cache.SetLimit(cache.stats().memory.bytes / 2);
    begin = Timer::now();
    for (std::size_t i = 0; i < order_.size(); ++i) cache.Add(keys_[order_[i]], values[i]);
    Add("add in memory, evicting", Nanoseconds(begin) / static_cast<double>(order_.size()),
        "malloc and memcpy", copies);
  }

  std::unique_ptr<DiskCache> OpenDisk() const {
    auto disk = std::make_unique<DiskCache>(
        DiskCacheOptions{.folder = folder_ / "cache", .limit_bytes = limit_bytes() + (512 << 20)},
        std::make_shared<SystemCacheFiles>(), std::make_shared<SystemClock>(), MakeNullLogger());
    disk->Scan();
    return disk;
  }

  void Disk() {
    const std::uint64_t record = RecordBytes(options_.bytes);
    auto plain = ReplaceFile(folder_ / "plain");
    if (!plain.ok()) {
      report_.Note(plain.status().message());
      return;
    }
    std::vector<std::byte> memory(record);
    auto begin = Timer::now();
    for (std::uint64_t i = 0; i < order_.size(); ++i) {
      if (!WriteAt(*plain, memory, i * record).ok()) return;
    }
    const double writes = Nanoseconds(begin) / static_cast<double>(order_.size());
    auto disk = OpenDisk();
    double spent = 0;
    for (const std::uint64_t number : order_) {
      const ExamplePtr value = Value(number);
      begin = Timer::now();
      disk->Add(keys_[number], value->bytes());
      spent += Nanoseconds(begin);
    }
    Add("add on disk", spent / static_cast<double>(order_.size()), "pwrite", writes);
    const auto read = [&](std::uint64_t number) -> std::uint64_t {
      return ReadAt(*plain, memory, number * record).ok();
    };
    const double reads = Each(1, read);
    const auto find = [&](std::uint64_t number) -> std::uint64_t {
      const ExamplePtr value = disk->Find(keys_[number]);
      return value == nullptr ? 0 : Sum(*value);
    };
    Add("find on disk", Each(1, find), "pread", reads, {{"p50/p99", Percentiles(find)}});
    Add("find on disk, each of 2 threads", Each(2, find), "pread", reads);
    const DiskCacheStats stats = disk->stats();
    disk.reset();
    begin = Timer::now();
    disk = OpenDisk();
    Add("start, a record", Nanoseconds(begin) / static_cast<double>(order_.size()), "", 0);
    report_.Add({"index, a record",
                 static_cast<double>(stats.index_bytes) / static_cast<double>(order_.size()),
                 "bytes",
                 "",
                 0,
                 {}});
    report_.Note(fmt::format("{} records written, {} found, {} failures", stats.writes, stats.hits,
                             stats.failures));
  }

  const Options& options_;
  const std::filesystem::path folder_;
  const bench::Report report_;
  std::vector<Digest128> keys_;
  std::vector<std::uint64_t> order_;
  std::vector<std::byte> bytes_;
  std::atomic<std::uint64_t> checksum_{0};
};

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  millrace::CommandLine app("Measures the cache of examples, in memory and on disk.", argv[0]);
  app.AddOption("--examples", &options.examples, "number of examples")
      .Between(1, 100'000'000)
      .ShowDefault();
  app.AddOption("--bytes", &options.bytes, "bytes of an example").Between(0, 4 << 20).ShowDefault();
  app.AddOption("--rounds", &options.rounds, "measurements of each figure")
      .Positive()
      .ShowDefault();
  app.AddOption("--folder", &options.folder, "where files are made, and removed afterwards")
      .Folder()
      .ShowDefault();
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  std::string name = (options.folder / "millrace-bench-cache-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    fmt::print(stderr, "no folder can be made in {}\n", options.folder.string());
    return 1;
  }
  millrace::Measure(options, name).Run();
  std::error_code ignored;
  std::filesystem::remove_all(name, ignored);
  return 0;
}
