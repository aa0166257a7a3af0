// Batches of random examples from files that are not in the page cache. Two things decide how fast
// they are built: the advice that the kernel gets about the maps (madvise), and the number of
// threads that build.
//
// Every case begins with the dataset's files dropped from the cache. Run the program in a cgroup
// with a memory limit, so that the files do not fill the memory again.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "common/batch/batch.h"
#include "common/command_line/command_line.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/coq/coq_dataset.h"
#include "server/plan/plan_library.h"
#include "tests/bench/limits.h"

namespace millrace::bench {
namespace {

struct Advice {
  const char* name;
  int value;
};
constexpr Advice kAdvices[] = {
    {"normal", MADV_NORMAL}, {"random", MADV_RANDOM}, {"willneed", MADV_WILLNEED}};

struct Used {
  double seconds;
  std::uint64_t major_faults;
  std::uint64_t disk_bytes;
  double cpu;

  static Used Now() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto to_seconds = [](timeval t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    std::ifstream io("/proc/self/io");
    std::string key;
    std::uint64_t value = 0;
    std::uint64_t read = 0;
    while (io >> key >> value) {
      if (key == "read_bytes:") read = value;
    }
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration<double>(now).count(), static_cast<std::uint64_t>(usage.ru_majflt),
            read, to_seconds(usage.ru_utime) + to_seconds(usage.ru_stime)};
  }
};

/// Maps of all files of a dataset.
class Maps {
 public:
  static Result<Maps> Open(const CoqDataset& dataset) {
    Maps maps;
    for (std::uint32_t f = 0; f < dataset.index().files().size(); ++f) {
      MILLRACE_ASSIGN_OR_RETURN(const FileView* view, dataset.View(FileId(f)));
      maps.views_.push_back(view);
      maps.names_.push_back(dataset.dir() / dataset.index().file_name(f));
    }
    return maps;
  }

  /// Drops the files from the page tables first, because the kernel keeps mapped pages in the
  /// cache.
  void Drop() const {
    for (std::size_t f = 0; f < views_.size(); ++f) {
      Tell(f, MADV_DONTNEED);
      const int fd = open(names_[f].c_str(), O_RDONLY);
      posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      close(fd);
    }
  }
  void Advise(int advice) const {
    for (std::size_t f = 0; f < views_.size(); ++f) Tell(f, advice);
  }

 private:
  void Tell(std::size_t f, int advice) const {
    madvise(const_cast<std::byte*>(views_[f]->bytes), views_[f]->size, advice);
  }

  std::vector<const FileView*> views_;
  std::vector<std::string> names_;
};

struct Options {
  std::string dir;
  std::string index;
  std::vector<std::string> advices = {"normal", "random", "willneed"};
  std::vector<unsigned> threads = {2, 8, 32};
  double seconds = 10;
  std::uint32_t batch = 64;
  bool json = false;
};

/// Builds batches from place `first` of the epoch until the time is over. Returns the place after
/// the last one.
Result<std::uint64_t> Build(const Plan& plan, const Options& options, unsigned threads,
                            const char* advice, std::uint64_t first) {
  std::atomic<std::uint64_t> next{first};
  std::atomic<std::uint64_t> examples{0};
  std::atomic<std::uint64_t> nodes{0};
  std::atomic<bool> failed{false};
  const Used before = Used::Now();
  {
    std::vector<std::jthread> builders;
    for (unsigned t = 0; t < threads; ++t) {
      builders.emplace_back([&] {
        const auto scratch = plan.NewScratch();
        while (!failed && Used::Now().seconds - before.seconds < options.seconds) {
          const std::uint64_t at = next.fetch_add(options.batch);
          if (at + options.batch > plan.counts().selected) break;
          const auto batch = plan.Batch(0, {at, options.batch}, *scratch);
          if (!batch.ok()) {
            failed = true;
            break;
          }
          examples += (*batch)->examples();
          nodes += static_cast<std::uint64_t>(
              (*batch)->ValueAt(*(*batch)->Find("node_splits"), (*batch)->examples()));
        }
      });
    }
  }
  if (failed) return Internal("a batch could not be built");
  const Used after = Used::Now();
  const double seconds = after.seconds - before.seconds;
  const auto count = static_cast<double>(std::max<std::uint64_t>(examples, 1));
  const double faults = static_cast<double>(after.major_faults - before.major_faults);
  const double disk = static_cast<double>(after.disk_bytes - before.disk_bytes);
  if (options.json) {
    const auto line = [&](const char* name, double value, const char* unit) {
      fmt::print(R"({{"name":"cold {}","value":{},"unit":"{}","limit_name":"","limit":0,)"
                 R"("params":{{"advice":"{}","threads":{},"examples":{}}}}})"
                 "\n",
                 name, value, unit, advice, threads, examples.load());
    };
    line("examples", count / seconds, "1/s");
    line("nodes", static_cast<double>(nodes) / seconds, "1/s");
    line("major faults an example", faults / count, "");
    line("bytes read an example", disk / count, "B");
  } else {
    fmt::print(
        "{:<10} {:>7} {:>10.0f} {:>12.0f} {:>10.0f} {:>10.2f} {:>12.1f} {:>10.1f} {:>8.2f}\n",
        advice, threads, count / seconds, static_cast<double>(nodes) / seconds, faults,
        faults / count, disk / count / 1e3, disk / seconds / 1e6,
        (after.cpu - before.cpu) / seconds);
  }
  std::fflush(stdout);
  return next.load();
}

Status Run(const Options& options) {
  PlanLibraryOptions library_options;
  library_options.kinds = ProductKinds();
  library_options.datasets["data"] = {.dir = options.dir, .index_file = options.index};
  PlanLibrary library(library_options, MakeNullLogger());
  PipelineSource source;
  source.yaml =
      "millrace: 1\ndataset: data\nsource: proof_states\nbatch: {size: 512}\nshuffle: {seed: 0}\n";
  MILLRACE_ASSIGN_OR_RETURN(const auto plan, library.Compile(source));
  MILLRACE_ASSIGN_OR_RETURN(const auto opened, library.Open("data"));
  const auto dataset = std::dynamic_pointer_cast<const CoqDataset>(opened);
  if (dataset == nullptr) return InvalidArgument(options.dir + ": expected a Coq dataset");
  MILLRACE_ASSIGN_OR_RETURN(const Maps maps, Maps::Open(*dataset));
  // Loads the parts of the index that every case needs and that the first batches would load
  // otherwise.
  MILLRACE_RETURN_IF_ERROR(dataset->index().Verify());
  dataset->index().definition_table();
  if (!options.json) {
    fmt::print("{:<10} {:>7} {:>10} {:>12} {:>10} {:>10} {:>12} {:>10} {:>8}\n", "madvise",
               "threads", "examples/s", "nodes/s", "maj.faults", "an example", "kB/example",
               "disk MB/s", "cores");
  }
  std::uint64_t at = 0;
  for (const Advice& advice : kAdvices) {
    const auto& wanted = options.advices;
    if (std::find(wanted.begin(), wanted.end(), advice.name) == wanted.end()) continue;
    for (const unsigned threads : options.threads) {
      maps.Drop();
      maps.Advise(MADV_NORMAL);
      maps.Advise(advice.value);
      MILLRACE_ASSIGN_OR_RETURN(at, Build(*plan, options, threads, advice.name, at));
    }
  }
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Options options;
  millrace::CommandLine app("Batches from files that are not in the page cache.", argv[0]);
  app.AddOption("DATASET", &options.dir, "folder of a dataset").Required();
  app.AddOption("--index", &options.index, "its index; default: in the folder");
  app.AddOption("--advice", &options.advices, "advice for madvise, a case each").ShowDefault();
  app.AddOption("--threads", &options.threads, "numbers of threads that build").ShowDefault();
  app.AddOption("--seconds", &options.seconds, "each case").ShowDefault();
  app.AddOption("--batch", &options.batch, "examples a batch").ShowDefault();
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::Run(options);
  if (!status.ok()) std::fprintf(stderr, "cold: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
