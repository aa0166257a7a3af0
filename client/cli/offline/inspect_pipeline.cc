#include "client/cli/offline/inspect_pipeline.h"

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "client/cli/offline/describe_operations.h"
#include "client/cli/offline/describe_order.h"
#include "client/cli/progress.h"
#include "common/batch/batch.h"
#include "common/parameters/parameter.h"
#include "server/plan/text/canonical.h"

namespace millrace::cli {
namespace {

bool IsUnused(const StageConfig& stage, const std::string& parameter) {
  return std::find(stage.unused.begin(), stage.unused.end(), parameter) != stage.unused.end();
}

/// The parameters that have a meaning for the pipeline.
std::string OneLine(const StageConfig& stage) {
  std::vector<std::string> values;
  for (const Parameter& parameter : stage.type->parameters) {
    if (!stage.params.is_set(parameter.name) || IsUnused(stage, parameter.name)) continue;
    const std::string value = FormatParamValue(parameter, stage.params.values().at(parameter.name));
    // The first parameter of a scalar stage is what stands at the stage's own key.
    const bool is_whole =
        stage.type->scalar && parameter.name == stage.type->parameters.front().name;
    values.push_back(is_whole ? value : fmt::format("{}: {}", parameter.name, value));
  }
  return fmt::format("{}", fmt::join(values, ", "));
}

/// Sums over a sample of examples.
/// Examples of a sample that are built at once.
constexpr std::size_t kBatch = 64;

struct Sample {
  std::uint64_t examples = 0;
  bool has_graphs = false;
  std::uint64_t merged = 0;  // graphs that several examples share
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  std::uint64_t largest_nodes = 0;
  ExampleId largest;
  std::uint64_t bytes = 0;
  std::map<DropReason, std::uint64_t> dropped;
};

/// Number of rows between two neighbouring entries of a splits tensor.
std::int64_t RowsOf(const PackedBatch& batch, std::string_view splits, std::size_t graph) {
  const std::optional<std::size_t> tensor = batch.Find(splits);
  if (!tensor) return 0;
  return batch.ValueAt(*tensor, graph + 1) - batch.ValueAt(*tensor, graph);
}

bool HasGraphs(const PackedBatch& batch) {
  return batch.Find("node_splits") || batch.Find("edge_splits");
}

void Count(const PackedBatch& batch, Sample& sample) {
  const bool merged = batch.info().expand.merged;
  if (merged) ++sample.merged;
  sample.has_graphs = sample.has_graphs || HasGraphs(batch);
  for (std::size_t i = 0; i < batch.info().graphs() && batch.examples() > 0; ++i) {
    const auto nodes = static_cast<std::uint64_t>(RowsOf(batch, "node_splits", i));
    sample.nodes += nodes;
    sample.edges += static_cast<std::uint64_t>(RowsOf(batch, "edge_splits", i));
    if (nodes > sample.largest_nodes) {
      sample.largest_nodes = nodes;
      sample.largest = batch.info().example_ids[i];
    }
  }
  sample.examples += batch.examples();
  sample.bytes += batch.payload().size();
  for (const DroppedExample& dropped : batch.info().dropped) ++sample.dropped[dropped.reason];
}

Result<Sample> TakeSample(const Plan& plan, std::uint64_t wanted) {
  const std::vector<ExampleId> ids = SampleOf(plan, wanted);
  const std::unique_ptr<BatchScratch> scratch = plan.NewScratch();
  Progress progress("building a sample", "examples", ids.size());
  Sample sample;
  for (std::size_t begin = 0; begin < ids.size(); begin += kBatch) {
    const std::span<const ExampleId> some =
        std::span(ids).subspan(begin, std::min(kBatch, ids.size() - begin));
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, plan.BatchOf(some, 0, *scratch));
    Count(*batch, sample);
    progress.Add(some.size());
  }
  return sample;
}

std::string DescribeSample(const Sample& sample, const DropReasonNames& names) {
  std::uint64_t dropped = 0;
  std::vector<std::string> reasons;
  for (const auto& [reason, examples] : sample.dropped) {
    dropped += examples;
    reasons.push_back(fmt::format("{} {}", names.NameOf(reason), examples));
  }
  std::string text = fmt::format("sample         {} examples\n", sample.examples + dropped);
  text += fmt::format("  dropped      {}{}\n", dropped,
                      reasons.empty() ? "" : fmt::format(" ({})", fmt::join(reasons, ", ")));
  if (sample.examples == 0 || !sample.has_graphs) return text;
  const std::uint64_t count = sample.merged > 0 ? sample.merged : sample.examples;
  const auto graphs = static_cast<double>(count);
  const std::string largest = sample.merged > 0
                                  ? fmt::format("{} graphs of at most {} examples", count, kBatch)
                                  : fmt::format("example {}", sample.largest.value());
  text += fmt::format("  nodes        {:.1f} mean, {} largest ({})\n",
                      static_cast<double>(sample.nodes) / graphs, sample.largest_nodes, largest);
  text += fmt::format("  base edges   {:.1f} mean\n", static_cast<double>(sample.edges) / graphs);
  return text;
}

/// The stages, and the tensors that are defined.
std::string DescribeStagesOf(const Pipeline& pipeline) {
  std::string text =
      fmt::format("\n{:<12} {:<9} {:<32}  {}\n", "stage", "place", "fingerprint", "parameters");
  for (const StageConfig& stage : pipeline.stages()) {
    const std::vector<Parameter>& parameters = stage.type->parameters;
    const std::vector<std::string>& graphless = stage.type->sources_without_graphs;
    const bool says_nothing =
        std::find(graphless.begin(), graphless.end(), stage.params.source()) != graphless.end() ||
        std::all_of(parameters.begin(), parameters.end(),
                    [&](const Parameter& parameter) { return IsUnused(stage, parameter.name); });
    if (says_nothing) continue;
    text += fmt::format("{:<12} {:<9} {:<32}  {}\n", stage.type->name,
                        StagePlaceName(stage.type->place), stage.fingerprint, OneLine(stage));
  }
  return text + DescribeDefinitions(pipeline.tensors());
}

/// How documents were packed into rows.
std::string DescribePacks(const PackSummary& packs) {
  std::string text =
      fmt::format("documents      {} of {} examples\n", packs.documents, packs.source_examples);
  for (std::size_t label = 0; label < packs.examples_per_split.size(); ++label) {
    text += fmt::format("  split {:<6} {}\n", label, packs.examples_per_split[label]);
  }
  text += fmt::format("  filtered     {}\n", packs.filtered);
  if (packs.empty > 0) text += fmt::format("  empty        {}\n", packs.empty);
  if (packs.not_built > 0) text += fmt::format("  not built    {}\n", packs.not_built);
  if (packs.above > 0)
    text += fmt::format("  above        {} have more elements than a row\n", packs.above);
  text += fmt::format("  elements     {} in rows, {} left out\n", packs.elements, packs.left_out);
  const double all = static_cast<double>(packs.elements) + static_cast<double>(packs.padding);
  text += fmt::format("rows           {} of {} pieces, {} elements ({:.2f}%) padding\n", packs.rows,
                      packs.pieces, packs.padding, 100 * static_cast<double>(packs.padding) / all);
  return text;
}

std::string DescribeCounts(const PlanCounts& counts, const Source& source, const Order& order) {
  if (source.packs() != nullptr) {
    std::string text = DescribePacks(source.packs()->summary());
    if (counts.above > 0) {
      text += fmt::format("  above        {} (by batch.bucket.above: drop)\n", counts.above);
    }
    return text + fmt::format("  in an epoch  {}\n", order.rows());
  }
  std::string text = fmt::format("examples       {}\n", source.whole_examples());
  if (source.whole_examples() != source.examples()) {
    text +=
        fmt::format("  chunks       {}, which count as examples from here on\n", source.examples());
  }
  for (std::size_t label = 0; label < counts.examples_per_split.size(); ++label) {
    text += fmt::format("  split {:<6} {}\n", label, counts.examples_per_split[label]);
  }
  text += fmt::format("  filtered     {}\n", counts.filtered);
  if (counts.above > 0) {
    text += fmt::format("  above        {} (by batch.bucket.above: drop)\n", counts.above);
  }
  const bool cuts = counts.selected - counts.above > order.rows() && order.unit_is_batch();
  const std::uint64_t cut = cuts ? counts.selected - counts.above - order.rows() : 0;
  if (cut > 0) text += fmt::format("  cut          {} (by batch.remainder: drop)\n", cut);
  text += fmt::format("  in an epoch  {}\n", order.rows());
  return text;
}

/// One line for each tensor: the columns of docs/formats/batch.md, with this plan's types and
/// bounds.
std::string DescribeTensors(const std::vector<TensorSpec>& tensors) {
  std::string text = fmt::format("\n{:<22} {:<16} {:<24} {:<8} {}\n", "tensor", "kind", "dimension",
                                 "packed", "values");
  for (const TensorSpec& tensor : tensors) {
    std::string dimensions = tensor.dimension;
    for (const std::uint64_t extent : tensor.inner) dimensions += fmt::format(", {}", extent);
    const std::string values = IsInteger(tensor.dtype)
                                   ? fmt::format("{} to {}", tensor.min, tensor.max)
                                   : (tensor.dtype == DType::kBool ? "0 or 1" : "any");
    text += fmt::format("{:<22} {:<16} {:<24} {:<8} {}\n", tensor.path, TensorKindName(tensor.kind),
                        dimensions, DTypeName(tensor.dtype), values);
  }
  return text;
}

/// Only the last step of an epoch can have fewer units than ranks.
std::string DescribeEmptyRanks(const StepArithmetic& steps) {
  const std::uint64_t count = steps.StepsFrom(0);
  if (count == 0) return {};
  const Position last{0, (count - 1) * steps.stride()};
  const std::uint32_t ranks = steps.options().world_size;
  std::uint32_t empty = 0;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (steps.RankExamples(last, rank).count == 0) ++empty;
  }
  if (empty == 0) return {};
  return fmt::format("empty batches  {} of {} ranks have no example in {}; a mean over it is NaN\n",
                     empty, ranks,
                     count == 1 ? "the only step of an epoch" : "the last step of an epoch");
}

/// Steps of an epoch, and the first batch of rank 0.
Result<std::string> DescribeSteps(const Plan& plan, std::uint32_t world_size) {
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan.facts().Steps(world_size));
  std::string text =
      fmt::format("steps          {} an epoch at world size {}, {} {} a step, {} left out\n",
                  steps.StepsFrom(0), world_size, steps.stride(),
                  steps.options().unit_rows > 0 ? "batches" : "examples", steps.LeftOut());
  const Result<Position> start = steps.Start({});
  if (!start.ok()) return text + fmt::format("  no start     {}\n", start.status().message());
  text += DescribeBalance(plan.planned_order(), steps) + DescribeEmptyRanks(steps);
  const std::unique_ptr<BatchScratch> scratch = plan.NewScratch();
  MILLRACE_ASSIGN_OR_RETURN(const auto batch, plan.Batch(0, steps.RankExamples({}, 0), *scratch));
  const char* const unit = batch->info().expand.merged ? "examples in one graph"
                           : HasGraphs(*batch)         ? "graphs"
                                                       : "examples";
  text += fmt::format("first batch    {} {}, {} bytes packed\n", batch->examples(), unit,
                      batch->payload().size());
  if (const auto spec = plan.facts().Spec(world_size); spec.ok() && spec->max_batch_bytes() > 0) {
    text += fmt::format("largest batch  at most {} bytes packed\n", spec->max_batch_bytes());
  }
  return text;
}

}  // namespace

std::vector<ExampleId> SampleOf(const Plan& plan, std::uint64_t wanted) {
  const std::uint64_t all = plan.planned_order().order->units();
  const std::uint64_t size = wanted == 0 ? all : std::min(wanted, all);
  std::vector<ExampleId> ids;
  for (std::uint64_t i = 0; i < size; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(size);
    const std::uint64_t unit =
        size == all ? i : static_cast<std::uint64_t>(share * static_cast<double>(all));
    const std::vector<ExampleId> examples = plan.ExamplesOf(0, {unit, 1});
    // One of each unit is enough for a sample.
    ids.insert(ids.end(), examples.begin(), wanted == 0 ? examples.end() : examples.begin() + 1);
  }
  return ids;
}

std::string DescribePipeline(const Pipeline& pipeline) {
  std::string text = fmt::format("dataset{}       {}\n", pipeline.branches().empty() ? " " : "s",
                                 fmt::join(pipeline.datasets(), ", "));
  text += fmt::format("digest         {}\n", pipeline.digest().ToHex());
  text += fmt::format("order digest   {}\n", pipeline.order_digest().ToHex());
  for (const PipelineBranch& branch : pipeline.branches()) {
    text += fmt::format("\nbranch {}, of dataset {}", branch.name, branch.pipeline->dataset());
    text += DescribeStagesOf(*branch.pipeline);
  }
  if (!pipeline.branches().empty()) text += "\nall branches";
  text += DescribeStagesOf(pipeline);
  text += fmt::format("\ncanonical text\n");
  const std::string& canonical = pipeline.canonical_text();
  for (std::size_t begin = 0; begin < canonical.size();) {
    const std::size_t end = canonical.find('\n', begin);
    text += fmt::format("  {}\n", std::string_view(canonical).substr(begin, end - begin));
    begin = end + 1;
  }
  const auto list = [](const std::vector<std::string>& names) {
    return names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", "));
  };
  text += fmt::format("\nunused keys    {}\n", list(pipeline.unused_keys()));
  text += fmt::format("variants       {}\n", list(pipeline.variants()));
  return text;
}

std::string DescribeStages(const StageTable& table) {
  std::string text;
  for (const StageType& stage : table.stages()) {
    text += fmt::format("{}{} (runs in the {}, version {}): {}\n", text.empty() ? "" : "\n",
                        stage.name, StagePlaceName(stage.place), stage.version, stage.help);
    for (const Parameter& parameter : stage.parameters) {
      const bool no_default = std::holds_alternative<std::monostate>(parameter.default_value);
      const std::string otherwise =
          parameter.required && no_default
              ? "required"
              : fmt::format("default {}", FormatParamValue(parameter, parameter.default_value));
      text += fmt::format("  {}: {}\n      {}; {}\n", CanonicalKey(stage, parameter),
                          parameter.help, Expected(parameter), otherwise);
    }
  }
  return text;
}

Result<std::string> DescribePlan(const Plan& plan, const SampleOptions& options) {
  std::string text = fmt::format("fingerprint    {}\n", plan.facts().fingerprint().ToString());
  text += DescribeCounts(plan.counts(), *plan.source(), *plan.planned_order().order);
  text += DescribeBuckets(plan.planned_order());
  text += DescribeBranches(plan);
  MILLRACE_ASSIGN_OR_RETURN(const std::string steps, DescribeSteps(plan, options.world_size));
  MILLRACE_ASSIGN_OR_RETURN(const Sample sample, TakeSample(plan, options.examples));
  text += steps + DescribeSample(sample, plan.source()->facts().drop_reasons);
  if (sample.examples > 0) {
    text += fmt::format("  bytes        {:.0f} packed an example, mean\n",
                        static_cast<double>(sample.bytes) / static_cast<double>(sample.examples));
  }
  text += DescribeTensors(plan.tensors());
  return text;
}

}  // namespace millrace::cli
