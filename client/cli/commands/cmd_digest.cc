// `millrace digest`: prints every example of a pipeline's dataset as a line in the form of the
// golden files, or every batch of an epoch as a line of the batch log. It runs in one process,
// without a server; distributed runs are compared with its output.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/consume/batch_log.h"
#include "client/cli/numbers.h"
#include "client/cli/offline/example_digest.h"
#include "client/cli/offline/offline.h"
#include "client/cli/progress.h"
#include "client/coq/vocabulary.h"
#include "common/expand/expand.h"
#include "common/transport/convert/tables.h"
#include "server/kinds/coq/coq_dataset.h"
#include "server/kinds/coq/coq_parts.h"
#include "server/kinds/coq/node_labels.h"
#include "server/plan/pipeline_parts.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/tensors_part.h"

namespace millrace::cli {
namespace {

struct DigestOptions {
  OfflineOptions offline;
  std::uint64_t full = 0;
  std::optional<std::uint64_t> epoch;
  std::uint32_t world_size = 1;
  std::string from;
};

/// The first line: files, sizes and names.
Result<Json> Header(const std::string& dataset_id, const DatasetIndex& index,
                    bool restrict_to_spine, const Plan& plan) {
  MILLRACE_ASSIGN_OR_RETURN(NamedTables tables, DecodeTables(*plan.static_bytes()));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto vocabulary,
      CoqVocabulary::Decode(std::make_shared<const NamedTables>(std::move(tables))));
  Json header = Json::Object{{"format", 1}, {"dataset", dataset_id}};
  Json::Array files;
  for (std::uint32_t f = 0; f < index.files().size(); ++f) files.push_back(index.file_name(f));
  header["files"] = std::move(files);
  header["proof_states"] = plan.source()->examples();
  header["definition_clusters"] = index.clusters().size();
  const TextColumn& label_names = vocabulary->node_label_names();
  header["node_labels"] = label_names.size();
  header["edge_labels"] = plan.expand().edge_labels();
  header["base_node_labels"] = vocabulary->classes();
  header["tactics"] = vocabulary->tactics().size();
  Json::Array idents;
  Json::Array arguments;
  Json::Array names;
  Json::Array tactic_counts;
  for (const TacticEntry& tactic : vocabulary->tactics()) {
    idents.push_back(tactic.ident);
    arguments.push_back(tactic.arguments);
    names.push_back(tactic.base_text);
    tactic_counts.push_back(tactic.count);
  }
  header["tactic_idents"] = std::move(idents);
  header["tactic_args"] = std::move(arguments);
  header["tactic_names"] = std::move(names);
  header["tactic_counts"] = std::move(tactic_counts);
  StreamDigest name_digest;
  for (std::size_t i = 0; i < label_names.size(); ++i) name_digest.AddText(label_names[i]);
  header["definition_names_digest"] = name_digest.Finish();
  StreamDigest ident_digest;
  for (const std::int64_t ident : vocabulary->node_label_idents()) ident_digest.AddInt64(ident);
  header["definition_idents_digest"] = ident_digest.Finish();
  const NodeLabels labels(index, restrict_to_spine);
  std::vector<std::int32_t> in_spine(kNodeClasses, 1);
  for (std::uint32_t label = kNodeClasses; label < labels.size(); ++label) {
    in_spine.push_back(index.definitions()[labels.Definition(label)].on_spine != 0 ? 1 : 0);
  }
  StreamDigest spine_digest;
  spine_digest.AddArray(in_spine);
  header["in_spine_digest"] = spine_digest.Finish();
  return header;
}

/// Prints one line for every example of a plan's source, selected or not.
Status PrintExamples(const Plan& plan, std::string_view kind, std::uint64_t full) {
  const Source& source = *plan.source();
  const bool is_definition = kind == "definition";
  const std::unique_ptr<BatchScratch> scratch = plan.NewScratch();
  BufferPool pool;
  Progress progress(fmt::format("{}s", kind == "definition" ? kind : "proof state"), "examples",
                    source.examples());
  for (std::uint64_t e = 0; e < source.examples(); ++e) {
    const ExampleId id(e);
    const std::uint32_t split = plan.SplitLabel(id);
    const auto print_dropped = [&](std::string_view reason) {
      Json line = Json::Object{{"kind", kind}, {"id", e}};
      if (!is_definition) line["split"] = split;
      line["dropped"] = reason;
      return PrintLine(line.ToText());
    };
    progress.Add(1);
    if (!plan.Selects(id)) {
      MILLRACE_RETURN_IF_ERROR(print_dropped("filtered"));
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const PackedBatch> batch,
                              plan.BatchOf({&id, 1}, 0, *scratch));
    if (!batch->info().dropped.empty()) {
      MILLRACE_RETURN_IF_ERROR(
          print_dropped(source.facts().drop_reasons.NameOf(batch->info().dropped[0].reason)));
      continue;
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const DeliveredBatch> delivered,
                              Expand(*batch, DType::kInt32, pool));
    const bool with_arrays = full > 0;
    if (with_arrays) --full;
    MILLRACE_RETURN_IF_ERROR(PrintLine(
        ExampleLine(*delivered, plan.expand(), source.Describe(id), kind, e, split, with_arrays)
            .ToText()));
  }
  return OkStatus();
}

Status PrintAllExamples(LocalPlans& offline, std::uint64_t full) {
  if (!offline.pipeline().branches().empty()) {
    return InvalidArgument(
        "the pipeline has branches: only the batches of an epoch can be printed (--epoch)");
  }
  MILLRACE_ASSIGN_OR_RETURN(PlanParts parts, PartsOfPipeline(offline.pipeline()));
  parts.Edit<SplitPart>().take.reset();
  parts.Edit<ShufflePart>().seed.reset();
  parts.Edit<ChunkPart>() = {};
  parts.Edit<TensorsPart>() = {};  // a line has the source's tensors
  parts.Edit<CoqFieldsPart>() = {.global_context = GlobalContextField::kFull, .text = false};
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> dataset, offline.OpenDataset());
  const auto* coq = dynamic_cast<const CoqDataset*>(dataset.get());
  if (coq == nullptr) {
    return InvalidArgument(fmt::format(
        "dataset '{}' is of kind {}: only the batches of an epoch can be printed (--epoch)",
        offline.pipeline().dataset(), dataset->kind()));
  }
  parts.Edit<SourcePart>().name = "proof_states";
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> proof_states, offline.Compile(parts));
  parts.Edit<SourcePart>().name = "definitions";
  parts.Edit<FilterPart>().conditions.clear();  // they are about proof states
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> definitions, offline.Compile(parts));
  MILLRACE_ASSIGN_OR_RETURN(const Json header,
                            Header(offline.pipeline().dataset(), coq->index(),
                                   parts.Get<CoqNumberingPart>().restrict_to_spine, *proof_states));
  MILLRACE_RETURN_IF_ERROR(PrintLine(header.ToText()));
  MILLRACE_RETURN_IF_ERROR(PrintExamples(*proof_states, "proof_state", full));
  return PrintExamples(*definitions, "definition", full);
}

Status PrintBatches(LocalPlans& offline, const DigestOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, offline.Compile());
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan->facts().Steps(options.world_size));
  MILLRACE_ASSIGN_OR_RETURN(Position at, StepsBegin(steps, options.from, *options.epoch));
  const std::unique_ptr<BatchScratch> scratch = plan->NewScratch();
  Progress progress(fmt::format("epoch {}", *options.epoch), "batches",
                    steps.StepsFrom(at.example) * options.world_size);
  for (; at.epoch == *options.epoch; at = steps.Next(at)) {
    for (std::uint32_t rank = 0; rank < options.world_size; ++rank) {
      MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const PackedBatch> batch,
                                plan->Batch(at.epoch, steps.RankExamples(at, rank), *scratch));
      MILLRACE_RETURN_IF_ERROR(PrintLine(BatchLogLine(
          steps, at, rank, batch->payload_hash(), batch->info(), plan->source()->facts().drop_reasons)));
      progress.Add(1);
    }
  }
  return OkStatus();
}

Status RunDigest(const DigestOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(LocalPlans offline, OpenOffline(options.offline));
  if (options.epoch) return PrintBatches(offline, options);
  // Both sources are printed. Keys that only proof states use must not count as unused.
  OfflineOptions both = options.offline;
  both.overrides.push_back("source=proof_states");
  MILLRACE_ASSIGN_OR_RETURN(LocalPlans examples, OpenOffline(both));
  return PrintAllExamples(examples, options.full);
}

}  // namespace

void AddDigestCommand(Tool& tool) {
  const auto options = std::make_shared<DigestOptions>();
  CommandLine& command = tool.Add(
      "digest", "Print every example, or every batch of an epoch, as one line with its hash",
      "  millrace digest train.yaml --dataset stdlib=/data/stdlib > examples.jsonl\n"
      "  millrace digest train.yaml --dataset stdlib=/data/stdlib --epoch 0 --world-size 8\n"
      "  millrace digest train.yaml --dataset stdlib=/data/stdlib --epoch 2 --from 40960\n",
      [options] { return RunDigest(*options); });
  options->offline.AddTo(command);
  command
      .AddOption("--full", &options->full, "with the arrays of the first N examples of each kind")
      .TypeName("N")
      .Check(WholeNumber());
  command.AddOption("--epoch", &options->epoch, "print the batches of this epoch")
      .TypeName("E")
      .Check(WholeNumber(0, StepArithmetic::kMaxEpoch))
      .Excludes("--full");
  command.AddOption("--world-size", &options->world_size, "ranks that share the epoch")
      .TypeName("W")
      .Check(WholeNumber(1, kMaxWorldSize))
      .Needs("--epoch");
  command
      .AddOption("--from", &options->from,
                 "position in the epoch to begin at: examples that come before")
      .TypeName("POSITION")
      .Needs("--epoch");
}

}  // namespace millrace::cli
