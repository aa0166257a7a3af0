// Measures indexing: nodes a second with one thread and files in the page cache, compared with
// reading and hashing the same bytes. Also measures opening the index.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/command_line/command_line.h"
#include "server/kinds/coq/index/dataset_index.h"
#include "server/kinds/coq/index/index_store.h"
#include "tests/bench/limits.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

/// Bytes a second of reading every file through one buffer and hashing it: the upper limit for
/// indexing.
double HashBytesPerSecond(const fs::path& dir, double& total) {
  std::vector<char> buffer(1 << 20);
  total = 0;
  Xxh3Stream hash;
  const auto began = std::chrono::steady_clock::now();
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (entry.path().extension() != ".bin") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), in.gcount() > 0) {
      const auto n = static_cast<std::size_t>(in.gcount());
      hash.Update(std::as_bytes(std::span(buffer.data(), n)));
      total += static_cast<double>(n);
    }
  }
  return hash.Finish().is_set() ? total / Seconds(began) : 0;
}

struct Opening {
  double map = 0;   // seconds; DatasetIndex::Open alone
  double find = 0;  // seconds; also looks at every file of the dataset
};

Result<Opening> TimeOpening(const fs::path& dir, const fs::path& index_file) {
  Opening best{.map = 1e9, .find = 1e9};
  IndexOptions options;
  options.index_file = index_file;
  options.logger = MakeNullLogger();
  for (int round = 0; round < 5; ++round) {
    auto began = std::chrono::steady_clock::now();
    MILLRACE_ASSIGN_OR_RETURN(const auto index, DatasetIndex::Open(index_file));
    best.map = std::min(best.map, Seconds(began));
    began = std::chrono::steady_clock::now();
    MILLRACE_RETURN_IF_ERROR(OpenOrBuildIndex(dir, options).status());
    best.find = std::min(best.find, Seconds(began));
  }
  return best;
}

Status Run(const fs::path& dir, unsigned threads, int rounds, bool json) {
  std::string name = (fs::temp_directory_path() / "millrace-bench-XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  double bytes = 0;
  HashBytesPerSecond(dir, bytes);  // fills the page cache
  const double hash = HashBytesPerSecond(dir, bytes);
  IndexReport best;
  for (int round = 0; round < rounds; ++round) {
    IndexOptions options;
    options.index_file = folder / "index";
    options.force = true;
    options.build.threads = threads;
    options.logger = MakeNullLogger();
    CoqIndexOutcome outcome;
    MILLRACE_ASSIGN_OR_RETURN(const auto index, OpenOrBuildIndex(dir, options, &outcome));
    if (best.seconds == 0 || outcome.report.seconds < best.seconds) best = outcome.report;
  }
  MILLRACE_ASSIGN_OR_RETURN(const Opening opening, TimeOpening(dir, folder / "index"));
  fs::remove_all(folder);
  const double rate = best.nodes_per_second();
  const Report report(json);
  report.Note(fmt::format("dataset      {} files, {} nodes, {} proof states, {:.1f} MB", best.files,
                          best.nodes, best.proof_states, bytes / 1e6));
  report.Note(fmt::format(
      "index        {:.1f} bytes an example; peak {:.1f} MB without mapped files; best of {}",
      best.index_bytes_per_example(), static_cast<double>(best.peak_memory_bytes) / 1e6, rounds));
  const double bytes_per_second = static_cast<double>(best.dataset_bytes) / best.seconds;
  const double nodes_per_byte =
      static_cast<double>(best.nodes) / static_cast<double>(best.dataset_bytes);
  const Figure::Params params = {{"nodes", std::to_string(best.nodes)},
                                 {"threads", std::to_string(best.threads)}};
  report.Add({"index build, a thread", rate / 1e6 / best.threads, "M nodes/s",
              "reading and hashing the files", hash * nodes_per_byte / 1e6, params});
  report.Add({"index build, bytes of the files, a thread", bytes_per_second / best.threads / 1e9,
              "GB/s", "reading and hashing the files", hash / 1e9, params});
  report.Add({"opening an index", 1e3 * opening.map, "ms", "", 0, params});
  report.Add(
      {"opening an index, with a look at every file", 1e3 * opening.find, "ms", "", 0, params});
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  std::string dir;
  unsigned threads = 1;
  int rounds = 3;
  bool json = false;
  millrace::CommandLine app("Index build rate, beside reading and hashing the same files.",
                            argv[0]);
  app.AddOption("DATASET", &dir, "folder of a dataset").Required();
  app.AddOption("--threads", &threads, "threads that index");
  app.AddOption("--rounds", &rounds, "builds; the best counts");
  app.AddFlag("--json", json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::Run(dir, threads, rounds, json);
  if (!status.ok()) std::fprintf(stderr, "index: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
