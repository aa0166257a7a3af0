// Batches of closures with features from a graph dataset: with its files in the page cache,
// with the dataset in memory (in_memory), and with some of its files dropped from the cache all the
// time, as if they were much larger than memory. Every page of those is read from disk when it is
// needed.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "common/command_line/command_line.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/graph/format/graph_dataset.h"
#include "server/plan/plan_library.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

using Seconds = std::chrono::duration<double>;

struct Options {
  std::string dir;
  std::vector<std::string> dropped = {"node_feature/x"};
  std::string roots = "train";
  std::string closure = "{max_subgraph_size: 64}";
  unsigned threads = 2;
  double seconds = 10;
  std::uint32_t batch = 256;
  bool json = false;
};

double NowSeconds() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The mapped files of some arrays.
class DroppedFiles {
 public:
  static Result<DroppedFiles> Of(const GraphDataset& dataset,
                                 const std::vector<std::string>& arrays) {
    DroppedFiles dropped;
    for (const std::string& name : arrays) {
      const ArrayRecord* const array = dataset.description().Find(name);
      if (array == nullptr) return NotFound("the dataset has no array " + name);
      for (const WatchedFile& file : dataset.files().files()) {
        if (file.file.path() == dataset.dir() / array->path) dropped.files_.push_back(&file.file);
      }
    }
    return dropped;
  }

  /// Drops the files from the page tables first, because the kernel keeps mapped pages in the
  /// cache.
  void Drop() const {
    for (const MappedFile* const file : files_) {
      ::madvise(const_cast<std::byte*>(file->bytes().data()), file->bytes().size(), MADV_DONTNEED);
      const int fd = ::open(file->path().c_str(), O_RDONLY);
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
    }
  }

 private:
  std::vector<const MappedFile*> files_;
};

struct Built {
  std::uint64_t examples = 0;
  double seconds = 0;
  std::vector<double> times;  // of batches, ascending
};

/// Builds batches until the time is over. Every one begins at another place of the epoch.
Result<Built> BuildFor(const Plan& plan, const Options& options,
                       std::atomic<std::uint64_t>& place) {
  std::vector<Built> of_thread(options.threads);
  std::atomic<bool> failed{false};
  const std::uint64_t batches = plan.counts().selected / options.batch;
  if (batches == 0) return InvalidArgument("--batch: more than there are roots");
  const double begin = NowSeconds();
  {
    std::vector<std::jthread> builders;
    for (Built& built : of_thread) {
      builders.emplace_back([&] {
        const auto scratch = plan.NewScratch();
        for (double at = NowSeconds(); !failed && at - begin < options.seconds;) {
          const std::uint64_t number = place.fetch_add(1);
          const auto batch = plan.Batch(
              number / batches, {number % batches * options.batch, options.batch}, *scratch);
          if (!batch.ok()) {
            failed = true;
            break;
          }
          const double end = NowSeconds();
          built.times.push_back(end - at);
          built.examples += options.batch;
          at = end;
        }
      });
    }
  }
  if (failed) return Internal("a batch could not be built");
  Built all;
  all.seconds = NowSeconds() - begin;
  for (const Built& built : of_thread) {
    all.examples += built.examples;
    all.times.insert(all.times.end(), built.times.begin(), built.times.end());
  }
  std::sort(all.times.begin(), all.times.end());
  return all;
}

struct Case {
  std::string name;
  bool in_memory;
  bool dropped;
};

/// Returns examples a second.
Result<double> RunCase(const Options& options, const Case& one, double warm, const Report& report) {
  PlanLibraryOptions library_options;
  library_options.kinds = ProductKinds();
  library_options.datasets["data"] = {.dir = options.dir, .in_memory = one.in_memory};
  PlanLibrary library(library_options, MakeNullLogger());
  PipelineSource source;
  source.yaml = fmt::format(
      "millrace: 1\ndataset: data\nsource: {{roots: {}}}\n"
      "closure: {}\nfeatures: [x]\n"
      "batch: {{size: {}}}\nshuffle: {{seed: 0}}\n",
      options.roots, options.closure, options.batch);
  MILLRACE_ASSIGN_OR_RETURN(const auto plan, library.Compile(source));
  MILLRACE_ASSIGN_OR_RETURN(const auto opened, library.Open("data"));
  const auto dataset = std::dynamic_pointer_cast<const GraphDataset>(opened);
  if (dataset == nullptr) return InvalidArgument(options.dir + ": expected a graph dataset");
  DroppedFiles dropped;
  if (one.dropped) {
    MILLRACE_ASSIGN_OR_RETURN(dropped, DroppedFiles::Of(*dataset, options.dropped));
  }
  std::atomic<std::uint64_t> place{0};
  if (!one.dropped) {  // all that is read lies in memory then, and in the page table
    MILLRACE_RETURN_IF_ERROR(BuildFor(*plan, options, place).status());
  }
  Built built;
  {
    const std::jthread dropper([&](const std::stop_token& stop) {
      while (one.dropped && !stop.stop_requested()) {
        dropped.Drop();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
    MILLRACE_ASSIGN_OR_RETURN(built, BuildFor(*plan, options, place));
  }
  const double rate = static_cast<double>(built.examples) / built.seconds;
  const Figure::Params params = {{"threads", std::to_string(options.threads)}};
  report.Add({one.name, rate, "examples/s", "page cache", warm == 0 ? rate : warm, params});
  const auto percentile = [&](double share) {
    return 1e3 * built.times[static_cast<std::size_t>(share *
                                                      static_cast<double>(built.times.size() - 1))];
  };
  report.Add({one.name + ", p50 of a batch", percentile(0.5), "ms", "", 0, params});
  report.Add({one.name + ", p99 of a batch", percentile(0.99), "ms", "", 0, params});
  return rate;
}

Status RunCases(const Options& options) {
  const Report report(options.json);
  double warm = 0;
  for (const Case& one : {Case{"page cache", false, false}, Case{"in memory", true, false},
                          Case{"dropped", false, true}}) {
    MILLRACE_ASSIGN_OR_RETURN(const double rate, RunCase(options, one, warm, report));
    if (warm == 0) warm = rate;
  }
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::bench::Options options;
  millrace::CommandLine app("Batches from a graph that is in memory, and from one that is not.",
                            argv[0]);
  app.AddOption("DATASET", &options.dir, "folder of a graph dataset with node_feature/x")
      .Required();
  app.AddOption("--drop", &options.dropped, "arrays that are not in memory").ShowDefault();
  app.AddOption("--roots", &options.roots, "list of roots").ShowDefault();
  app.AddOption("--closure", &options.closure, "of the pipeline").ShowDefault();
  app.AddOption("--threads", &options.threads, "threads that build").ShowDefault();
  app.AddOption("--seconds", &options.seconds, "each case").ShowDefault();
  app.AddOption("--batch", &options.batch, "roots a batch").ShowDefault();
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::RunCases(options);
  if (!status.ok()) std::fprintf(stderr, "graph_cold: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
