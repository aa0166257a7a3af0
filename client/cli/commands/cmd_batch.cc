// `millrace batch`: builds one batch, or the graph of one example, without a server, and prints it.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/consume/batch_log.h"
#include "client/cli/numbers.h"
#include "client/cli/offline/describe_padding.h"
#include "client/cli/offline/describe_values.h"
#include "client/cli/offline/offline.h"
#include "client/viz/named_graph.h"
#include "common/base/tables.h"
#include "common/batch/batch.h"
#include "common/system/errno_status.h"
#include "common/transport/convert/tables.h"
#include "server/source/source.h"

namespace millrace::cli {
namespace {

struct BatchCommandOptions {
  OfflineOptions offline;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::string from;
  std::string out;
  std::string svg;
  std::optional<std::uint64_t> example;
  std::optional<std::uint64_t> row;
  std::vector<std::uint64_t> examples;
  std::string branch;
  bool values = false;
};

constexpr std::size_t kShownExamples = 5;  // with their values

/// A tensor of a packed batch, found by its name.
class Column {
 public:
  Column(const PackedBatch& batch, std::string_view path)
      : batch_(batch), tensor_(batch.Find(path).value_or(0)) {}
  std::int64_t operator[](std::size_t i) const { return batch_.ValueAt(tensor_, i); }

 private:
  const PackedBatch& batch_;
  std::size_t tensor_;
};

/// The number of rows that splits give to a graph; "-" for data that has no such splits, and for an
/// example that shares its graph.
std::string RowsText(const PackedBatch& batch, std::string_view splits, std::size_t graph) {
  if (!batch.Find(splits) || batch.info().expand.merged) return "-";
  const Column column(batch, splits);
  return std::to_string(column[graph + 1] - column[graph]);
}

/// Columns of facts are as wide as their heads at least.
std::size_t FactWidth(const ExampleFact& fact) {
  return std::max<std::size_t>(6, fact.word.size() + 1);
}

Status PrintTable(const PackedBatch& batch, const Source& source) {
  const auto name = [](const ExampleDescription& d) {
    return d.file.empty() ? d.title : d.title + ", " + d.file;
  };
  // All examples of a source have the same facts.
  std::string heads;
  const bool cut = source.examples() != source.whole_examples() && batch.Find("chunk");
  if (cut) heads = fmt::format(" {:>6}", "chunk");
  if (batch.examples() > 0) {
    for (const ExampleFact& fact : source.Describe(batch.info().example_ids[0]).facts) {
      if (!fact.word.empty()) heads += fmt::format(" {:>{}}", fact.word, FactWidth(fact));
    }
  }
  const bool has_graphs = batch.Find("node_splits") || batch.Find("edge_splits");
  if (has_graphs) heads = fmt::format(" {:>7} {:>7}", "nodes", "edges") + heads;
  MILLRACE_RETURN_IF_ERROR(
      PrintLine(fmt::format("{:>6} {:>10}{}  {}", "row", "example", heads, "name, file")));
  for (std::size_t row = 0; row < batch.examples(); ++row) {
    const ExampleId id = batch.info().example_ids[row];
    const ExampleDescription d = source.Describe(id);
    std::string facts;
    if (has_graphs) {
      facts = fmt::format(" {:>7} {:>7}", RowsText(batch, "node_splits", row),
                          RowsText(batch, "edge_splits", row));
    }
    if (cut) facts += fmt::format(" {:>6}", Column(batch, "chunk")[row]);
    for (const ExampleFact& fact : d.facts) {
      if (!fact.word.empty()) facts += fmt::format(" {:>{}}", FactText(fact), FactWidth(fact));
    }
    MILLRACE_RETURN_IF_ERROR(
        PrintLine(fmt::format("{:>6} {:>10}{}  {}", row, id.value(), facts, name(d))));
  }
  for (const DroppedExample& dropped : batch.info().dropped) {
    const ExampleDescription d = source.Describe(dropped.id);
    MILLRACE_RETURN_IF_ERROR(
        PrintLine(fmt::format("{:>6} {:>10} dropped: {}  {}", "-", dropped.id.value(),
                              source.facts().drop_reasons.NameOf(dropped.reason), name(d))));
  }
  std::string graphs = fmt::format("{} {}", batch.examples(), has_graphs ? "graphs" : "examples");
  if (batch.info().expand.merged && batch.Find("node_splits") && batch.Find("edge_splits")) {
    graphs = fmt::format("{} examples in one graph of {} nodes and {} edges", batch.examples(),
                         Column(batch, "node_splits")[1], Column(batch, "edge_splits")[1]);
  }
  return PrintLine(
      fmt::format("{}, {} dropped, {} bytes of payload, hash {}{}", graphs,
                  batch.info().dropped.size(), batch.payload().size(), batch.payload_hash().ToHex(),
                  has_graphs ? "; edges: as stored, without reversed and self edges" : ""));
}

/// The tensor that tells nodes apart: their labels, or else their numbers in the dataset.
const char* NodesOf(const PackedBatch& batch) {
  return batch.Find("node_label") || !batch.Find("node") ? "node_label" : "node";
}

/// The graph of a batch that holds one example. Edges without labels have label 0. InvalidArgument
/// for data without nodes and edges.
Result<LabelledGraph> GraphOf(const PackedBatch& batch) {
  for (const char* path :
       {"node_splits", NodesOf(batch), "edge_splits", "edge_source", "edge_target"}) {
    if (batch.Find(path)) continue;
    return InvalidArgument(
        fmt::format("--svg: there is no graph to draw: batches have no {}", path));
  }
  const Column node_label(batch, NodesOf(batch));
  const Column edge_source(batch, "edge_source");
  const Column edge_target(batch, "edge_target");
  const bool labelled = batch.Find("edge_label").has_value();
  const Column edge_label(batch, "edge_label");
  // The roots come first. An example has one root if no tensor says how many there are.
  const std::int64_t roots =
      batch.Find("num_definitions") ? Column(batch, "num_definitions")[0] : 1;
  LabelledGraph graph;
  graph.example = batch.info().example_ids[0].value();
  for (std::int64_t n = 0; n < Column(batch, "node_splits")[1]; ++n) {
    graph.node_labels.push_back(
        static_cast<std::uint64_t>(node_label[static_cast<std::size_t>(n)]));
    graph.roots.push_back(n < roots);
  }
  for (std::size_t e = 0; e < static_cast<std::size_t>(Column(batch, "edge_splits")[1]); ++e) {
    graph.edges.push_back({static_cast<std::uint32_t>(edge_source[e]),
                           static_cast<std::uint32_t>(edge_target[e]),
                           labelled ? static_cast<std::uint64_t>(edge_label[e]) : 0});
  }
  return graph;
}

Result<NamedGraph> NamesOf(const LabelledGraph& graph, const PackedBatch& batch, const Plan& plan) {
  MILLRACE_ASSIGN_OR_RETURN(const NamedTables tables, DecodeTables(*plan.static_bytes()));
  // Labels without names are shown by their numbers.
  const auto texts_of = [&tables](const char* table) {
    const auto found = tables.Texts(table, "name");
    return found.ok() ? **found : TextColumn();
  };
  const TextColumn nodes = texts_of("node_labels");
  const TextColumn edges = texts_of("edge_labels");
  LabelNames names;
  names.node_labels = nodes.size();
  names.edge_labels = edges.size();
  if (!batch.Find("node_label")) names.node_labels = 0;
  names.node = [&nodes](std::uint64_t label) { return std::string(nodes[label]); };
  names.edge = [&edges](std::uint64_t label) { return std::string(edges[label]); };
  const NamedTable* const classes = tables.Find("node_classes");
  names.node_classes = classes == nullptr ? names.node_classes : classes->spec.rows;
  if (!batch.Find("edge_label")) {
    names.edge_labels = 1;
    names.edge = [](std::uint64_t) { return std::string(); };
  }
  return NameGraph(graph, names);
}

Status PrintGraph(const LabelledGraph& graph, const NamedGraph& named) {
  MILLRACE_RETURN_IF_ERROR(PrintLine(fmt::format("{} nodes", named.nodes.size())));
  for (std::size_t n = 0; n < named.nodes.size(); ++n) {
    MILLRACE_RETURN_IF_ERROR(
        PrintLine(fmt::format("{:>8}  {} ({})", n, named.nodes[n].name, graph.node_labels[n])));
  }
  MILLRACE_RETURN_IF_ERROR(
      PrintLine(fmt::format("{} edges, without reversed and self edges", named.edges.size())));
  for (std::size_t e = 0; e < named.edges.size(); ++e) {
    const DrawnEdge& edge = named.edges[e];
    std::string line = fmt::format("{:>8} -> {}", edge.source, edge.target);
    if (!edge.name.empty()) {
      line = fmt::format("{:>8} -> {:<8} {} ({})", edge.source, edge.target, edge.name,
                         graph.edges[e].label);
    }
    MILLRACE_RETURN_IF_ERROR(PrintLine(line));
  }
  return OkStatus();
}

Status WriteSvg(const std::string& path, const NamedGraph& graph) {
  std::ofstream file(path);
  file << GraphSvg(graph);
  file.close();
  return file ? OkStatus() : ErrnoStatus(path, errno);
}

/// The range of examples that belongs to the epoch, step and rank given in the options.
Result<ExampleRange> RangeOf(const BatchCommandOptions& options, const StepArithmetic& steps) {
  if (options.rank >= options.world_size) {
    return InvalidArgument(fmt::format("--rank {}: expected 0 to {} with world size {}",
                                       options.rank, options.world_size - 1, options.world_size));
  }
  MILLRACE_ASSIGN_OR_RETURN(const Position start, StepsBegin(steps, options.from, options.epoch));
  const std::uint64_t first = steps.Step(start);
  const std::uint64_t last = first + steps.StepsFrom(start.example) - 1;
  if (options.step < first || options.step > last) {
    return OutOfRange(fmt::format("--step {}: epoch {} has the steps {} to {}{}", options.step,
                                  options.epoch, first, last,
                                  options.from.empty() ? "" : " from there on"));
  }
  const Position at{options.epoch, start.example + (options.step - first) * steps.stride()};
  return steps.RankExamples(at, options.rank);
}

Status RunBatch(const BatchCommandOptions& options) {
  if (!options.branch.empty() && !options.example && !options.row && options.examples.empty()) {
    return InvalidArgument("--branch: expected --example, --examples or --row beside it");
  }
  MILLRACE_ASSIGN_OR_RETURN(LocalPlans offline, OpenOffline(options.offline));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, offline.Compile());
  const std::unique_ptr<BatchScratch> scratch = plan->NewScratch();
  std::shared_ptr<const PackedBatch> batch;
  if (options.example) {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<ExampleId> parts,
                              FindParts(*plan, options.branch, *options.example));
    MILLRACE_ASSIGN_OR_RETURN(batch, plan->BatchOf(parts, options.epoch, *scratch));
  } else if (options.row) {
    MILLRACE_ASSIGN_OR_RETURN(const ExampleId row, FindRow(*plan, options.branch, *options.row));
    MILLRACE_ASSIGN_OR_RETURN(batch, plan->BatchOf({&row, 1}, options.epoch, *scratch));
  } else if (!options.examples.empty()) {
    std::vector<ExampleId> all;
    for (const std::uint64_t example : options.examples) {
      MILLRACE_ASSIGN_OR_RETURN(const std::vector<ExampleId> parts,
                                FindParts(*plan, options.branch, example));
      all.insert(all.end(), parts.begin(), parts.end());
    }
    MILLRACE_ASSIGN_OR_RETURN(batch, plan->BatchOf(all, options.epoch, *scratch));
  } else {
    MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan->facts().Steps(options.world_size));
    MILLRACE_ASSIGN_OR_RETURN(const ExampleRange range, RangeOf(options, steps));
    MILLRACE_ASSIGN_OR_RETURN(batch, plan->Batch(options.epoch, range, *scratch));
  }
  MILLRACE_RETURN_IF_ERROR(PrintTable(*batch, *plan->source()));
  if (const std::string padding = DescribePadding(*plan, *batch); !padding.empty()) {
    MILLRACE_RETURN_IF_ERROR(PrintLine(padding));
  }
  const std::size_t shown = options.values ? std::min(batch->examples(), kShownExamples) : 0;
  for (std::size_t row = 0; row < shown; ++row) {
    MILLRACE_RETURN_IF_ERROR(PrintLine(
        fmt::format("\nrow {}, example {}", row, batch->info().example_ids[row].value())));
    fmt::print("{}", DescribeValues(*batch, row));
  }
  const bool has_graph = batch->Find("edge_source") && batch->Find(NodesOf(*batch));
  if (options.example && batch->examples() == 1 && (has_graph || !options.svg.empty())) {
    MILLRACE_ASSIGN_OR_RETURN(const LabelledGraph graph, GraphOf(*batch));
    MILLRACE_ASSIGN_OR_RETURN(const NamedGraph named, NamesOf(graph, *batch, *plan));
    MILLRACE_RETURN_IF_ERROR(PrintGraph(graph, named));
    if (!options.svg.empty()) MILLRACE_RETURN_IF_ERROR(WriteSvg(options.svg, named));
  } else if (!options.svg.empty()) {
    return NotFound(
        fmt::format("--svg {}: the example was dropped, there is nothing to draw", options.svg));
  }
  if (!options.out.empty()) return WriteBatchFile(*batch, options.out);
  return OkStatus();
}

}  // namespace

void AddBatchCommand(Tool& tool) {
  const auto options = std::make_shared<BatchCommandOptions>();
  CommandLine& command = tool.Add(
      "batch", "Build one batch without a server, and print or save it",
      "  millrace batch train.yaml --dataset stdlib=/data/stdlib --epoch 1 --step 20 --rank 3 "
      "--world-size 8\n"
      "  millrace batch train.yaml --dataset stdlib=/data/stdlib --example 1234\n"
      "  millrace batch records.yaml --dataset games=/data/games --values\n"
      "  millrace batch neighbors.yaml --dataset papers=/data/papers --examples 4,0,2 --epoch 1\n",
      [options] { return RunBatch(*options); });
  options->offline.AddTo(command);
  command.AddOption("--epoch", &options->epoch, "epoch, from 0")
      .TypeName("E")
      .Check(WholeNumber(0, StepArithmetic::kMaxEpoch));
  command.AddOption("--step", &options->step, "step of the epoch, from 0")
      .TypeName("S")
      .Check(WholeNumber());
  command.AddOption("--rank", &options->rank, "rank whose batch it is")
      .TypeName("R")
      .Check(WholeNumber(0, kMaxWorldSize - 1));
  command.AddOption("--world-size", &options->world_size, "ranks that share an epoch")
      .TypeName("W")
      .Check(WholeNumber(1, kMaxWorldSize));
  command
      .AddOption("--from", &options->from,
                 "position at which the steps begin: examples of the epoch that come before")
      .TypeName("POSITION");
  command.AddFlag("--values", options->values,
                  "also print the values of the first examples, as the worker builds them");
  command.AddOption("--out", &options->out, "also save the packed batch").TypeName("FILE");
  CommandOption svg =
      command.AddOption("--svg", &options->svg, "draw the graph of --example into a file")
          .TypeName("FILE");
  command
      .AddOption("--example", &options->example,
                 "build this example alone, or all of its chunks, or all rows with a piece of it, "
                 "as in --epoch, and print its graph")
      .TypeName("N")
      .Check(WholeNumber())
      .Excludes("--step")
      .Excludes("--rank")
      .Excludes("--world-size")
      .Excludes("--from");
  command
      .AddOption("--examples", &options->examples,
                 "build one batch of these examples, in this order, as in --epoch")
      .TypeName("N,N,…")
      .Delimiter(',')
      .Check(WholeNumber())
      .Excludes("--example")
      .Excludes("--step")
      .Excludes("--rank")
      .Excludes("--world-size")
      .Excludes("--from");
  command
      .AddOption("--row", &options->row, "build this row of packed documents alone, as in --epoch")
      .TypeName("N")
      .Check(WholeNumber())
      .Excludes("--example")
      .Excludes("--examples")
      .Excludes("--step")
      .Excludes("--rank")
      .Excludes("--world-size")
      .Excludes("--from");
  svg.Needs("--example");
  AddBranch(command, options->branch);
}

}  // namespace millrace::cli
