// Closure and packing: examples a second on one core, without global contexts, from warm files;
// beside memcpy of the same payload bytes and the closure alone.
//
// Every batch of an epoch is built once a round, in shuffled order, so nothing is built twice in a
// row; the bytes are checksummed outside the measured time.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "common/base/log.h"
#include "common/batch/batch.h"
#include "server/pipeline/plan_library.h"

namespace millrace::bench {
namespace {

struct Options {
  std::string dir;
  std::string index;
  std::string source = "proof_states";
  std::uint64_t size = 512;
  int rounds = 300;
  bool table = false;
};

struct Round {
  double seconds = 0;
  std::uint64_t examples = 0;
  std::uint64_t bytes = 0;
};

/// Seconds of a core that this thread has had: what others on the machine do counts little.
double CoreSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Result<Round> BuildEpoch(const Plan& plan, std::uint64_t epoch, BatchScratch& scratch,
                         std::uint64_t& checksum) {
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan.Steps(1));
  Round round;
  for (Position at{epoch, 0}; at.epoch == epoch; at = steps.Next(at)) {
    const double began = CoreSeconds();
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const PackedBatch> batch,
                              plan.Batch(epoch, steps.RankExamples(at, 0), scratch));
    round.seconds += CoreSeconds() - began;
    round.examples += batch->graphs();
    round.bytes += batch->bytes().size();
    checksum ^= batch->payload_hash().low;
  }
  return round;
}

/// Seconds that copying `bytes` takes, in pieces as large as a batch, from cache as a batch is
/// built.
double CopySeconds(std::uint64_t bytes, std::uint64_t piece) {
  std::vector<char> from(piece, 1);
  std::vector<char> to(piece, 0);
  const double began = CoreSeconds();
  for (std::uint64_t done = 0; done < bytes; done += piece) {
    from[done % piece] = static_cast<char>(done);
    std::memcpy(to.data(), from.data(), piece);
    __asm__ volatile("" : : "r"(to.data()) : "memory");
  }
  return CoreSeconds() - began;
}

Status Run(const Options& options) {
  PlanLibraryOptions library_options;
  library_options.datasets["bench"] = {options.dir, options.index};
  PlanLibrary library(library_options, MakeStderrLogger("bench", LogLevel::kWarning, false));
  PipelineSource source;
  source.yaml = fmt::format(
      "millrace: 1\ndataset: bench\nsource: {}\nshuffle: {{seed: 0}}\n"
      "batch: {{size: {}, remainder: keep}}\nfields: {{global_context: none}}\n",
      options.source, options.size);
  MILLRACE_ASSIGN_OR_RETURN(const Pipeline pipeline, library.Parse(source));
  MILLRACE_ASSIGN_OR_RETURN(PlanDraft draft, PlanDraft::FromPipeline(pipeline));
  if (options.table) draft.visited_array_bytes = 0;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::shared_ptr<const Plan> plan,
      library.Compile(draft, "bench", pipeline.digest(), pipeline.order_digest()));
  const std::unique_ptr<BatchScratch> scratch = plan->NewScratch();
  std::uint64_t checksum = 0;
  MILLRACE_RETURN_IF_ERROR(BuildEpoch(*plan, 0, *scratch, checksum).status());

  std::vector<Round> rounds;
  for (int round = 0; round < options.rounds; ++round) {
    MILLRACE_ASSIGN_OR_RETURN(
        rounds.emplace_back(),
        BuildEpoch(*plan, static_cast<std::uint64_t>(round) + 1, *scratch, checksum));
  }
  std::sort(rounds.begin(), rounds.end(),
            [](const Round& a, const Round& b) { return a.seconds < b.seconds; });
  const auto rate = [&rounds](double quantile) {
    const Round& round =
        rounds[static_cast<std::size_t>(quantile * static_cast<double>(rounds.size() - 1))];
    return static_cast<double>(round.examples) / round.seconds;
  };
  const Round& best = rounds.front();
  const double copy = CopySeconds(best.bytes * 50, best.bytes * options.size /
                                                       std::max<std::uint64_t>(best.examples, 1)) /
                      50;
  std::printf("%s, %s, batches of %lu, visited %s, one core\n", options.dir.c_str(),
              options.source.c_str(), static_cast<unsigned long>(options.size),
              options.table ? "table" : "array");
  std::printf("examples an epoch      %12lu\n", static_cast<unsigned long>(best.examples));
  std::printf("bytes an example       %12.0f\n",
              static_cast<double>(best.bytes) / static_cast<double>(best.examples));
  std::printf("examples/s best        %12.0f\n", rate(0));
  std::printf("examples/s p50         %12.0f\n", rate(0.5));
  std::printf("examples/s p99         %12.0f\n", rate(0.99));
  std::printf("MB/s best              %12.0f\n",
              static_cast<double>(best.bytes) / best.seconds / 1e6);
  std::printf("memcpy of the same     %12.0f MB/s, %.1f times as fast\n",
              static_cast<double>(best.bytes) / copy / 1e6, best.seconds / copy);
  std::printf("checksum               %016lx\n", static_cast<unsigned long>(checksum));
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  using namespace millrace;
  bench::Options options;
  CLI::App app("closure and packing: examples a second on one core");
  app.add_option("dir", options.dir, "dataset folder")->required();
  app.add_option("--index", options.index, "index file of the dataset");
  app.add_option("--source", options.source, "proof_states or definitions");
  app.add_option("--size", options.size, "examples a batch");
  app.add_option("--rounds", options.rounds, "epochs to build");
  app.add_flag("--table", options.table, "mark visited nodes in a table, whatever their number");
  CLI11_PARSE(app, argc, argv);
  if (const Status status = bench::Run(options); !status.ok()) {
    std::fprintf(stderr, "bench_closure: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
