// The same graph once as a Coq dataset and once as a graph dataset: closures and packing, examples
// a second of one thread, from files in the page cache.
//
// A generated Coq dataset is read node by node and written as a graph dataset: the same nodes,
// edges, labels and roots. Both build the same examples in the same order, in turns, round after
// round. Before that the closures are compared, example by example.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/base/log.h"
#include "common/batch/batch.h"
#include "common/command_line/command_line.h"
#include "common/epoch/permutation.h"
#include "common/system/stderr_logger.h"
#include "server/catalog/product_kinds.h"
#include "server/kinds/coq/coq_dataset.h"
#include "server/kinds/coq/generator/generator.h"
#include "server/plan/plan_library.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/graph_copy.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kMaxNodes = 1024;  // the default of closure.max_subgraph_size

struct Options {
  std::string dir;
  bool keep = false;
  std::uint64_t nodes = 1'000'000;
  std::uint64_t examples = 100'000;
  std::size_t size = 512;
  int rounds = 7;
  bool json = false;
};

/// A folder for the data, which is removed with all that is in it.
class Folder {
 public:
  Folder(const std::string& wanted, bool keep) : keep_(keep) {
    const fs::path base = wanted.empty() ? fs::temp_directory_path() : fs::path(wanted);
    std::string path = (base / "millrace-kinds-XXXXXX").string();
    if (::mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    if (!keep_ && !path_.empty()) fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  const bool keep_;
  fs::path path_;
};

Result<std::shared_ptr<const Plan>> Compile(PlanLibrary& library, const std::string& dataset,
                                            const std::string& rest) {
  PipelineSource source;
  source.yaml = fmt::format("millrace: 1\ndataset: {}\nbatch: {{size: 1}}\n{}", dataset, rest);
  return library.Compile(source);
}

/// The plans that are compared. Closures stop at definitions, or go on behind them.
struct Pair {
  std::shared_ptr<const Plan> coq;
  std::shared_ptr<const Plan> graph;
};

Result<std::shared_ptr<const Plan>> CompileCoq(PlanLibrary& library, const std::string& source,
                                               bool stops) {
  return Compile(library, "coq",
                 fmt::format("source: {}\nclosure: {{stop_at_definitions: {}}}\n"
                             "fields: {{global_context: none}}\n",
                             source, stops));
}

Result<Pair> CompilePair(PlanLibrary& library, const std::string& source, bool stops) {
  Pair pair;
  MILLRACE_ASSIGN_OR_RETURN(pair.coq, CompileCoq(library, source, stops));
  MILLRACE_ASSIGN_OR_RETURN(
      pair.graph,
      Compile(
          library, "graph",
          fmt::format("source: {{roots: {}}}\n{}", source,
                      stops ? fmt::format("closure: {{stop_at: [{}]}}\n", kDefinitionTag) : "")));
  return pair;
}

/// The examples of a source that have one root and are not dropped, at most `most`.
Result<Roots> FindRoots(PlanLibrary& library, const CoqDataset& dataset, const NodeNumbers& numbers,
                        const std::string& source, std::uint64_t most) {
  const DatasetIndex& index = dataset.index();
  Roots roots{source, {}, {}};
  std::vector<std::uint64_t> nodes;
  std::vector<ExampleId> ids;
  const auto add = [&](std::uint64_t id, std::uint32_t file, std::uint32_t node) {
    ids.emplace_back(id);
    nodes.push_back(numbers.Number(file, node));
  };
  if (source == "definitions") {
    for (std::size_t c = 0; c < index.clusters().size(); ++c) {
      const auto members = index.clusters()[c].members;
      if (members.count != 1) continue;
      const DefinitionRecord& definition =
          index.definitions()[index.cluster_members()[members.first]];
      add(c, definition.file, definition.node);
    }
  } else {
    for (std::size_t o = 0; o < index.outcomes().size(); ++o) {
      const NodeRef root = index.outcomes()[o].root;
      add(o, root.file, root.node);
    }
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto plan, CompileCoq(library, source, true));
  const auto scratch = plan->NewScratch();
  // Spread over the whole dataset.
  const Permutation order(0, 0, ids.size());
  for (std::uint64_t place = 0; place < ids.size() && roots.ids.size() < most; ++place) {
    const std::uint64_t at = order(place);
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, plan->BatchOf({&ids[at], 1}, 0, *scratch));
    if (batch->examples() == 0) continue;
    roots.ids.push_back(ids[at]);
    roots.nodes.push_back(nodes[at]);
  }
  return roots;
}

struct Round {
  double seconds = 0;
  std::uint64_t bytes = 0;
};

/// Builds the examples in the order of a round.
Result<Round> Build(const Plan& plan, std::span<const ExampleId> ids, std::size_t size,
                    BatchScratch& scratch, std::uint64_t& checksum) {
  Round round;
  for (std::size_t first = 0; first < ids.size(); first += size) {
    const auto examples = ids.subspan(first, std::min(size, ids.size() - first));
    const double began = ThreadCpuSeconds();
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, plan.BatchOf(examples, 0, scratch));
    round.seconds += ThreadCpuSeconds() - began;
    round.bytes += batch->bytes().size();
    checksum ^= batch->payload_hash().low;
  }
  return round;
}

std::vector<ExampleId> InOrder(const std::vector<ExampleId>& ids, std::uint64_t epoch) {
  const Permutation order(0, epoch, ids.size());
  std::vector<ExampleId> ordered;
  for (std::uint64_t place = 0; place < ids.size(); ++place) ordered.push_back(ids[order(place)]);
  return ordered;
}

struct Sizes {
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
};

Result<Sizes> SizesOf(const PackedBatch& batch) {
  return Sizes{batch.tensors()[*batch.Find("edge_source")].rows == 0 && batch.examples() == 0
                   ? 0
                   : static_cast<std::uint64_t>(batch.ValueAt(*batch.Find("node_splits"), 1)),
               batch.tensors()[*batch.Find("edge_source")].rows};
}

/// Whether both plans find as many nodes and edges in each example. Where a closure is cut off, it
/// depends on the order of edges which nodes are in it, and so how many edges are. Returns the sum.
Result<Sizes> CompareClosures(const Pair& pair, const Roots& roots) {
  const auto coq_scratch = pair.coq->NewScratch();
  const auto graph_scratch = pair.graph->NewScratch();
  Sizes sum;
  for (std::size_t i = 0; i < roots.ids.size(); ++i) {
    const ExampleId id(i);
    MILLRACE_ASSIGN_OR_RETURN(const auto coq,
                              pair.coq->BatchOf({&roots.ids[i], 1}, 0, *coq_scratch));
    MILLRACE_ASSIGN_OR_RETURN(const auto graph, pair.graph->BatchOf({&id, 1}, 0, *graph_scratch));
    // A Coq closure whose context was cut off is dropped.
    if (coq->examples() == 0) continue;
    MILLRACE_ASSIGN_OR_RETURN(const Sizes a, SizesOf(*coq));
    MILLRACE_ASSIGN_OR_RETURN(const Sizes b, SizesOf(*graph));
    if (a.nodes != b.nodes || (a.nodes < kMaxNodes && a.edges != b.edges)) {
      return Internal(fmt::format("example {}: {} nodes and {} edges, but {} and {} in the graph",
                                  roots.ids[i].value(), a.nodes, a.edges, b.nodes, b.edges));
    }
    sum.nodes += a.nodes;
    sum.edges += a.edges;
  }
  return sum;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Status Measure(const Pair& pair, const Roots& roots, const std::string& what,
               const Options& options, const Report& report) {
  MILLRACE_ASSIGN_OR_RETURN(const Sizes sizes, CompareClosures(pair, roots));
  std::vector<ExampleId> places;
  for (std::size_t i = 0; i < roots.ids.size(); ++i) places.emplace_back(i);
  const auto coq_scratch = pair.coq->NewScratch();
  const auto graph_scratch = pair.graph->NewScratch();
  std::uint64_t checksum = 0;
  std::vector<double> coq;
  std::vector<double> graph;
  std::vector<double> ratios;
  std::uint64_t coq_bytes = 0;
  std::uint64_t graph_bytes = 0;
  const auto count = static_cast<double>(roots.ids.size());
  for (int r = -1; r < options.rounds; ++r) {  // the first one warms up
    const auto epoch = static_cast<std::uint64_t>(r + 1);
    Round one;
    Round other;
    for (int turn = 0; turn < 2; ++turn) {
      if ((turn + r) % 2 == 0) {
        MILLRACE_ASSIGN_OR_RETURN(
            one, Build(*pair.coq, InOrder(roots.ids, epoch), options.size, *coq_scratch, checksum));
      } else {
        MILLRACE_ASSIGN_OR_RETURN(other, Build(*pair.graph, InOrder(places, epoch), options.size,
                                               *graph_scratch, checksum));
      }
    }
    if (r < 0) continue;
    coq.push_back(count / one.seconds);
    graph.push_back(count / other.seconds);
    ratios.push_back(one.seconds / other.seconds);
    coq_bytes = one.bytes;
    graph_bytes = other.bytes;
  }
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  report.Add(
      {"closures of a graph dataset, " + what,
       Median(graph),
       "examples/s",
       "the same as a Coq dataset",
       Median(coq),
       {{"ratio", fmt::format("{:.3f} ({:.3f} to {:.3f})", Median(ratios), *least, *most)},
        {"nodes an example", fmt::format("{:.1f}", static_cast<double>(sizes.nodes) / count)},
        {"edges", fmt::format("{:.1f}", static_cast<double>(sizes.edges) / count)},
        {"bytes", fmt::format("{:.0f}, Coq {:.0f}", static_cast<double>(graph_bytes) / count,
                              static_cast<double>(coq_bytes) / count)}}});
  report.Note(fmt::format("checksum {:016x}", checksum));
  return OkStatus();
}

Status Run(const Options& options) {
  const Folder folder(options.dir, options.keep);
  if (folder.path().empty()) return Internal("no folder for the data can be made");
  const Report report(options.json);
  GeneratorOptions generated;
  generated.nodes = options.nodes;
  GeneratorReport made;
  MILLRACE_RETURN_IF_ERROR(GenerateDataset(folder.path() / "coq", generated, &made));
  PlanLibraryOptions library_options;
  library_options.kinds = ProductKinds();
  library_options.cache_dir = folder.path() / "cache";
  library_options.datasets["coq"].dir = folder.path() / "coq";
  library_options.datasets["graph"].dir = folder.path() / "graph";
  PlanLibrary library(library_options, MakeStderrLogger("bench", LogLevel::kWarning, false));
  MILLRACE_ASSIGN_OR_RETURN(const auto opened, library.Open("coq"));
  const auto& dataset = static_cast<const CoqDataset&>(*opened);
  MILLRACE_ASSIGN_OR_RETURN(const NodeNumbers numbers, NodeNumbers::Of(dataset));
  std::vector<Roots> all;
  for (const char* source : {"definitions", "proof_states"}) {
    MILLRACE_ASSIGN_OR_RETURN(all.emplace_back(),
                              FindRoots(library, dataset, numbers, source, options.examples));
  }
  MILLRACE_RETURN_IF_ERROR(CopyAsGraph(dataset, numbers, folder.path() / "graph", all));
  report.Note(fmt::format("{} nodes, {} files of Coq; batches of {}, one thread", numbers.nodes(),
                          made.files, options.size));
  for (const Roots& roots : all) {
    for (const bool stops : {true, false}) {
      MILLRACE_ASSIGN_OR_RETURN(const Pair pair, CompilePair(library, roots.source, stops));
      MILLRACE_RETURN_IF_ERROR(Measure(
          pair, roots, roots.source + (stops ? "" : ", behind definitions too"), options, report));
    }
  }
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  using namespace millrace;
  bench::Options options;
  millrace::CommandLine app("closures of the same graph as a Coq dataset and as a graph dataset",
                            argv[0]);
  app.AddOption("--nodes", &options.nodes, "nodes, about");
  app.AddOption("--dir", &options.dir, "folder for the data; default: that of temporary files");
  app.AddFlag("--keep", options.keep, "leaves the data there");
  app.AddOption("--examples", &options.examples, "examples of each source, at most");
  app.AddOption("--size", &options.size, "examples a batch").Positive();
  app.AddOption("--rounds", &options.rounds, "rounds of both").Positive();
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  if (const Status status = bench::Run(options); !status.ok()) {
    std::fprintf(stderr, "bench_kinds: %s\n", status.message().c_str());
    return 1;
  }
  return 0;
}
