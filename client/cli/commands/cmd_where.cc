// `millrace where`: says at which epoch, step, rank and row an example comes. It needs no server.
// It builds one batch for each epoch, since the row depends on the examples that are dropped before
// it.

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/offline/offline.h"
#include "common/base/parse_number.h"
#include "common/batch/batch.h"
#include "server/source/source.h"

namespace millrace::cli {
namespace {

struct WhereOptions {
  OfflineOptions offline;
  std::optional<std::uint64_t> example;
  std::optional<std::uint64_t> row;
  std::string branch;
  std::uint32_t world_size = 1;
  std::string epochs = "0";
  std::string from;
};

struct Epochs {
  std::uint64_t first;
  std::uint64_t last;
};

/// Parses "A-B" or "A".
Result<Epochs> ParseEpochs(const std::string& text) {
  const std::size_t dash = text.find('-');
  const auto parse = [](const std::string& number) {
    return ParseNumber<std::uint64_t>(number, {.max = StepArithmetic::kMaxEpoch});
  };
  const Result<std::uint64_t> first = parse(text.substr(0, dash));
  const Result<std::uint64_t> last =
      dash == std::string::npos ? first : parse(text.substr(dash + 1));
  if (!first.ok() || !last.ok() || *first > *last) {
    return InvalidArgument(
        fmt::format("--epochs {}: expected A-B with A at most B and B at most {}", text,
                    StepArithmetic::kMaxEpoch));
  }
  return Epochs{*first, *last};
}

/// Says why no epoch has the example, whose first chunk is `chunk`.
std::string WhyNot(const Plan& plan, ExampleId id, ExampleId chunk) {
  if (plan.PlacesOf(0, chunk).why == ExamplePlaces::Absence::kAbove) {
    return fmt::format(
        "example {} is in no epoch of this pipeline: its value is above all buckets, and "
        "batch.bucket.above: drop leaves it out",
        id.value());
  }
  return fmt::format(
      "example {} is in no epoch of this pipeline: its split label is {}; either split.take does "
      "not name this label, or a filter leaves the example out",
      id.value(), plan.SplitLabel(chunk));
}

/// The id of the dataset that an example comes from.
std::string DatasetOf(const LocalPlans& offline, const Plan& plan, ExampleId id) {
  const auto branches = plan.source()->branches();
  return branches.empty() ? offline.pipeline().dataset() : branches[BranchOf(branches, id)].dataset;
}

/// The row of chunk `chunk` of the example in its batch, or "-" if it was dropped. `planned` are
/// the chunks of the batch's range: an example is dropped with all of them, or with none.
std::string RowIn(const PackedBatch& batch, const Source& source,
                  std::span<const ExampleId> planned, ExampleId chunk) {
  std::vector<ExampleId> dropped;
  for (const DroppedExample& one : batch.info().dropped) dropped.push_back(one.id);
  std::uint64_t row = 0;
  for (const ExampleId id : planned) {
    const ExampleId example = source.ChunkOf(id).example;
    const bool built = std::find(dropped.begin(), dropped.end(), example) == dropped.end();
    if (id == chunk) return built ? std::to_string(row) : "-";
    row += built ? 1 : 0;
  }
  return "-";
}

/// "  dropped: REASON" for a dropped example.
std::string WhyDropped(const PackedBatch& batch, ExampleId id, const DropReasonNames& reasons) {
  for (const DroppedExample& dropped : batch.info().dropped) {
    if (dropped.id == id) return fmt::format("  dropped: {}", reasons.NameOf(dropped.reason));
  }
  return {};
}

/// "  chunk 3" for a chunk of an example, if the pipeline cuts examples, or "  packed row 3".
std::string ChunkIn(const Source& source, ExampleId id) {
  if (source.facts().packed) return fmt::format("  packed row {}", id.value());
  if (source.whole_examples() == source.examples()) return {};
  return fmt::format("  chunk {}", source.ChunkOf(id).number);
}

/// Prints where a chunk of an example comes in an epoch whose steps begin at `begin`.
Status PrintPlace(const Plan& plan, const StepArithmetic& steps, Position begin, ExampleId id,
                  const UnitRow& place, BatchScratch& scratch) {
  const Source& source = *plan.source();
  const std::optional<Location> at = steps.Locate(place.unit, begin);
  if (!at) {
    return PrintLine(fmt::format("{:>8} {} (place {}){}", begin.epoch,
                                 place.unit < begin.example
                                     ? "not: it lies before the position given"
                                     : "not: `remainder: drop` leaves it out",
                                 place.unit, ChunkIn(source, id)));
  }
  const ExampleRange units = steps.RankExamples(at->position, at->rank);
  MILLRACE_ASSIGN_OR_RETURN(const auto batch, plan.Batch(begin.epoch, units, scratch));
  const std::vector<ExampleId> planned = plan.ExamplesOf(begin.epoch, units);
  return PrintLine(fmt::format(
      "{:>8} {:>10} {:>6} {:>6} {:>12} {:>12}{}{}", begin.epoch, at->step, at->rank,
      RowIn(*batch, source, planned, id), at->position.example, place.unit, ChunkIn(source, id),
      WhyDropped(*batch, source.ChunkOf(id).example, source.facts().drop_reasons)));
}

/// Prints where an example comes in an epoch, or one of its chunks.
Status PrintPlaces(const Plan& plan, const StepArithmetic& steps, Position begin, ExampleId id,
                   BatchScratch& scratch) {
  const ExamplePlaces found = plan.PlacesOf(begin.epoch, id);
  for (const UnitRow& place : found.places) {
    MILLRACE_RETURN_IF_ERROR(PrintPlace(plan, steps, begin, id, place, scratch));
  }
  if (!found.places.empty()) return OkStatus();
  using enum ExamplePlaces::Absence;
  const char* const why = found.why == kFiltered ? "a filter leaves it out"
                          : found.why == kAbove  ? "its value is above all buckets"
                          : plan.planned_order().branches.empty()
                              ? "`remainder: drop` leaves it out"
                              : "the mix of this epoch leaves it out";
  return PrintLine(fmt::format("{:>8} not: {}{}", begin.epoch, why, ChunkIn(*plan.source(), id)));
}

/// The examples of the plan that the options name.
Result<std::vector<ExampleId>> PartsOf(const Plan& plan, const WhereOptions& options) {
  if (options.example.has_value() == options.row.has_value()) {
    return InvalidArgument("expected either --example or --row");
  }
  if (options.example) return FindParts(plan, options.branch, *options.example);
  MILLRACE_ASSIGN_OR_RETURN(const ExampleId row, FindRow(plan, options.branch, *options.row));
  return std::vector<ExampleId>{row};
}

/// The number of an example for people: that of the plan, or a document's own.
std::uint64_t ShownNumber(const Plan& plan, const WhereOptions& options, ExampleId id) {
  return plan.source()->facts().packed ? *options.example : id.value();
}

/// The pieces of a packed row, which its line has no room for: a line for each fact of them.
Status PrintPieces(const ExampleDescription& row) {
  for (const ExampleFact& fact : row.facts) {
    if (!fact.word.empty()) continue;
    MILLRACE_RETURN_IF_ERROR(PrintLine(fmt::format("  {:<9} {}", fact.name, FactText(fact))));
  }
  return OkStatus();
}

Status RunWhere(const WhereOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const auto epochs, ParseEpochs(options.epochs));
  MILLRACE_ASSIGN_OR_RETURN(LocalPlans offline, OpenOffline(options.offline));
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, offline.Compile());
  MILLRACE_ASSIGN_OR_RETURN(const StepArithmetic steps, plan->facts().Steps(options.world_size));
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<ExampleId> chunks, PartsOf(*plan, options));
  MILLRACE_ASSIGN_OR_RETURN(Position begin, StepsBegin(steps, options.from, epochs.first));
  const ExampleId id = options.row || plan->source()->facts().packed
                           ? chunks.front()
                           : plan->source()->ChunkOf(chunks.front()).example;
  if (std::none_of(chunks.begin(), chunks.end(),
                   [&](ExampleId chunk) { return plan->Selects(chunk); })) {
    return NotFound(WhyNot(*plan, id, chunks.front()));
  }

  const ExampleDescription description =
      options.row ? plan->source()->Describe(id)
                  : DescribeExample(*plan, options.branch, *options.example);
  std::string line = options.row ? description.title
                                 : fmt::format("example {}: {}", ShownNumber(*plan, options, id),
                                               description.title);
  for (const ExampleFact& fact : description.facts) {
    if (!fact.word.empty()) line += fmt::format(", {} {}", fact.word, FactText(fact));
  }
  if (!description.file.empty()) line += ", in " + description.file;
  line += ", of dataset " + DatasetWithKind(offline, DatasetOf(offline, *plan, id));
  MILLRACE_RETURN_IF_ERROR(PrintLine(line));
  if (options.row) MILLRACE_RETURN_IF_ERROR(PrintPieces(description));
  MILLRACE_RETURN_IF_ERROR(PrintLine(fmt::format("{:>8} {:>10} {:>6} {:>6} {:>12} {:>12}", "epoch",
                                                 "step", "rank", "row", "position", "place")));
  const std::unique_ptr<BatchScratch> scratch = plan->NewScratch();
  for (; begin.epoch <= epochs.last; begin = {begin.epoch + 1, 0}) {
    for (const ExampleId chunk : chunks) {
      MILLRACE_RETURN_IF_ERROR(PrintPlaces(*plan, steps, begin, chunk, *scratch));
    }
  }
  return OkStatus();
}

}  // namespace

void AddWhereCommand(Tool& tool) {
  const auto options = std::make_shared<WhereOptions>();
  CommandLine& command =
      tool.Add("where", "Say at which epoch, step, rank and row an example comes",
               "  millrace where train.yaml --dataset stdlib=/data/stdlib --example 1234 "
               "--world-size 8 --epochs 0-9\n",
               [options] { return RunWhere(*options); });
  options->offline.AddTo(command);
  command.AddOption("--example", &options->example, "number of the example")
      .TypeName("N")
      .Check(WholeNumber());
  command.AddOption("--row", &options->row, "number of a row of packed documents, in its place")
      .TypeName("N")
      .Check(WholeNumber());
  AddBranch(command, options->branch);
  command.AddOption("--world-size", &options->world_size, "ranks that share an epoch")
      .TypeName("W")
      .Check(WholeNumber(1, kMaxWorldSize));
  command.AddOption("--epochs", &options->epochs, "epochs to look at").TypeName("A-B");
  command
      .AddOption("--from", &options->from,
                 "position in the first of the epochs at which its steps begin: examples that "
                 "come before")
      .TypeName("POSITION");
}

}  // namespace millrace::cli
