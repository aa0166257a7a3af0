// Closure and packing: examples a second on one core, without global contexts, from files in the
// page cache. The program also measures memcpy of the same payload bytes, and the closure alone.
//
// A round builds every batch of an epoch once, in shuffled order, so that nothing is built twice in
// a row. The bytes are checksummed outside the measured time.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/core.h>

#include "common/base/log.h"
#include "common/batch/batch.h"
#include "common/command_line/command_line.h"
#include "common/system/stderr_logger.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/coq/coq_dataset.h"
#include "server/plan/pipeline_parts.h"
#include "server/plan/plan_library.h"
#include "server/sampling/closure_parts.h"
#include "server/source/plan_parts.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/report.h"

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
  bool json = false;
};

struct Round {
  double seconds = 0;
  std::uint64_t examples = 0;
  std::uint64_t bytes = 0;
  std::uint64_t edges = 0;
};

/// Builds at most `examples` examples of an epoch (0: all).
Result<Round> BuildEpoch(const Plan& plan, std::uint64_t epoch, std::uint64_t examples,
                         BatchScratch& scratch, std::uint64_t& checksum) {
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan.facts().Steps(1));
  Round round;
  for (Position at{epoch, 0}; at.epoch == epoch && (examples == 0 || round.examples < examples);
       at = steps.Next(at)) {
    const double began = ThreadCpuSeconds();
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const PackedBatch> batch,
                              plan.Batch(epoch, steps.RankExamples(at, 0), scratch));
    round.seconds += ThreadCpuSeconds() - began;
    round.examples += batch->examples();
    round.bytes += batch->bytes().size();
    round.edges += batch->tensors()[*batch->Find("edge_source")].rows;
    checksum ^= batch->payload_hash().low;
  }
  return round;
}

/// Computes the closures of an epoch's examples in the plain way, for comparison: nodes through a
/// hash map and a queue, edges in a vector. Nothing is packed. Fails if a file cannot be read.
Result<Round> PlainEpoch(const Plan& plan, const CoqDataset& dataset, std::uint64_t epoch,
                         std::uint64_t examples, std::uint64_t max_nodes, std::uint64_t& checksum) {
  const DatasetIndex& index = dataset.index();
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  std::deque<NodeRef> queue;
  std::vector<std::array<std::uint32_t, 3>> edges;
  Round round;
  for (const ExampleId id : plan.ExamplesOf(epoch, {0, static_cast<std::uint32_t>(examples)})) {
    const OutcomeRecord& outcome = index.outcomes()[id.value() % index.outcomes().size()];
    const double began = ThreadCpuSeconds();
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
    round.seconds += ThreadCpuSeconds() - began;
    round.edges += edges.size();
    ++round.examples;
    checksum ^= edges.empty() ? 0 : edges.back()[1];
  }
  return round;
}

/// Seconds that copying `bytes` takes. Each piece is as large as a batch and lies in the cache, as
/// a batch does while it is built.
double CopySeconds(std::uint64_t bytes, std::uint64_t piece) {
  std::vector<char> from(piece, 1);
  std::vector<char> to(piece, 0);
  const double began = ThreadCpuSeconds();
  for (std::uint64_t done = 0; done < bytes; done += piece) {
    from[done % piece] = static_cast<char>(done);
    std::memcpy(to.data(), from.data(), piece);
    __asm__ volatile("" : : "r"(to.data()) : "memory");
  }
  return ThreadCpuSeconds() - began;
}

Status Run(const Options& options) {
  PlanLibraryOptions library_options;
  library_options.kinds = ProductKinds();
  library_options.datasets["bench"] = {options.dir, options.index};
  PlanLibrary library(library_options, MakeStderrLogger("bench", LogLevel::kWarning, false));
  PipelineSource source;
  source.yaml = fmt::format(
      "millrace: 1\ndataset: bench\nsource: {}\nshuffle: {{seed: 0}}\n"
      "batch: {{size: {}, remainder: keep}}\nfields: {{global_context: none}}\n",
      options.source, options.size);
  MILLRACE_ASSIGN_OR_RETURN(const Pipeline pipeline, library.Parse(source));
  MILLRACE_ASSIGN_OR_RETURN(PlanParts parts, PartsOfPipeline(pipeline));
  if (options.kernel == "array") parts.Edit<ClosurePart>().kernel = ClosureKernel::kArray;
  if (options.kernel == "table") parts.Edit<ClosurePart>().kernel = ClosureKernel::kTable;
  if (options.kernel == "turns") parts.Edit<ClosurePart>().kernel = ClosureKernel::kInTurns;
  MILLRACE_ASSIGN_OR_RETURN(
      const std::shared_ptr<const Plan> plan,
      library.Compile(parts, "bench", pipeline.digest(), pipeline.order_digest()));
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
  const Report report(options.json);
  const std::string what =
      fmt::format("closures and packing, {}batches of {}{}",
                  options.source == "proof_states" ? "" : options.source + ", ", options.size,
                  options.kernel == "auto" ? "" : ", kernel " + options.kernel);
  report.Note(fmt::format("{}, {} examples an epoch, one core", options.dir, best.examples));
  report.Add({what,
              rate(0.5),
              "examples/s",
              "memcpy of the same bytes",
              static_cast<double>(best.examples) / copy,
              {{"bytes an example", fmt::format("{:.0f}", static_cast<double>(best.bytes) /
                                                              static_cast<double>(best.examples))},
               {"best", fmt::format("{:.0f}", rate(0))},
               {"p99", fmt::format("{:.0f}", rate(0.99))}}});
  const double edges_each = static_cast<double>(best.edges) / static_cast<double>(best.examples);
  double plain_edges = 0;  // edges a second
  if (options.plain) {
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> opened, library.Open("bench"));
    const auto dataset = std::dynamic_pointer_cast<const CoqDataset>(opened);
    if (dataset == nullptr) return InvalidArgument("--plain: expected a Coq dataset");
    MILLRACE_ASSIGN_OR_RETURN(
        const Round plain,
        PlainEpoch(*plan, *dataset, 1, std::min<std::uint64_t>(best.examples, 20000),
                   parts.Get<ClosurePart>().options.max_subgraph_size, checksum));
    plain_edges = static_cast<double>(plain.edges) / plain.seconds;
  }
  report.Add({"edges of these closures",
              rate(0.5) * edges_each,
              "edges/s",
              options.plain ? "a plain closure over a hash map" : "",
              plain_edges,
              {{"edges an example", fmt::format("{:.1f}", edges_each)}}});
  report.Note(fmt::format("checksum {:016x}", checksum));
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  using namespace millrace;
  bench::Options options;
  millrace::CommandLine app("closure and packing: examples a second on one core", argv[0]);
  app.AddOption("dir", &options.dir, "dataset folder").Required();
  app.AddOption("--index", &options.index, "index file of the dataset");
  app.AddOption("--source", &options.source, "proof_states or definitions");
  app.AddOption("--size", &options.size, "examples a batch");
  app.AddOption("--rounds", &options.rounds, "epochs to build");
  app.AddOption("--examples", &options.examples, "examples of each epoch; 0: all");
  app.AddOption("--kernel", &options.kernel, "auto, array, table or turns")
      .OneOf({"auto", "array", "table", "turns"});
  app.AddFlag("--plain", options.plain, "also a plain closure over a hash map");
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  if (const Status status = bench::Run(options); !status.ok()) {
    std::fprintf(stderr, "bench_closure: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
