// Closure and packing: examples a second on one core, without global contexts, from warm files;
// beside memcpy of the same payload bytes and the closure alone.
//
// Every batch of an epoch is built once a round, in shuffled order, so nothing is built twice in a
// row; the bytes are checksummed outside the measured time.

#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <unordered_map>
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
  std::uint64_t examples = 0;
  std::string kernel = "auto";
  bool plain = false;
};

struct Round {
  double seconds = 0;
  std::uint64_t examples = 0;
  std::uint64_t bytes = 0;
  std::uint64_t edges = 0;
};

/// Seconds of a core that this thread has had: what others on the machine do counts little.
double CoreSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// At most `examples` of an epoch (0: all).
Result<Round> BuildEpoch(const Plan& plan, std::uint64_t epoch, std::uint64_t examples,
                         BatchScratch& scratch, std::uint64_t& checksum) {
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan.Steps(1));
  Round round;
  for (Position at{epoch, 0}; at.epoch == epoch && (examples == 0 || round.examples < examples);
       at = steps.Next(at)) {
    const double began = CoreSeconds();
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const PackedBatch> batch,
                              plan.Batch(epoch, steps.RankExamples(at, 0), scratch));
    round.seconds += CoreSeconds() - began;
    round.examples += batch->graphs();
    round.bytes += batch->bytes().size();
    round.edges += batch->tensors()[*batch->Find("edge_label")].shape.front();
    checksum ^= batch->payload_hash().low;
  }
  return round;
}

/// The closures of an epoch's examples the plain way, for comparison: nodes through a hash map and
/// a queue, edges in a vector; nothing is packed. Returns false where a file cannot be read.
Result<Round> PlainEpoch(const Plan& plan, const Dataset& dataset, std::uint64_t epoch,
                         std::uint64_t examples, std::uint64_t max_nodes, std::uint64_t& checksum) {
  const DatasetIndex& index = dataset.index();
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  std::deque<NodeRef> queue;
  std::vector<std::array<std::uint32_t, 3>> edges;
  Round round;
  for (std::uint64_t place = 0; place < examples; ++place) {
    const OutcomeRecord& outcome =
        index.outcomes()[plan.ExampleAt(epoch, place).value() % index.outcomes().size()];
    const double began = CoreSeconds();
    numbers.clear();
    edges.clear();
    queue.assign(1, outcome.root);
    numbers.emplace(std::uint64_t{outcome.root.file} << 32 | outcome.root.node, 0);
    while (!queue.empty()) {
      const NodeRef from = queue.front();
      queue.pop_front();
      MILLRACE_ASSIGN_OR_RETURN(const FileView* view, dataset.View(FileId(from.file)));
      const std::uint32_t source = numbers[std::uint64_t{from.file} << 32 | from.node];
      const NodeWord node =
          NodeWord::Decode(LoadWord(view->nodes + std::uint64_t{kNodeWords} * from.node));
      for (std::uint32_t c = 0; c < node.children_count; ++c) {
        const EdgeWord edge = EdgeWord::Decode(LoadWord(view->edges + node.children_index + c));
        if (edge.label == kConstOpaqueDef) continue;
        const NodeRef target{view->dependency_files[edge.dependency], edge.node};
        const std::uint64_t key = std::uint64_t{target.file} << 32 | target.node;
        auto found = numbers.find(key);
        if (found == numbers.end()) {
          if (numbers.size() == max_nodes) continue;
          found = numbers.emplace(key, static_cast<std::uint32_t>(numbers.size())).first;
          MILLRACE_ASSIGN_OR_RETURN(const FileView* to, dataset.View(FileId(target.file)));
          const auto word =
              NodeWord::Decode(LoadWord(to->nodes + std::uint64_t{kNodeWords} * target.node));
          if (word.tag != kDefinitionTag) queue.push_back(target);
        }
        edges.push_back({source, found->second, edge.label});
      }
    }
    round.seconds += CoreSeconds() - began;
    round.edges += edges.size();
    ++round.examples;
    checksum ^= edges.empty() ? 0 : edges.back()[1];
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
  if (options.kernel == "array") draft.closure_kernel = ClosureKernel::kArray;
  if (options.kernel == "table") draft.closure_kernel = ClosureKernel::kTable;
  if (options.kernel == "turns") draft.closure_kernel = ClosureKernel::kInTurns;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::shared_ptr<const Plan> plan,
      library.Compile(draft, "bench", pipeline.digest(), pipeline.order_digest()));
  const std::unique_ptr<BatchScratch> scratch = plan->NewScratch();
  std::uint64_t checksum = 0;
  MILLRACE_RETURN_IF_ERROR(BuildEpoch(*plan, 0, options.examples, *scratch, checksum).status());

  std::vector<Round> rounds;
  for (int round = 0; round < options.rounds; ++round) {
    MILLRACE_ASSIGN_OR_RETURN(rounds.emplace_back(),
                              BuildEpoch(*plan, static_cast<std::uint64_t>(round) + 1,
                                         options.examples, *scratch, checksum));
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
  std::printf("%s, %s, batches of %lu, kernel %s, one core\n", options.dir.c_str(),
              options.source.c_str(), static_cast<unsigned long>(options.size),
              options.kernel.c_str());
  std::printf("examples an epoch      %12lu\n", static_cast<unsigned long>(best.examples));
  std::printf("bytes an example       %12.0f\n",
              static_cast<double>(best.bytes) / static_cast<double>(best.examples));
  std::printf("examples/s best        %12.0f\n", rate(0));
  std::printf("examples/s p50         %12.0f\n", rate(0.5));
  std::printf("examples/s p99         %12.0f\n", rate(0.99));
  std::printf("MB/s best              %12.0f\n",
              static_cast<double>(best.bytes) / best.seconds / 1e6);
  std::printf("edges an example       %12.1f\n",
              static_cast<double>(best.edges) / static_cast<double>(best.examples));
  std::printf("edges/s best           %12.0f\n", static_cast<double>(best.edges) / best.seconds);
  std::printf("edges/s p50            %12.0f\n",
              rate(0.5) * static_cast<double>(best.edges) / static_cast<double>(best.examples));
  std::printf("memcpy of the same     %12.0f MB/s, %.1f times as fast\n",
              static_cast<double>(best.bytes) / copy / 1e6, best.seconds / copy);
  if (options.plain) {
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> dataset, library.Open("bench"));
    MILLRACE_ASSIGN_OR_RETURN(
        const Round plain,
        PlainEpoch(*plan, *dataset, 1, std::min<std::uint64_t>(best.examples, 20000),
                   draft.closure.max_subgraph_size, checksum));
    std::printf("plain closure, hash map%12.0f edges/s, %.1f times as slow at p50\n",
                static_cast<double>(plain.edges) / plain.seconds,
                rate(0.5) * static_cast<double>(best.edges) / static_cast<double>(best.examples) /
                    (static_cast<double>(plain.edges) / plain.seconds));
  }
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
  app.add_option("--examples", options.examples, "examples of each epoch; 0: all");
  app.add_option("--kernel", options.kernel, "auto, array, table or turns")
      ->check(CLI::IsMember({"auto", "array", "table", "turns"}));
  app.add_flag("--plain", options.plain, "also a plain closure over a hash map");
  CLI11_PARSE(app, argc, argv);
  if (const Status status = bench::Run(options); !status.ok()) {
    std::fprintf(stderr, "bench_closure: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
